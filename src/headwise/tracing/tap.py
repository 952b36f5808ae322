"""What passes an attention while somebody watches or edits it: one Call, and the taps that see it.

A tap belongs to the thread that opened it: a model shared by threads is recorded and edited in that thread alone.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from headwise.attention.masks import Mask
from headwise.attention.positions import DistanceBias


@dataclass(eq=False)
class Received:
    """What the kernel received and returned, [batch, head, token, head_dim]."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Mask
    bias: Tensor | DistanceBias | None
    scale: float
    dropout: float
    mixed: Tensor


@dataclass(eq=False)
class Call:
    """One call of one attention, from its input to its output after W_O."""

    mode: str
    layer: int
    module: Any
    """The attention module."""
    x: Tensor | None
    first: int = 0
    """The position of the first query: how many tokens the cache has seen before."""
    fresh: bool = True
    """Whether nothing came before: no cache, or an empty one."""
    received: Received | None = None
    output: Tensor | None = None
    output_layer: Any = None
    """The linear layer that is W_O, where it is known."""
    kernel: str = ""
    cuts: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    """Edges that an edit cut in this call: head, and query and key as positions in the text."""
    replaced: set[int] = field(default_factory=set[int])
    """Heads whose z an edit replaced."""
    problem: str | None = None
    """What this attention does beside the equation, where it does."""
    taps: list["Tap"] = field(default_factory=list["Tap"])
    """Who sees this call."""

    @property
    def last(self) -> int:
        """The position after the last query."""
        assert self.received is not None
        return self.first + self.received.query.shape[2]

    @property
    def first_key(self) -> int:
        """The position of the first key that is still held."""
        assert self.received is not None
        return 0 if self.mode == "cross" else self.last - self.received.key.shape[2]


class Tap(ABC):
    """Sees every call of the attentions it wants, in the thread that opened it."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.elsewhere = False
        """Whether the model also ran in a thread that this tap does not see."""

    @property
    def edits(self) -> bool:
        """Whether it changes what the model computes."""
        return False

    @abstractmethod
    def wants(self, mode: str, layer: int) -> bool:
        """Whether this attention is of interest."""

    def change(self, call: Call, mixed: Tensor) -> Tensor:
        """What the kernel is taken to have returned; an edit gives something else than `mixed`."""
        return mixed

    def finish(self, call: Call) -> None:
        """See the whole call, after W_O."""
        return


class _Quiet(threading.local):
    """Which taps alone see calls in this thread, while the model runs for comparison."""

    only: list[Tap] | None = None

    def on(self) -> bool:
        """Whether such a run is under way in this thread."""
        return self.only is not None

    @contextmanager
    def __call__(self, *only: Tap) -> Generator[None]:
        """Let no other taps see what runs in this thread."""
        before, self.only = self.only, list(only)
        try:
            yield
        finally:
            self.only = before


quiet = _Quiet()


def mine(taps: list[Tap], mode: str, layer: int) -> list[Tap]:
    """The taps that see a call of this attention in this thread; the others learn that there was one."""
    here = threading.get_ident()
    for tap in taps:
        if tap.thread != here:
            tap.elsewhere = True
    if quiet.only is not None:
        taps = [tap for tap in taps if tap in quiet.only]
    return [tap for tap in taps if tap.thread == here and tap.wants(mode, layer)]


def let_change(call: Call) -> Tensor:
    """What the kernel returned, after all edits."""
    assert call.received is not None
    for tap in call.taps:
        call.received.mixed = tap.change(call, call.received.mixed)
    return call.received.mixed
