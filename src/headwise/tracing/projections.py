"""Projections: how q, k and v of one attention came from what it was given, with the model's own W_Q, W_K and W_V.

A trace holds no projections. They are read from the model when they are asked for, and given only where they make the
recorded q, k and v again: projected, then normed and rotated where the model does so.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from headwise.errors import HeadwiseError
from headwise.packed.kinds import BLOCK
from headwise.packed.linear import PackedLinear
from headwise.tracing.arrays import Array, Place
from headwise.tracing.collect import to_array
from headwise.tracing.receipt import EPSILON, PACKED
from headwise.tracing.seam import places_of
from headwise.tracing.trace import Trace


class Norm(NamedTuple):
    """What a projected vector of one head passes before it is rotated: rms, or layer, which takes the mean off too."""

    kind: str
    epsilon: float
    weight: Array
    bias: Array | None


@dataclass(frozen=True, eq=False)
class Projection:
    """x·Wᵀ + b, [token, heads · head_dim], and what follows it."""

    weight: Array
    """[heads · head_dim, dim]: its rows lie head by head."""
    bias: Array | None
    norm: Norm | None = None
    turned: bool = False
    """Whether it is rotated by position."""


@dataclass(frozen=True, eq=False)
class Projections:
    """All that makes q, k and v of one attention out of its input."""

    x: Array
    """[query, dim]: what W_Q is multiplied with."""
    memory: Array
    """[key, dim]: what W_K and W_V are multiplied with; x itself but in cross-attention."""
    query: Projection
    key: Projection
    value: Projection
    cosine: Array | None
    """[token, dims]: of the angles by which the first dims of q and k are turned, two halves alike."""
    sine: Array | None
    rounding: str | None
    """How x was rounded for packed weights: "int8", by blocks; x and memory stand here as they were rounded."""
    error: float
    """The largest difference to the q, k and v that were recorded."""
    allowed: float


def projections_of(model: Any, trace: Trace, mode: str, layer: int) -> Projections:
    """The projections of one attention of a trace; an error says why they cannot be had."""
    where = f"{mode} layer {layer}"
    place = trace.place(layer, mode)
    module = next((one.module for one in places_of(model) if (one.mode or mode, one.layer) == (mode, layer)), None)
    if module is None:
        raise HeadwiseError(f"{where}: which layers are W_Q, W_K and W_V is known of headwise's own models only")
    x = place.input
    memory = trace.streams["encoder"].after if mode == "cross" else x
    if x is None or memory is None:
        raise HeadwiseError(f"{where}: the record has not what the layer was given (record with inputs=True)")
    if len(x) != place.queries or len(memory) != place.keys:
        raise HeadwiseError(f"{where}: earlier tokens came from a cache, and the record has not their vectors")
    cosine, sine = (None, None) if mode == "cross" else _rotation(model, module, mode, place.keys)
    query, key = (
        _projection(getattr(module, name), getattr(module, f"{name}_norm"), cosine is not None, where)
        for name in ("query", "key")
    )
    value = _projection(module.value, None, False, where)
    rounding = next((one.rounding for one in (module.query, module.key) if isinstance(one, PackedLinear)), None)
    if rounding == "int8":
        x, memory = _in_blocks(x), _in_blocks(memory)
    found = Projections(x, memory, query, key, value, cosine, sine, rounding, 0.0, 0.0)
    error, allowed = _compared(found, place, trace.about.get("dtype", "float32"))
    if not error <= allowed:
        raise HeadwiseError(
            f"{where}: the model's W_Q, W_K and W_V give other numbers than the record, by {error:.2g}, allowed is "
            f"{allowed:.2g}; it was trained since, or packed several texts"
        )
    return Projections(x, memory, query, key, value, cosine, sine, rounding, error, allowed)


def projected(projection: Projection, found: Projections, rows: Array, dim: int) -> Array:
    """[head, token, dim] in float64: the vectors that a kernel receives, from what was given."""
    product = rows.astype(np.float64) @ projection.weight.astype(np.float64).T
    product = product if projection.bias is None else product + projection.bias
    vectors = product.reshape(len(rows), -1, dim).swapaxes(0, 1)
    norm = projection.norm
    if norm is not None:
        vectors = vectors - vectors.mean(-1, keepdims=True) if norm.kind == "layer" else vectors
        vectors = vectors / np.sqrt((vectors**2).mean(-1, keepdims=True) + norm.epsilon) * norm.weight
        vectors = vectors if norm.bias is None else vectors + norm.bias
    if not projection.turned or found.cosine is None or found.sine is None:
        return vectors
    dims = found.cosine.shape[1]
    turned, rest = vectors[..., :dims], vectors[..., dims:]
    crossed = np.concatenate([-turned[..., dims // 2 :], turned[..., : dims // 2]], axis=-1)
    return np.concatenate([turned * found.cosine + crossed * found.sine, rest], axis=-1)


def _projection(linear: Any, norm: Any, turned: bool, where: str) -> Projection:
    if not isinstance(linear, nn.Linear | PackedLinear):
        raise HeadwiseError(f"{where}: a projection is {type(linear).__name__}, wanted a linear layer")
    bias = None if linear.bias is None else to_array(linear.bias)  # pyright: ignore[reportUnnecessaryComparison]
    return Projection(to_array(linear.weight), bias, None if norm is None else _norm(norm), turned)


def _norm(norm: Any) -> Norm:
    if isinstance(norm, nn.LayerNorm):
        return Norm("layer", norm.eps, to_array(norm.weight), to_array(norm.bias))
    return Norm("rms", norm.epsilon, to_array(norm.weight), None)


def _rotation(model: Any, module: Any, mode: str, tokens: int) -> tuple[Array | None, Array | None]:
    """cos and sin of every position's angles, from the rotary that all layers share or the attention's own."""
    stack = model.stacks().get(mode) if hasattr(model, "stacks") else None
    rotary = module.positions if stack is None else stack.rotary
    if rotary is None or not hasattr(rotary, "frequencies"):
        return None, None
    with torch.no_grad():
        turn = rotary(torch.arange(tokens), torch.float32, tokens)
    return to_array(turn.cosine)[0, 0], to_array(turn.sine)[0, 0]


def _in_blocks(x: Array) -> Array:
    """Rounded as the packed kernel does: each block of 32 to whole steps of a 127th of its largest number."""
    blocks = x.astype(np.float32).reshape(len(x), -1, BLOCK)
    most = np.abs(blocks).max(axis=-1, keepdims=True)
    usable = most > 1e-30
    inverse = np.divide(np.float32(127), most, out=np.zeros_like(most), where=usable)
    return (np.round(blocks * inverse) * (most / np.float32(127))).reshape(x.shape)


def _compared(found: Projections, place: Place, dtype: str) -> tuple[float, float]:
    """The largest difference to what was recorded, and what rounding can make of it."""
    eps = max(EPSILON.get(dtype, EPSILON["float32"]), float(np.finfo(place.query.dtype).eps))
    share = 8 * eps + (0.0 if found.rounding in (None, "int8") else PACKED[found.rounding])
    error = allowed = 0.0
    parts = (
        (found.query, found.x, place.query),
        (found.key, found.memory, place.key),
        (found.value, found.memory, place.value),
    )
    for projection, rows, recorded in parts:
        dim = recorded.shape[2]
        if projection.weight.shape != (len(recorded) * dim, rows.shape[1]):
            return float("inf"), 0.0
        again = projected(projection, found, rows, dim)
        error = max(error, float(np.abs(again - recorded).max()))
        size = float(np.abs(rows).max()) * float(np.abs(projection.weight).sum(axis=1).max())
        size += 0.0 if projection.bias is None else float(np.abs(projection.bias).max())
        # A norm can make small vectors large, and what was rounded in them.
        allowed = max(
            allowed, share * (size if projection.norm is None else max(size, 64 * float(np.abs(again).max())))
        )
    return error, allowed
