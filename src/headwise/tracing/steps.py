"""The equation on recorded arrays, for the rows somebody looks at: in float64 step by step, or in bulk by blocks."""

from typing import NamedTuple

import numpy as np

from headwise.tracing.arrays import Array, Place, Truth, Whole

_BLOCK = 1 << 19
"""Scores computed at once: so many that they stay in a processor's cache."""


class Steps(NamedTuple):
    """Every step of one head for one query, in float64."""

    q: Array
    """[dim]."""
    k: Array
    """[key, dim]."""
    v: Array
    """[key, value_dim]."""
    products: Array
    """[key]: q·k."""
    scaled: Array
    """[key]: q·k times the scale, 1/√d."""
    bias: Array | None
    """[key]: what the position adds; None where the model adds nothing."""
    allowed: Truth
    """[key]: False where the query may not look."""
    scores: Array
    """[key]: scaled + bias, -∞ where not allowed: what the softmax is taken of."""
    weights: Array
    """[key]: the softmax; zeros where nothing may be seen."""
    weighted: Array
    """[key, value_dim]: each value times its weight."""
    z: Array
    """[value_dim]: their sum."""


class Wrote(NamedTuple):
    """What each key contributed to the layer's output through one head, in float64."""

    norms: Array
    """[key]: weight · ‖v W_O‖."""
    output: Array
    """[dim]: the head's own output vector, z W_O."""


class Joined(NamedTuple):
    """All heads of one query, side by side and through W_O, in float64."""

    z: Array
    """[head, value_dim], as the kernel returned them."""
    parts: Array
    """[head, dim]: each head's z times its block of W_O."""
    total: Array
    """[dim]: the sum of the parts."""
    bias: Array | None
    """[dim]: the bias of W_O."""
    result: Array
    """[dim]: total + bias, called Z_f in the courses."""


def take_steps(place: Place, head: int, query: int) -> Steps:
    """softmax(q·k · scale + bias, masked)·v for one head and query, with every step kept."""
    q = place.query[head, query].astype(np.float64)
    k = place.key[place.shared(head)].astype(np.float64)
    v = place.value[place.shared(head)].astype(np.float64)
    row = np.array([query])
    products = k @ q
    scaled = products * place.scale
    bias = None
    if place.bias is not None:
        bias = place.bias.rows(head, row, place.queries, place.keys)[0].astype(np.float64)
    allowed = place.mask.rows(head, row, place.queries, place.keys)[0]
    scores = np.where(allowed, scaled if bias is None else scaled + bias, -np.inf)
    weights = softmax(scores)
    weighted = weights[:, None] * v
    return Steps(q, k, v, products, scaled, bias, allowed, scores, weights, weighted, weighted.sum(0))


def take_weights(place: Place, heads: Whole, rows: Whole) -> Array:
    """[head, row, key]: the softmax of these rows, in the precision of the record."""
    result = np.empty((len(heads), len(rows), place.keys), dtype=place.query.dtype)
    for at, head in enumerate(heads):
        for part in blocks_of(rows, place.keys):
            result[at, part] = softmax(scores_of(place, int(head), rows[part]))
    return result


def scores_of(place: Place, head: int, rows: Whole) -> Array:
    """[row, key]: what the softmax is taken of."""
    scores = (place.query[head, rows] * place.query.dtype.type(place.scale)) @ place.key[place.shared(head)].T
    if place.bias is not None:
        scores += place.bias.rows(head, rows, place.queries, place.keys)
    if not place.mask.everything:
        np.copyto(scores, -np.inf, where=~place.mask.rows(head, rows, place.queries, place.keys))
    return scores


def softmax(scores: Array) -> Array:
    """The softmax over the last axis; a row of -∞ gives zeros."""
    highest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    result = scores - np.where(highest == -np.inf, 0, highest)
    np.exp(result, out=result)
    total = result.sum(axis=-1, keepdims=True)
    result /= np.where(total == 0, 1, total)
    return result


def blocks_of(rows: Whole, keys: int) -> list[slice]:
    """The rows in parts, so that the scores of a part stay small."""
    step = max(1, _BLOCK // max(keys, 1))
    return [slice(start, start + step) for start in range(0, len(rows), step)]


def written(place: Place, head: int, steps: Steps, weight: Array) -> Wrote:
    """What the steps of this head put into the layer's output through its block of W_O, `weight` [dim, value_dim]."""
    through = weight.astype(np.float64)
    return Wrote(steps.weights * np.linalg.norm(steps.v @ through.T, axis=-1), through @ steps.z)


def join(place: Place, query: int, weight: Array) -> Joined:
    """The heads of one query side by side, each through its block of W_O, and their sum."""
    z = place.mixed[:, query].astype(np.float64)
    by_head = weight.astype(np.float64).reshape(weight.shape[0], *z.shape)
    parts = np.einsum("hd,ohd->ho", z, by_head)
    bias = None if place.output_bias is None else place.output_bias.astype(np.float64)
    total = parts.sum(0)
    return Joined(z, parts, total, bias, total if bias is None else total + bias)
