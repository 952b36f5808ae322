"""Mask: a description of who may attend to whom. Kernels turn it into numbers as late as they can."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Mask:
    """Who may attend to whom; every part that is given must allow it, and True means "may attend".

    The last query stands at the last key: where there are fewer queries than keys (a cache holds earlier tokens),
    query i stands at position keys - queries + i.
    """

    causal: bool = False
    """No query sees a key that stands after it."""
    window: int | None = None
    """A query sees only keys less than this many positions away from it."""
    padding: Tensor | None = None
    """[batch, key] bool: the keys that are tokens and not filling."""
    documents: Tensor | None = None
    """[batch, key] integers: texts packed in one row; a query sees keys of its own number only."""
    allowed: Tensor | None = None
    """Any bool tensor that broadcasts to [batch, head, query, key]."""

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise ValueError(f"window: got {self.window}, wanted a positive number of positions")
        _check_part("padding", self.padding, (torch.bool,), 2, "[batch, key] of dtype bool")
        _check_part("documents", self.documents, (torch.int64, torch.int32), 2, "[batch, key] of integers")
        _check_part("allowed", self.allowed, (torch.bool,), None, "[batch, head, query, key] of dtype bool")

    def __and__(self, other: "Mask") -> "Mask":
        """What both masks allow."""
        if self.documents is not None and other.documents is not None:
            raise ValueError("documents: got them in both masks, wanted them in one")
        return Mask(
            causal=self.causal or other.causal,
            window=min((w for w in (self.window, other.window) if w is not None), default=None),
            padding=_both(self.padding, other.padding),
            documents=self.documents if other.documents is None else other.documents,
            allowed=_both(self.allowed, other.allowed),
        )

    @property
    def everything(self) -> bool:
        """Whether nothing is blocked, whatever the sizes."""
        return not self.causal and self.window is None and not self.needs_data

    @property
    def only_causal(self) -> bool:
        """Whether the future is blocked and nothing else."""
        return self.causal and self.window is None and not self.needs_data

    @property
    def needs_data(self) -> bool:
        """Whether it depends on a tensor, and not on positions alone."""
        return self.padding is not None or self.documents is not None or self.allowed is not None

    def may_leave_nothing(self, queries: int, keys: int) -> bool:
        """Whether some query might see no key at all."""
        return (
            self.padding is not None
            or self.allowed is not None
            or ((self.causal or bool(self.window)) and queries > keys)
        )

    def reach(self, first: int, last: int, queries: int, keys: int) -> tuple[int, int]:
        """The keys [start, stop) that the queries [first, last) might see, by their positions alone."""
        offset = keys - queries
        start = 0 if self.window is None else max(0, first + offset - self.window + 1)
        stop = keys
        if self.causal:
            stop = min(keys, last + offset)
        elif self.window is not None:
            stop = min(keys, last - 1 + offset + self.window)
        return min(start, keys), max(stop, min(start, keys))

    def tensor(
        self,
        queries: int,
        keys: int,
        device: torch.device | str | None = None,
        rows: tuple[int, int] | None = None,
        columns: tuple[int, int] | None = None,
    ) -> Tensor | None:
        """The bool tensor that broadcasts to [batch, head, query, key] or a block of it; None where all is allowed."""
        first, last = rows or (0, queries)
        start, stop = columns or (0, keys)
        here = torch.arange(first, last, device=device).unsqueeze(1) + (keys - queries)
        there = torch.arange(start, stop, device=device)
        parts: list[Tensor] = []
        if self.causal and stop - 1 > first + keys - queries:
            parts.append(there <= here)
        if self.window is not None:
            parts.append(there > here - self.window)
            if not self.causal:
                parts.append(there < here + self.window)
        if self.padding is not None:
            parts.append(self.padding[:, None, None, start:stop])
        if self.documents is not None:
            own = self.documents[:, first + keys - queries : last + keys - queries]
            parts.append((own[:, :, None] == self.documents[:, None, start:stop]).unsqueeze(1))
        if self.allowed is not None:
            parts.append(_block(self.allowed, (first, last), (start, stop)))
        if not parts:
            return None
        result = parts[0]
        for part in parts[1:]:
            result = result & part
        return result

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """Raise a ValueError where a part does not fit these sizes."""
        for name, part in (("padding", self.padding), ("documents", self.documents)):
            if part is not None and (part.shape[1] != keys or part.shape[0] not in (1, batch)):
                raise ValueError(f"mask.{name}: got shape {list(part.shape)}, wanted [{batch}, {keys}] (batch, key)")
        if self.documents is not None and queries > keys:
            raise ValueError(f"mask.documents: got {queries} queries for {keys} keys, wanted at most as many as keys")
        if self.allowed is not None:
            wanted = (batch, heads, queries, keys)
            shape = self.allowed.shape
            fits = len(shape) <= 4 and all(
                got in (1, want) for got, want in zip(reversed(shape), reversed(wanted), strict=False)
            )
            if not fits:
                raise ValueError(f"mask: got shape {list(shape)}, wanted it to broadcast to {list(wanted)}")

    def last_keys(self, keys: int, total: int) -> "Mask":
        """The same mask when of `total` keys only the last are still there."""
        if keys >= total or not self.needs_data:
            return self
        parts = (("padding", self.padding), ("documents", self.documents), ("allowed", self.allowed))
        cut = {name: part[..., total - keys :] for name, part in parts if part is not None and _spans(part, total)}
        return replace(self, **cut)


def as_mask(mask: Mask | Tensor | None) -> Mask:
    """A bool tensor is a mask too, and None blocks nothing."""
    if mask is None:
        return NOTHING_BLOCKED
    if isinstance(mask, Mask):
        return mask
    if isinstance(mask, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        return Mask(allowed=mask)
    raise ValueError(f"mask: got {type(mask).__name__}, wanted a Mask, a bool tensor or None")


def _spans(part: Tensor, keys: int) -> bool:
    return part.ndim > 0 and part.shape[-1] == keys


def _both(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _block(allowed: Tensor, rows: tuple[int, int], columns: tuple[int, int]) -> Tensor:
    """The named rows and columns of a tensor in which either axis may stand for all (size 1)."""
    if allowed.ndim > 1 and allowed.shape[-2] > 1:
        allowed = allowed[..., rows[0] : rows[1], :]
    if allowed.ndim > 0 and allowed.shape[-1] > 1:
        allowed = allowed[..., columns[0] : columns[1]]
    return allowed


def _check_part(name: str, part: Tensor | None, kinds: tuple[torch.dtype, ...], axes: int | None, wanted: str) -> None:
    if part is None:
        return
    if not isinstance(part, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"mask.{name}: got {type(part).__name__}, wanted a tensor {wanted}")
    if part.dtype not in kinds or (axes is not None and part.ndim != axes):
        kind = str(part.dtype).removeprefix("torch.")
        raise ValueError(f"mask.{name}: got shape {list(part.shape)} of dtype {kind}, wanted {wanted}")


NOTHING_BLOCKED = Mask()
