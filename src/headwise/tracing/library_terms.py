"""The masks of the transformers library, in its several forms, as one Mask and one additive bias."""

from typing import Any

import torch
from torch import Tensor, nn

from headwise.attention.masks import Mask


def mask_and_bias(
    module: nn.Module, given: dict[str, Any], mode: str, known: dict[Any, Any]
) -> tuple[Mask, Tensor | None]:
    """Who may look at whom, and what is added to the scores; `known` remembers masks that layers share."""
    mask, bias = given.get("attention_mask"), given.get("position_bias")
    queries = given["query"].shape[2]
    if mask is None:
        causal = given.get("is_causal")
        causal = getattr(module, "is_causal", True) if causal is None else causal
        return Mask(causal=bool(causal) and queries > 1 and mode != "cross"), bias
    name = (mask.data_ptr(), tuple(mask.shape), mask.dtype)
    if name not in known:
        known[name] = (mask, *_read(mask))  # the mask itself too, so that no other takes its place in memory
    _, read, added = known[name]
    if added is not None:
        bias = added if bias is None else bias + added
    return read, bias


def _read(mask: Tensor) -> tuple[Mask, Tensor | None]:
    """[batch, key] of tokens; or True for what may be seen; or numbers that are added, very low ones to block."""
    if mask.ndim == 2:
        return Mask(padding=mask.bool()), None
    if mask.dtype == torch.bool:
        return Mask(allowed=mask), None
    blocked = mask <= torch.finfo(mask.dtype).min / 2
    added = mask.masked_fill(blocked, 0)
    return Mask(allowed=~blocked) if bool(blocked.any()) else Mask(), added if bool(added.any()) else None
