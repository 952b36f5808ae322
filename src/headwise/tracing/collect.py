"""From what the kernel received, call by call and for a whole batch, to the plain arrays of one row."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headwise.attention.masks import Mask
from headwise.attention.positions import DistanceBias
from headwise.errors import HeadwiseError
from headwise.packed.blocks import PackedWeight
from headwise.packed.linear import PackedLinear, widened
from headwise.tracing.arrays import Array, Place
from headwise.tracing.collect_terms import Extent, bias_of, visibility_of
from headwise.tracing.slab import Slab
from headwise.tracing.tap import Call, Tap


@dataclass(eq=False)
class Kept:
    """What is remembered of one call: tensors of the whole batch, [batch, head, token, head_dim]."""

    query: Tensor
    key: Tensor
    """Of a call that continues another one, only the new ones."""
    value: Tensor
    mixed: Tensor
    mask: Mask
    bias: Tensor | DistanceBias | None
    scale: float
    dropout: float
    first_key: int
    """The position of the first key that the kernel saw, and of the first query and after the last one."""
    first: int
    last: int
    keys: int
    """How many keys the kernel saw."""
    x: Tensor | None
    output: Tensor | None
    output_weight: Tensor | PackedWeight | None
    """W_O and its bias as they were in this run; of a call that continues another one, None."""
    output_bias: Tensor | None
    cuts: list[tuple[int, int, int]]
    replaced: set[int]
    kernel: str
    edits: list[Tap]
    """The edits that saw this call."""


def keep(call: Call, mask: Mask, inputs: bool, continues: bool, slab: Slab) -> Kept:
    """What will be looked at, copied; what a continued call has in its cache is known already."""
    seen = call.received
    assert seen is not None
    new = seen.key.shape[2]
    if continues:
        new = 0 if call.mode == "cross" else seen.query.shape[2]
    bias = seen.bias
    if isinstance(bias, DistanceBias):
        bias = DistanceBias(bias.values.detach(), bias.zero)
    weight, output_bias = (None, None) if continues else _parts_of(call.output_layer)
    return Kept(
        query=slab.keep(seen.query),
        key=slab.keep(seen.key[:, :, seen.key.shape[2] - new :]),
        value=slab.keep(seen.value[:, :, seen.key.shape[2] - new :]),
        mixed=slab.keep(seen.mixed),
        mask=mask,
        bias=bias.detach() if isinstance(bias, Tensor) else bias,
        scale=seen.scale,
        dropout=seen.dropout,
        first_key=call.first_key,
        first=call.first,
        last=call.last,
        keys=seen.key.shape[2],
        x=slab.keep(call.x) if inputs and call.x is not None else None,
        output=None if call.output is None else slab.keep(call.output),
        output_weight=slab.keep(weight) if isinstance(weight, Tensor) else weight,
        output_bias=None if output_bias is None else slab.keep(output_bias),
        cuts=list(call.cuts),
        replaced=set(call.replaced),
        kernel=call.kernel,
        edits=[tap for tap in call.taps if tap.edits],
    )


def collect(mode: str, layer: int, calls: list[Kept], row: int, extent: Extent, shared: dict[Any, Any]) -> Place:
    """One attention of one row, its calls joined; `shared` remembers masks and biases that layers have in common."""
    queries, keys = extent.queries, extent.keys
    inputs = None if any(call.x is None for call in calls) else _joined([call.x for call in calls], row, 1)
    outputs = None if any(call.output is None for call in calls) else _joined([call.output for call in calls], row, 1)
    weight, bias = calls[0].output_weight, calls[0].output_bias
    first_query, first_key = calls[0].first + queries.start, extent.first_key + keys.start
    cuts = [(head, query - first_query, key - first_key) for call in calls for head, query, key in call.cuts]
    return Place(
        mode=mode,
        layer=layer,
        query=_joined([call.query for call in calls], row, 2)[:, queries],
        key=_joined([call.key for call in calls], row, 2)[:, keys],
        value=_joined([call.value for call in calls], row, 2)[:, keys],
        mixed=_joined([call.mixed for call in calls], row, 2)[:, queries],
        scale=calls[0].scale,
        mask=visibility_of(mode, calls, row, extent, cuts, shared),
        bias=bias_of(calls, row, extent, shared),
        output_weight=None if weight is None else to_array(_widened(weight)),
        output_bias=None if bias is None else to_array(bias),
        output=None if outputs is None else outputs[queries],
        input=None if inputs is None else inputs[queries],
        replaced=tuple(sorted({head for call in calls for head in call.replaced})),
    )


def check_calls(mode: str, layer: int, calls: list[Kept]) -> None:
    """Raise an error for what cannot be reconciled, or not be joined."""
    where = f"{mode} layer {layer}"
    if any(call.dropout for call in calls):
        raise HeadwiseError(f"{where}: dropout {calls[0].dropout:g} was on, so weights·v is random; call model.eval()")
    if len({call.query.shape[0] for call in calls}) > 1:
        raise HeadwiseError(f"{where}: the batch changed its size while it was written; record one text at a time")


def _joined(parts: list[Any], row: int, axis: int) -> Array:
    """One row of all calls, without its batch axis."""
    arrays = [to_array(part[row]) for part in parts]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=axis - 1)


def to_array(x: Tensor) -> Array:
    """The numbers as float32, or float64 where they were; nothing is copied that need not be."""
    x = x.detach()
    x = x if x.dtype in (torch.float32, torch.float64) else x.float()
    return x.cpu().numpy()


def output_of(layer: Any) -> tuple[Array | None, Array | None]:
    """W_O [dim, heads · value_dim] and its bias, copied, so that later training does not change them."""
    weight, bias = _parts_of(layer)
    return (
        None if weight is None else to_array(_widened(weight)).copy(),
        None if bias is None else to_array(bias).copy(),
    )


def _parts_of(layer: Any) -> tuple[Tensor | PackedWeight | None, Tensor | None]:
    if layer is None:
        return None, None
    bias = getattr(layer, "bias", None)
    if isinstance(layer, PackedLinear):
        return layer.packed, bias
    conv = not isinstance(layer, nn.Linear) and type(layer).__name__ == "Conv1D"  # the transformers library's GPT-2
    return layer.weight.T if conv else layer.weight, bias


def _widened(weight: Tensor | PackedWeight) -> Tensor:
    """Packed weights do not change, so they are kept as they are until somebody asks."""
    return weight if isinstance(weight, Tensor) else widened(weight, torch.float32)
