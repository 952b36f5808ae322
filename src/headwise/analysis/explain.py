"""What `headwise explain` says about one text: the survey of all heads, the choice of word and head, and every step."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headwise.analysis.survey import KINDS, Survey, survey
from headwise.analysis.words import MERGED, Word, find_word, words_of
from headwise.errors import HeadwiseError
from headwise.tracing.receipt import Receipt, Row
from headwise.tracing.trace import Trace, check_head
from headwise.views.explanation import AllHeads, Check, Explanation, Look, Moved, Overview, ShownWord, Table

LOOKS = 6
"""Heads that are listed."""


@dataclass(frozen=True)
class Wanted:
    """What the reader asked for; None: what is most telling."""

    word: str | None = None
    layer: int | None = None
    head: int | None = None
    mode: str | None = None


def explain_trace(trace: Trace, wanted: Wanted, command: str = "", moved: Moved | None = None) -> Explanation:
    """Everything about one word and one head; refuses where the receipt does."""
    receipt = trace.receipt()
    receipt.require()
    mode = choose_mode(trace, wanted.mode)
    words = words_of(trace.query_stream(mode))
    first = len(trace.query_stream(mode).tokens) - trace.place(trace.layers_of(mode)[0], mode).queries
    named = None if wanted.word is None else find_word(words, wanted.word)
    if named is not None and words[named].tokens[0] < first:
        raise HeadwiseError(f"word: {words[named].text!r} came before the recording began")
    found = survey(trace, mode, named)
    word, why_word = (named, "you chose it") if named is not None else _choose_word(found)
    looks = _looks(found, word)
    layer, head, why_head = _choose_head(trace, mode, wanted, looks, found)
    query = words[word].tokens[-1]
    heads, no_heads = _all_heads(trace, layer, query - first, mode)
    several = [shown for shown in {*words, *found.keys} if len(shown.tokens) > 1]
    return Explanation(
        text=trace.query_stream(mode).text or " ".join(shown.text for shown in words),
        mode=mode,
        queries=_shown(words),
        keys=_shown(found.keys),
        overview=Overview(found.layers, KINDS, found.shares, len(found.rows), len(words)),
        word=word,
        why_word=why_word,
        looks=tuple(look for look in looks[:LOOKS] if look.weight > look.habit),
        why_head=why_head,
        merged=MERGED if several else None,
        table=_table(trace, layer, head, query, query - first, mode),
        heads=heads,
        no_heads=no_heads,
        receipt=_checks(receipt),
        unchecked=receipt.missing,
        about=dict(trace.about),
        command=command,
        moved=moved,
    )


def choose_mode(trace: Trace, mode: str | None) -> str:
    """The mode asked for; otherwise the encoder where there is one."""
    if mode is None:
        return trace.modes[0]
    if mode not in trace.modes:
        raise HeadwiseError(f"mode: got {mode!r}, this model has {', '.join(trace.modes)}")
    return mode


def _choose_word(found: Survey) -> tuple[int, str]:
    """The pronoun, or where there is none the word, from which some head looks most tellingly at another word."""
    best = found.telling.max(axis=(0, 1))
    pronouns = np.array([found.queries[row].pronoun for row in found.rows])
    pronouns &= np.isfinite(best)
    if pronouns.any():
        at = int(np.where(pronouns, best, -np.inf).argmax())
        return int(found.rows[at]), "a pronoun: which word does it stand for?"
    content = np.array([found.queries[row].content for row in found.rows]) & np.isfinite(best)
    at = int(np.where(content, best, -np.inf).argmax()) if content.any() else int(best.argmax())
    return int(found.rows[at]), "from here a head looks furthest beyond its habit"


def _looks(found: Survey, word: int) -> list[Look]:
    """What each head looks at most tellingly from this word, the most telling first."""
    at = int(np.flatnonzero(found.rows == word)[0])
    telling = found.telling[:, :, at]
    order = np.argsort(-telling, axis=None, kind="stable")
    looks: list[Look] = []
    for place in order:
        layer, head = (int(number) for number in np.unravel_index(place, telling.shape))
        if np.isfinite(telling[layer, head]):
            key, weight, habit = (part[layer, head, at] for part in (found.key, found.weight, found.habit))
            looks.append(Look(found.layers[layer], head, int(key), float(weight), float(habit)))
    return looks


def _choose_head(trace: Trace, mode: str, wanted: Wanted, looks: Sequence[Look], found: Survey) -> tuple[int, int, str]:
    """The layer and head asked for; what was left open is what is most telling."""
    layer, head = wanted.layer, wanted.head
    if layer is not None:
        trace.place(layer, mode)
    if head is not None:
        check_head(trace.place(found.layers[0] if layer is None else layer, mode), head)
    fitting = [look for look in looks if layer in (None, look.layer) and head in (None, look.head)]
    if layer is not None and head is not None:
        return layer, head, "you chose it"
    if not fitting:
        return layer or found.layers[0], head or 0, "no head looks at another content word; this is the first"
    best = fitting[0]
    among = "all heads" if layer is None and head is None else f"the heads of layer {layer}"
    among = among if head is None else f"the heads with number {head}"
    least = f"{best.habit:.2f}" if best.habit >= 0.005 else "almost nothing"
    furthest = (
        "it goes furthest beyond its habit" if best.weight > best.habit else "none goes beyond its habit, it nearly"
    )
    reason = (
        f"of {among} {furthest}: weight {best.weight:.2f} on "
        f"“{found.keys[best.word].text}”, where it gives {least} on average"
    )
    return best.layer, best.head, reason


def _table(trace: Trace, layer: int, head: int, token: int, query: int, mode: str) -> Table:
    place = trace.place(layer, mode)
    steps = trace.steps(layer, head, query, mode)
    wrote = None if place.output_weight is None else trace.wrote(layer, head, query, mode).norms
    tokens = trace.key_stream(mode).tokens
    return Table(
        layer=layer,
        head=head,
        query=token,
        dim=place.query.shape[2],
        scale=place.scale,
        tokens=tokens,
        positions=tuple(range(len(tokens))),
        wrote=wrote,
        q=steps.q,
        k=steps.k,
        v=steps.v,
        products=steps.products,
        scaled=steps.scaled,
        bias=steps.bias,
        allowed=steps.allowed,
        weights=steps.weights,
        weighted=steps.weighted,
        z=steps.z,
    )


def _all_heads(trace: Trace, layer: int, query: int, mode: str) -> tuple[AllHeads | None, str | None]:
    if trace.place(layer, mode).output_weight is None:
        return None, "W_O was not found in this model's structure"
    joined = trace.joined(layer, query, mode)
    return AllHeads(joined.z, joined.parts, joined.total, joined.bias, joined.result), None


def _checks(receipt: Receipt) -> tuple[Check, ...]:
    """The worst row of each check."""
    worst = [receipt.of(check) for check in dict.fromkeys(row.check for row in receipt.rows)]
    return tuple(Check(row.check, _where(row), row.error, row.allowed, row.ok) for row in worst if row is not None)


def _where(row: Row) -> str:
    return "the whole model" if row.layer is None else f"{row.mode} layer {row.layer}"


def _shown(words: Sequence[Word]) -> tuple[ShownWord, ...]:
    return tuple(ShownWord(word.text, word.tokens, word.special) for word in words)
