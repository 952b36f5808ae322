"""ModelCache: what a stack of blocks remembers of the tokens so far."""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.attention.cache import KeyValueCache
from headwise.errors import UnsupportedError
from headwise.transformer.config import StackConfig


class ModelCache:
    """A KeyValueCache for each block, one more for the memory it attends to, and how many tokens each row has seen."""

    def __init__(self, config: StackConfig, capacity: int = 0) -> None:
        if config.mixer != "attention":
            raise UnsupportedError(
                f"cache: got mixer={config.mixer!r}, and only attention keeps keys and values; give it the whole text"
            )
        self.layers = [KeyValueCache(capacity, config.window(layer)) for layer in range(config.layers)]
        self.cross = [KeyValueCache() for _ in range(config.layers)] if config.cross else []
        self.seen = 0
        """Tokens so far, filling included."""
        self.kept: Tensor | None = None
        """[batch]: how many of them are tokens and not filling; None where all are."""
        self._counts_distances = any(config.windows) or config.positions.kind in ("buckets", "alibi")
        self._broken = False

    def check(self) -> None:
        """Raise where filling stands after tokens and before new ones, and the model counts the places between them."""
        if self._broken:
            raise ValueError("padding: got filling on the right and then more tokens, wanted it on the left")

    def advance(self, new: int, padding: Tensor | None) -> None:
        """Count the new tokens; called once by the stack, after all its blocks."""
        if padding is not None or self.kept is not None:
            fresh: Tensor | int = new if padding is None else padding.long().sum(1)
            self.kept = torch.as_tensor(fresh + (self.seen if self.kept is None else self.kept))
            if padding is not None and self._counts_distances:
                self._broken = not bool(padding[:, -1:].all())
        self.seen += new

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes what row rows[i] was, as beam search asks."""
        for cache in (*self.layers, *self.cross):
            cache.reorder(rows)
        if self.kept is not None:
            self.kept = self.kept.index_select(0, rows)


def token_positions(
    new: int, padding: Tensor | None, device: torch.device, seen: int = 0, kept: Tensor | None = None
) -> Tensor:
    """Where each of so many new tokens stands, [token] or [batch, token]: filling does not count."""
    if padding is None and kept is None:
        return torch.arange(seen, seen + new, device=device)
    before: Tensor | int = seen if kept is None else kept.unsqueeze(1)
    if padding is None:
        return before + torch.arange(new, device=device)
    return (before + padding.long().cumsum(1) - 1).clamp(min=0)
