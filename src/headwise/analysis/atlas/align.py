"""Words to tokens: which tokens make each word; words that share a token are one."""

from dataclasses import dataclass
from typing import Any

from headwise.analysis.atlas.sentence import Sentence


@dataclass(frozen=True)
class Aligned:
    """A sentence as the model reads it."""

    ids: list[int]
    special: list[bool]
    units: list[list[int]]
    """The tokens of each unit: a word, or words that share a token."""
    unit_of: list[int]
    """For each word, its unit."""


def align(model: Any, sentence: Sentence) -> Aligned | str:
    """The sentence with its tokens, or why that cannot be."""
    if sentence.problem is not None:
        return sentence.problem
    encoded = model.tokenizer.annotate(sentence.text)
    ids, spans, special = list(encoded.ids), list(encoded.offsets), list(encoded.special)
    opening = opening_id(model, special)
    if opening is not None:
        ids, spans, special = [opening, *ids], [(0, 0), *spans], [True, *special]
    if model.config.context and len(ids) > model.config.context:
        return f"has {len(ids)} tokens, and the model allows {model.config.context}"
    tokens = _tokens_of(sentence, spans, special)
    for word, own in zip(sentence.words, tokens, strict=True):
        if not own:
            return f"{word.form!r} has no token of its own"
    units: list[list[int]] = []
    unit_of: list[int] = []
    for own in tokens:
        if units and own[0] <= units[-1][-1]:
            units[-1] += [token for token in own if token > units[-1][-1]]
        else:
            units.append(list(own))
        unit_of.append(len(units) - 1)
    return Aligned(ids, special, units, unit_of)


def opening_id(model: Any, special: list[bool]) -> int | None:
    """What is put before a text whose tokenizer puts nothing there: its heads would rest on the first word."""
    if special and special[0]:
        return None
    begin = model.config.begin_id
    return model.tokenizer.begin_id if begin is None else begin


def _tokens_of(sentence: Sentence, spans: list[tuple[int, int]], special: list[bool]) -> list[list[int]]:
    """For each word the tokens that overlap it; both run from left to right."""
    found: list[list[int]] = []
    first = 0
    for word in sentence.words:
        while first < len(spans) and (special[first] or spans[first][1] <= word.start):
            first += 1
        own: list[int] = []
        for token in range(first, len(spans)):
            start, end = spans[token]
            if start >= word.end and not special[token]:
                break
            if not special[token] and start < word.end and end > word.start:
                own.append(token)
        found.append(own)
    return found
