"""The mask and the bias of one row as descriptions: calls joined, filling cut away, squares avoided where possible."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from headwise.attention.masks import Mask
from headwise.attention.positions import DistanceBias, bias_tensor
from headwise.tracing.arrays import Array, Bias, Truth, Visibility, Whole

if TYPE_CHECKING:
    from headwise.tracing.collect import Kept


class Extent(NamedTuple):
    """Which part of the recorded rectangle is the text of one row, and not filling."""

    queries: slice
    keys: slice
    first_key: int
    """The position of the first recorded key."""
    all_queries: int
    all_keys: int


def own_mask(mask: Mask) -> Mask:
    """The same mask in tensors that nobody else writes into."""
    return replace(
        mask,
        padding=None if mask.padding is None else _copy(mask.padding),
        documents=None if mask.documents is None else _copy(mask.documents),
        allowed=None if mask.allowed is None else _copy(mask.allowed),
    )


def _copy(x: Tensor) -> Tensor:
    """A copy that stays as small as what was expanded to it."""
    return x[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in x.stride())].clone().expand_as(x)


def visibility_of(
    mode: str,
    calls: "list[Kept]",
    row: int,
    extent: Extent,
    cuts: list[tuple[int, int, int]],
    shared: dict[Any, Any],
) -> Visibility:
    """Who may look at whom, by flags where all calls agree on them, otherwise number by number."""
    causal, window = _flags(mode, calls)
    one_by_one = any(call.mask.allowed is not None for call in calls) or causal is None
    documents = None
    if one_by_one:
        found = _remembered(shared, ("allowed", *_names(calls)), row, lambda: _recognised(_allowed(calls, row, extent)))
        causal, window, allowed = found
    else:
        documents = _per_key(calls, "documents", row, extent)
        padding = _per_key(calls, "padding", row, extent)
        allowed = None if padding is None or padding.all() else padding[None, None].astype(np.bool_)
    edges = np.array(sorted(set(cuts)), dtype=np.int64).reshape(-1, 3) if cuts else None
    documents = None if documents is None else documents.astype(np.int64)
    return Visibility(bool(causal), window, documents, allowed, edges)


def _flags(mode: str, calls: "list[Kept]") -> tuple[bool | None, int | None]:
    """Whether causal, and the window; causal None where only a rectangle of numbers can say it."""
    if len(calls) == 1 or mode == "cross":
        flags = {(call.mask.causal, call.mask.window) for call in calls}
        return next(iter(flags)) if len(flags) == 1 else (None, None)
    # A single query stands at the last key: causal or not, it sees what is there. Later keys were not there yet.
    longer = [call for call in calls if call.last - call.first > 1]
    windows = {call.mask.window for call in calls}
    if len(windows) == 1 and all(call.mask.causal for call in longer):
        return True, windows.pop()
    return None, None


def _per_key(calls: "list[Kept]", field: str, row: int, extent: Extent) -> Whole | Truth | None:
    """The padding or document numbers of all keys, joined from the calls' newest."""
    parts: list[Any] = []
    for number, call in enumerate(calls):
        part: Tensor | None = getattr(call.mask, field)
        new = call.keys if number == 0 else call.key.shape[2]
        if part is None:
            parts.append(np.ones(new, dtype=np.bool_ if field == "padding" else np.int64))
        else:
            parts.append(part[row if part.shape[0] > 1 else 0, call.keys - new :].cpu().numpy())
    if all(getattr(call.mask, field) is None for call in calls):
        return None
    return np.concatenate(parts)[extent.keys]


def _allowed(calls: "list[Kept]", row: int, extent: Extent) -> Truth | None:
    """[head or 1, query, key]: each call's mask at its place in the rectangle; keys that came later are not seen."""
    blocks = [_lowered(call, row) for call in calls]
    if len(blocks) == 1 and blocks[0] is not None:
        found = blocks[0]
        queries = extent.queries if found.shape[1] > 1 else slice(None)
        return _compact(np.broadcast_to(found, (*found.shape[:2], extent.all_keys))[:, queries, extent.keys])
    heads = max((block.shape[0] for block in blocks if block is not None), default=1)
    whole = np.zeros((heads, extent.all_queries, extent.all_keys), dtype=np.bool_)
    at = 0
    for call, block in zip(calls, blocks, strict=True):
        start = call.first_key - extent.first_key
        rows, columns = slice(at, at + call.last - call.first), slice(start, start + call.keys)
        whole[:, rows, columns] = True if block is None else block
        at = rows.stop
    return _compact(whole[:, extent.queries, extent.keys])


def _lowered(call: "Kept", row: int) -> Truth | None:
    """[head or 1, query or 1, key or 1] of one row."""
    mask = call.mask.tensor(call.last - call.first, call.keys, call.query.device)
    return None if mask is None else _of_row(mask, row).cpu().numpy()


def _compact(allowed: Truth) -> Truth | None:
    """One row for all queries or one layer for all heads where they are equal; None where all is allowed."""
    if allowed.all():
        return None
    if len(allowed) > 1 and (allowed == allowed[:1]).all():
        allowed = allowed[:1]
    if allowed.shape[1] > 1 and (allowed == allowed[:, :1]).all():
        allowed = allowed[:, :1]
    return np.ascontiguousarray(allowed)


def _recognised(allowed: Truth | None) -> tuple[bool, int | None, Truth | None]:
    """Causal and window, where the numbers say nothing else; otherwise the numbers."""
    if allowed is None or allowed.shape[:2] == (1, 1) or len(allowed) > 1:
        return False, None, allowed
    queries, keys = allowed.shape[1:]
    distance = np.arange(keys - queries, keys)[:, None] - np.arange(keys)
    if np.array_equal(allowed[0], distance >= 0):
        return True, None, None
    window = int(allowed[0, -1].sum())
    if window and np.array_equal(allowed[0], (distance >= 0) & (distance < window)):
        return True, window, None
    return False, None, allowed


def bias_of(calls: "list[Kept]", row: int, extent: Extent, shared: dict[Any, Any]) -> Bias | None:
    """The bias by distance where it is one, otherwise number by number."""
    if all(call.bias is None for call in calls):
        return None
    if all(isinstance(call.bias, DistanceBias) for call in calls):
        return _by_distance([call.bias for call in calls if isinstance(call.bias, DistanceBias)], extent.all_queries)
    return _remembered(shared, ("bias", *_names(calls)), row, lambda: _dense_bias(calls, row, extent))


def _by_distance(parts: list[DistanceBias], queries: int) -> Bias:
    """The union of the distances that the calls knew; nought to words that came later, which nobody could see."""
    zero = max(part.zero for part in parts)
    after = max(queries, *(part.values.shape[1] - part.zero for part in parts))
    whole = torch.zeros(parts[0].values.shape[0], zero + after, dtype=_dtype(parts[0].values))
    for part in parts:
        start = zero - part.zero
        whole[:, start : start + part.values.shape[1]] = part.values
    return Bias(whole.numpy(), zero)


def _dense_bias(calls: "list[Kept]", row: int, extent: Extent) -> Bias:
    blocks: list[Array] = []
    for call in calls:
        if call.bias is None:
            blocks.append(np.zeros((1, 1, 1), dtype=np.float32))
        else:
            bias = _of_row(bias_tensor(call.bias, call.last - call.first, call.keys), row)
            blocks.append(bias.to(_dtype(bias)).cpu().numpy())
    sizes = max(map(len, blocks)), extent.all_queries, extent.all_keys
    whole = np.zeros(sizes, dtype=np.result_type(*blocks))
    at = 0
    for call, block in zip(calls, blocks, strict=True):
        start = call.first_key - extent.first_key
        whole[:, at : at + call.last - call.first, start : start + call.keys] = block
        at += call.last - call.first
    whole = whole[:, extent.queries, extent.keys]
    # Equal along every diagonal: a bias by distance, which is stored as one line a head.
    if np.array_equal(whole[:, 1:, 1:], whole[:, :-1, :-1]):
        line = np.concatenate([whole[:, -1], whole[:, 0, whole.shape[2] - whole.shape[1] + 1 :]], axis=1)
        return Bias(line, whole.shape[2] - 1)
    return Bias(np.ascontiguousarray(whole))


def _dtype(x: Tensor) -> torch.dtype:
    """What its numbers are kept in: float64 where they were, otherwise float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _of_row(x: Tensor, row: int) -> Tensor:
    """[head or 1, query or 1, key or 1] of something that broadcasts to [batch, head, query, key]."""
    x = x.view((1,) * (4 - x.ndim) + x.shape)
    return x[row if x.shape[0] > 1 else 0]


def _names(calls: "list[Kept]") -> list[Any]:
    """What tells a tensor that several layers share."""
    masks = [part for call in calls for part in (call.mask.allowed, call.mask.padding, call.mask.documents)]
    tensors = [part for part in [*masks, *(call.bias for call in calls)] if isinstance(part, Tensor)]
    flags = [(call.mask.causal, call.mask.window, call.first_key, call.keys, call.first, call.last) for call in calls]
    return [*(tensor.data_ptr() for tensor in tensors), *flags]


def _remembered(shared: dict[Any, Any], name: tuple[Any, ...], row: int, make: Any) -> Any:
    key = (*name, row)
    if key not in shared:
        shared[key] = make()
    return shared[key]
