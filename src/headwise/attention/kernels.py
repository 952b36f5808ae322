"""The equation, fast: kernels with one signature, chosen by name or by "auto", which says why."""

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

from torch import Tensor

from headwise.attention.blocks import blocks
from headwise.attention.equation import attention_steps
from headwise.attention.fused import sdpa
from headwise.attention.masks import Mask, as_mask
from headwise.attention.positions import DistanceBias


class Kernel(Protocol):
    """softmax(QKᵀ·scale + bias, masked)·V for [batch, head, token, head_dim]; key and value may have fewer heads."""

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Mask,
        bias: Tensor | DistanceBias | None,
        scale: float,
        dropout: float,
    ) -> Tensor:
        """The mixed values, [batch, head, query, head_dim]."""
        ...


class KernelChoice(NamedTuple):
    """Which kernel "auto" takes, and why."""

    name: str
    reason: str


def equation(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask,
    bias: Tensor | DistanceBias | None,
    scale: float,
    dropout: float,
) -> Tensor:
    """The taught form: every step is computed and kept until the end."""
    return attention_steps(query, key, value, mask, bias, scale, dropout).mixed


KERNELS: dict[str, Kernel] = {"equation": equation, "sdpa": sdpa, "blocks": blocks}


def _auto(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask,
    bias: Tensor | DistanceBias | None,
    scale: float,
    dropout: float,
) -> Tensor:
    """The kernel that suits these sizes, this mask and this bias."""
    name = _choose(query.shape[2], key.shape[2], mask, bias).name
    return KERNELS[name](query, key, value, mask, bias, scale, dropout)


LONG = 4096
"""Keys from which on a [query, key] tensor is not built where a description will do."""

_ONE_QUERY = KernelChoice("sdpa", "one query needs one row of scores only")
_NOTHING_BLOCKED = KernelChoice("sdpa", "nothing is blocked: torch's fused attention without a mask")
_FUTURE_BLOCKED = KernelChoice("sdpa", "only the future is blocked: torch's fused causal attention")
_SMALL = KernelChoice("sdpa", "a mask or bias for {queries} queries and {keys} keys is small: torch's fused attention")
_WINDOW = KernelChoice("blocks", "a window of {window} leaves most of the {keys} keys out of reach")
_LARGE = KernelChoice("blocks", "a [{queries}, {keys}] mask or bias would be large, and blocks build none")


def _choose(queries: int, keys: int, mask: Mask, bias: Tensor | DistanceBias | None) -> KernelChoice:
    """What "auto" takes for these sizes; the reason is written out only when somebody asks."""
    if queries == 1:
        return _ONE_QUERY
    if bias is None and mask.everything:
        return _NOTHING_BLOCKED
    if bias is None and mask.only_causal and queries == keys:
        return _FUTURE_BLOCKED
    if mask.window is not None and keys >= 4 * mask.window and queries * keys >= 1024 * 1024:
        return _WINDOW
    described = mask.window is not None or mask.documents is not None or isinstance(bias, DistanceBias)
    chunk = mask.causal and (mask.needs_data or queries != keys)
    if keys >= LONG and queries * keys >= LONG * LONG // 4 and (described or chunk):
        return _LARGE
    return _SMALL


def find_kernel(kernel: str | Kernel) -> Kernel:
    """The kernel of this name; a callable is one already."""
    if not isinstance(kernel, str):
        return kernel
    if kernel == "auto":
        return _auto
    if kernel not in KERNELS:
        raise ValueError(f"kernel: got {kernel!r}, wanted one of {', '.join(['auto', *KERNELS])}")
    return KERNELS[kernel]


def explain_kernel(
    query: Tensor, key: Tensor, mask: Mask | Tensor | None = None, bias: Tensor | DistanceBias | None = None
) -> KernelChoice:
    """Which kernel "auto" takes for these tensors, and why."""
    described, queries, keys = as_mask(mask), query.shape[2], key.shape[2]
    name, reason = _choose(queries, keys, described, bias)
    return KernelChoice(name, reason.format(queries=queries, keys=keys, window=described.window))


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask | Tensor | None = None,
    bias: Tensor | DistanceBias | None = None,
    scale: float | None = None,
    kernel: str | Callable[..., Tensor] = "auto",
    dropout: float = 0.0,
) -> Tensor:
    """softmax(QKᵀ/√d + bias, masked)·V for tensors [batch, head, token, head_dim], by the kernel of your choice."""
    described = as_mask(mask)
    check_tensors(query, key, value, described, bias)
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout: got {dropout}, wanted a number from 0 to below 1")
    return find_kernel(kernel)(query, key, value, described, bias, check_scale(scale, query.shape[-1]), dropout)


def check_scale(scale: float | None, dim: int) -> float:
    """1/√d where none is given; anything but a finite number is refused."""
    if scale is None:
        return 1 / math.sqrt(dim) if dim else 1.0
    if not math.isfinite(scale):
        raise ValueError(f"scale: got {scale}, wanted a finite number")
    return scale


def check_tensors(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask, bias: Tensor | DistanceBias | None = None
) -> None:
    """Raise a ValueError that names the argument that does not fit."""
    for name, part in (("query", query), ("key", key), ("value", value)):
        if part.ndim != 4:
            raise ValueError(f"{name}: got shape {list(part.shape)}, wanted [batch, head, token, head_dim]")
        if part.dtype != query.dtype or not part.dtype.is_floating_point:
            raise ValueError(f"{name}: got dtype {part.dtype}, wanted that of query, a floating-point one")
    batch, heads, queries, dim = query.shape
    if key.shape[-1] != dim:
        raise ValueError(f"key: got head_dim {key.shape[-1]}, wanted query's {dim}")
    if key.shape[:3] != value.shape[:3]:
        raise ValueError(
            f"value: got shape {list(value.shape)}, wanted [batch, head, token] like key's {list(key.shape)}"
        )
    if key.shape[0] != batch:
        raise ValueError(f"key: got batch {key.shape[0]}, wanted query's {batch}")
    if heads and (not key.shape[1] or heads % key.shape[1]):
        raise ValueError(f"key: got {key.shape[1]} heads, wanted a number that divides query's {heads}")
    mask.check(batch, heads, queries, key.shape[2])
    check_bias(bias, batch, heads, queries, key.shape[2])


def check_bias(bias: Tensor | DistanceBias | None, batch: int, heads: int, queries: int, keys: int) -> None:
    """Raise a ValueError where the bias does not broadcast to [batch, head, query, key]."""
    if bias is None:
        return
    if isinstance(bias, DistanceBias):
        if bias.values.shape[0] not in (1, heads) or bias.zero < keys - 1 or bias.values.shape[1] < bias.zero + queries:
            raise ValueError(
                f"bias: got {list(bias.values.shape)} values (zero at {bias.zero}), wanted {heads} heads and "
                f"the distances from {-(keys - 1)} to {queries - 1}"
            )
        return
    wanted = (batch, heads, queries, keys)
    if bias.ndim > 4 or any(g not in (1, w) for g, w in zip(reversed(bias.shape), reversed(wanted), strict=False)):
        raise ValueError(f"bias: got shape {list(bias.shape)}, wanted it to broadcast to {list(wanted)}")
