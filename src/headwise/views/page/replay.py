"""One recorded head computed again, from arrays rounded to a number type: what the page will draw."""

from typing import Any

import numpy as np

from headwise.tracing.arrays import Place
from headwise.views.page.data import Array


def attend(place: Place, head: int, rows: int | None = None, kind: Any = np.float32) -> tuple[Array, Array]:
    """The weights and z of the first `rows` queries of a head."""
    shared, chosen = place.shared(head), np.arange(place.queries if rows is None else min(rows, place.queries))
    query, key, value = (
        array.astype(kind).astype(np.float32)
        for array in (place.query[head, chosen], place.key[shared], place.value[shared])
    )
    scores = query @ key.T
    scores *= np.float32(place.scale)
    if place.bias is not None:
        bias = place.bias.rows(head, chosen, place.queries, place.keys)
        scores += bias.astype(kind).astype(np.float32)
    if not place.mask.everything:
        scores[~place.mask.rows(head, chosen, place.queries, place.keys)] = -np.inf
    highest = scores.max(axis=1, keepdims=True)
    scores -= np.where(np.isinf(highest), 0, highest)
    weights = np.exp(scores, out=scores)
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return weights, weights @ value
