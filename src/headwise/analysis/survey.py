"""Where every head looks, and which of them tell something about a word; computed by blocks, never kept as squares.

A head's look from one word at another is telling when its weight is larger than its habit: what it gives on average,
from the other words, to whatever stands at that distance, or to that very word.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headwise.analysis.words import Word, merge, words_of
from headwise.tracing.arrays import Array, Truth, Whole
from headwise.tracing.trace import Trace

KINDS = ("first or special", "itself", "previous", "next", "same word", "far", "near")
"""Each look is counted under the first that fits; far: at least so many words away."""
FAR = 5
MOST = 1024
"""Words from which on a sample of the rows is taken."""
SAMPLE = 256


@dataclass(frozen=True, eq=False)
class Survey:
    """Where the heads of one mode look."""

    mode: str
    layers: tuple[int, ...]
    queries: list[Word]
    keys: list[Word]
    rows: Whole
    """The query words that were looked at, by number."""
    shares: Array
    """[layer, head, kind]: how the weight is shared among the kinds, the mean over the rows."""
    key: Whole
    """[layer, head, row]: the content word that each row looks at most tellingly; -1 for none."""
    weight: Array
    """[layer, head, row]: with what weight."""
    habit: Array
    """[layer, head, row]: what this head gives there by habit."""

    @property
    def telling(self) -> Array:
        """[layer, head, row]: weight beyond habit."""
        return np.where(self.key >= 0, self.weight - self.habit, -np.inf)


def survey(trace: Trace, mode: str, always: int | None = None) -> Survey:
    """Look at all heads of one mode; of a long text at a sample of words, and `always` at this one."""
    layers = trace.layers_of(mode)
    keys = words_of(trace.key_stream(mode))
    first = len(trace.query_stream(mode).tokens) - trace.place(layers[0], mode).queries
    queries = words_of(trace.query_stream(mode))
    rows = _rows(queries, first, always)
    kinds = _kinds(mode, queries, keys, rows)
    heads = trace.heads
    shares = np.zeros((len(layers), heads, len(KINDS)))
    key = np.full((len(layers), heads, len(rows)), -1)
    weight, habit = np.zeros(key.shape), np.zeros(key.shape)
    candidates = _candidates(mode, queries, keys, rows)
    chosen = [queries[row] for row in rows]
    tokens = [token - first for word in chosen for token in word.tokens]
    for at, layer in enumerate(layers):
        for head in range(trace.place(layer, mode).heads):
            looks = merge(trace.weights(layer, head, tokens, mode), chosen, keys)
            shares[at, head] = _shares(looks, kinds)
            key[at, head], weight[at, head], habit[at, head] = _telling(mode, looks, rows, candidates)
    return Survey(mode, layers, queries, keys, rows, shares, key, weight, habit)


def _rows(queries: Sequence[Word], first: int, always: int | None) -> Whole:
    """The words that look: those recorded, no special ones, and not the very first, which has no choice."""
    seen = [n for n, word in enumerate(queries) if word.tokens[0] >= first]
    known = [n for n in seen if n == always or (n and not queries[n].special)] or seen
    if len(known) > MOST:
        kept = {known[int(at)] for at in np.linspace(0, len(known) - 1, SAMPLE)}
        seen = [n for n, word in enumerate(queries) if word.tokens[0] >= first]
    known = [n for n in seen if n == always or (n and not queries[n].special)] or seen
    if len(known) > MOST:
        kept = {known[int(at)] for at in np.linspace(0, len(known) - 1, SAMPLE)}
        known = [n for n in known if n in kept or n == always]
    return np.array(known)


def _kinds(mode: str, queries: Sequence[Word], keys: Sequence[Word], rows: Whole) -> Whole:
    """[row, key]: the number of the kind of look."""
    distance = np.arange(len(keys)) - rows[:, None]
    special = np.array([word.special or not number for number, word in enumerate(keys)])
    texts = np.array([word.text.lower() for word in keys])
    same = texts == np.array([queries[row].text.lower() for row in rows])[:, None]
    everywhere = np.broadcast_to(special, distance.shape)
    if mode == "cross":
        return np.select([everywhere, same], [0, 4], len(KINDS) - 1)
    tests = [everywhere, distance == 0, distance == -1, distance == 1, same, np.abs(distance) >= FAR]
    return np.select(tests, list(range(len(tests))), len(KINDS) - 1)


def _shares(looks: Array, kinds: Whole) -> Array:
    totals = np.bincount(kinds.ravel(), weights=looks.ravel(), minlength=len(KINDS))
    return totals / max(len(looks), 1)


def _candidates(mode: str, queries: Sequence[Word], keys: Sequence[Word], rows: Whole) -> Truth:
    """[row, key]: other content words; the first token is none, for heads rest there."""
    content = np.array([word.content and (number > 0 or mode == "cross") for number, word in enumerate(keys)])
    if not content.any():
        content = np.array([not word.special for word in keys])
    result = np.repeat(content[None], len(rows), axis=0)
    texts = np.array([word.text.lower() for word in keys])
    for at, row in enumerate(rows):
        result[at] &= texts != queries[row].text.lower()
    return result


def _telling(mode: str, looks: Array, rows: Whole, candidates: Truth) -> tuple[Whole, Array, Array]:
    """For each row the candidate with most weight beyond habit: its number, the weight and the habit."""
    habit = _mean_of_others(looks, np.broadcast_to(np.arange(looks.shape[1]), looks.shape))
    if mode != "cross":
        distance = np.arange(looks.shape[1]) - rows[:, None]
        habit = np.maximum(habit, _mean_of_others(looks, distance - distance.min()))
    beyond = np.where(candidates & (looks > 0), looks - habit, -np.inf)
    best = beyond.argmax(axis=1)
    each = np.arange(len(rows))
    found = np.isfinite(beyond[each, best])
    return np.where(found, best, -1), looks[each, best], habit[each, best]


def _mean_of_others(looks: Array, groups: Whole) -> Array:
    """For each look the mean of the other looks of its group, where they were possible at all."""
    possible = (looks > 0).ravel()
    flat, values = groups.ravel(), looks.ravel()
    sums = np.bincount(flat, weights=values)[flat]
    counts = np.bincount(flat, weights=possible)[flat]
    return ((sums - values) / np.maximum(counts - possible, 1)).reshape(looks.shape)
