"""`headwise.record`: remember what every attention receives and returns, while the model runs as it always does."""

import copy
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Protocol

import torch
from torch import nn

from headwise.attention.masks import Mask
from headwise.errors import HeadwiseError
from headwise.tracing.arrays import Place, Stream
from headwise.tracing.collect import Kept, check_calls, collect, keep
from headwise.tracing.collect_terms import Extent, own_mask
from headwise.tracing.identity import identify
from headwise.tracing.later import Later
from headwise.tracing.seam import SeamPlace, check_layers, places_of, tapped
from headwise.tracing.slab import Slab
from headwise.tracing.tap import Call, Tap
from headwise.tracing.tokens import make_stream, real_part, unnamed
from headwise.tracing.trace import MODES, Trace
from headwise.tracing.watch import Chunk, Watch
from headwise.transformer.model import Model

INPUTS = 1024
"""Texts of at most so many tokens keep the layers' inputs too, unless `inputs` says otherwise."""


@contextmanager
def record(
    model: nn.Module,
    layers: Iterable[int] | None = None,
    *,
    inputs: bool | None = None,
    tokenizer: Any = None,
) -> Generator["Recording"]:
    """Record the last run of the model in this thread; its kernels stay in use, and nothing is left behind.

    A cached run is one run, from the prompt to the last word. `layers` chooses some; `inputs` keeps each attention's
    input too (None: for texts of at most 1,024 tokens). A model of the transformers library may be given as it is;
    `tokenizer` then names its tokens.
    """
    if isinstance(model, nn.Module) and is_transformers(model) and not places_of(model):  # pyright: ignore[reportUnnecessaryIsInstance]
        from headwise.tracing.huggingface import open_library

        with open_library(model, layers, inputs, tokenizer) as recording:
            yield recording
        return
    places = check_model(model)
    wanted = check_layers(layers, {place.layer for place in places})
    places = [place for place in places if wanted is None or place.layer in wanted]
    recorder = Recorder(model, inputs)
    watch = Watch(model, recorder.slab)
    with watch.open(), tapped(places, recorder):
        yield Recording(recorder, watch, tokenizer or getattr(model, "tokenizer", None))


def check_model(model: Any) -> list[SeamPlace]:
    """The attentions of the model, or an error that says what can be recorded."""
    if not isinstance(model, nn.Module):
        raise HeadwiseError(f"model: got {type(model).__name__}, wanted a model of headwise or transformers")
    if hasattr(model, "_orig_mod"):
        raise HeadwiseError("model: got a compiled model, wanted the one it was compiled from (model._orig_mod)")
    places = places_of(model)
    if not places:
        mixers = {stack.mixer for stack in model.config.stacks.values()} if isinstance(model, Model) else ()
        for mixer in mixers:
            raise HeadwiseError(f"model: there is no attention in it: its tokens are mixed by mixer={mixer!r}")
        raise HeadwiseError(f"model: {type(model).__name__} has no attention that headwise or transformers made")
    return places


def is_transformers(model: nn.Module) -> bool:
    """Whether a model comes from the transformers library, which need not be installed."""
    return any(kind.__module__.startswith("transformers.") for kind in type(model).__mro__)


class Watching(Protocol):
    """What a recording asks of those who watch the streams of tokens."""

    chunks: dict[str, list[Chunk]]

    def can_run_again(self) -> bool: ...

    def run_again(self, edits: list[Tap]) -> float: ...


class Recorder(Tap):
    """Remembers the calls of the last run, by mode and layer."""

    def __init__(self, model: nn.Module, inputs: bool | None) -> None:
        super().__init__()
        self.model = model
        self.inputs = inputs
        self.slab = Slab()
        self.calls: dict[tuple[str, int], list[Kept]] = {}
        self.about: dict[str, str] = {}
        """Facts about the model as it was in the last run."""
        self.broken: str | None = None
        self._run: set[tuple[str, int]] = set()
        """The attentions that have been called in this run."""
        self._masks: dict[int, tuple[Mask, Mask]] = {}
        """By id: a mask of this run, and its copy."""

    def wants(self, mode: str, layer: int) -> bool:
        """Every attention it was opened on."""
        return True

    def finish(self, call: Call) -> None:
        """Remember a call; one that continues another is joined to it, any other begins anew."""
        assert call.received is not None
        name = call.mode, call.layer
        if not self._run or (call.fresh and name in self._run):
            self._begin()
        self._run.add(name)
        before = [] if call.fresh else self.calls.get(name, [])
        inputs = self.inputs
        if inputs is None:
            inputs = before[0].x is not None if before else call.received.query.shape[2] <= INPUTS
        if before and not self._follows(call, before[-1]):
            self.broken = f"{call.mode} layer {call.layer}: rows changed places (beam search), so record one at a time"
        if call.problem:
            self.broken = f"{call.mode} layer {call.layer}: {call.problem}"
        kept = keep(call, self._own(call.received.mask), inputs, bool(before), self.slab)
        self.calls[name] = [*before, kept]

    def _begin(self) -> None:
        """A run begins: what is said of the model is said of it now."""
        self.about = identify(self.model)
        self._run.clear()
        self._masks.clear()

    def _own(self, mask: Mask) -> Mask:
        """A copy of what the caller may write into, one for all layers that share it."""
        if not mask.needs_data:
            return mask
        if id(mask) not in self._masks:
            self._masks[id(mask)] = mask, own_mask(mask)
        return self._masks[id(mask)][1]

    def missing(self) -> set[int]:
        """Layers that were asked for and never came; only of a model whose layers its run must tell."""
        return set()

    def ran(self) -> int:
        """How many layers came."""
        return len({layer for _, layer in self.calls})

    def _follows(self, call: Call, before: Kept) -> bool:
        """Whether the cache still holds for each row what that row had; told by the newest key of the call before."""
        assert call.received is not None
        key = call.received.key
        if call.mode == "cross" or key.shape[0] != before.key.shape[0]:
            return key.shape[0] == before.query.shape[0]
        new = call.received.query.shape[2]
        if key.shape[2] <= new or not before.key.shape[2]:
            return True
        return torch.equal(key[:, :, -new - 1], before.key[:, :, -1])


class Recording:
    """What was recorded; `trace` is the first row of the batch, `row(i)` any other."""

    def __init__(self, recorder: Recorder, watch: Watching, tokenizer: Any) -> None:
        self.recorder, self.watch, self.tokenizer = recorder, watch, tokenizer

    @property
    def trace(self) -> Trace:
        """The first row of the batch."""
        return self.row(0)

    def row(self, row: int) -> Trace:
        """One row of the batch, without its filling."""
        calls = self._calls()
        batch = next(iter(calls.values()))[0].query.shape[0]
        if not 0 <= row < batch:
            raise HeadwiseError(f"row: got {row}, the batch has the rows 0 to {batch - 1}")
        parts = {name: real_part(chunks, row) for name, chunks in self.watch.chunks.items()}
        shared: dict[Any, Any] = {}
        places: dict[tuple[str, int], Callable[[], Place]] = {}
        counts: dict[str, int] = {}
        for mode, layer in sorted(calls, key=lambda name: (MODES.index(name[0]), name[1])):
            own = calls[mode, layer]
            check_calls(mode, layer, own)
            extent = extent_of(mode, own, parts)
            places[mode, layer] = partial(collect, mode, layer, own, row, extent, shared)
            for name, count in _sizes(mode, extent).items():
                counts[name] = max(count, counts.get(name, 0))
        streams = {
            name: partial(_stream, self.watch.chunks.get(name, []), row, parts.get(name), count, self.tokenizer)
            for name, count in counts.items()
        }
        return Trace(Later(places), Later(streams), self._about(calls), again=self._again(calls))

    def _calls(self) -> dict[tuple[str, int], list[Kept]]:
        recorder = self.recorder
        if not recorder.calls:
            where = "in another thread: record it there" if recorder.elsewhere else "inside the with block"
            problem = "the model ran " if recorder.elsewhere else "the model was not run "
            raise HeadwiseError(f"recording: nothing was recorded, {problem}{where}")
        if recorder.broken:
            raise HeadwiseError(f"recording: {recorder.broken}")
        for layer in sorted(recorder.missing()):
            raise HeadwiseError(f"layers: got {layer}, this model ran {recorder.ran()}")
        return recorder.calls

    def _about(self, calls: dict[tuple[str, int], list[Kept]]) -> dict[str, str]:
        first = next(iter(calls.values()))[0]
        kernels = sorted({call.kernel for own in calls.values() for call in own})
        dtype = str(first.query.dtype).removeprefix("torch.")
        return self.recorder.about | {"dtype": dtype, "kernel": ", ".join(kernels)}

    def _again(self, calls: dict[tuple[str, int], list[Kept]]) -> Callable[[], float] | None:
        """How to run the same unrecorded, with the edits that were open; None where it cannot be had."""
        if not self.watch.can_run_again():
            return None
        edits = dict.fromkeys(tap for own in calls.values() for call in own for tap in call.edits)
        watch = self.watch

        def again() -> float:
            with ExitStack() as opened:
                copies = [opened.enter_context(reopened(edit)) for edit in edits]
                return watch.run_again(copies)

        return again


@contextmanager
def reopened(edit: Any) -> Generator[Tap]:
    """An edit once more, in this thread."""
    again = copy.copy(edit)
    Tap.__init__(again)
    with again.open():
        yield again


def extent_of(mode: str, calls: list[Kept], parts: dict[str, slice | None]) -> Extent:
    """Which of the recorded queries and keys are text of this row."""
    first, last = calls[0].first, calls[-1].last
    first_key = calls[0].first_key
    queries = sum(call.query.shape[2] for call in calls)
    keys = calls[0].keys if mode == "cross" else last - first_key
    if mode == "cross":
        return Extent(_within(parts.get("decoder"), queries), _within(parts.get("encoder"), keys), 0, queries, keys)
    part = parts.get("encoder" if mode == "encoder" else "decoder")
    if part is None or first_key != first:
        return Extent(slice(0, queries), slice(0, keys), first_key, queries, keys)
    return Extent(_within(part, queries), _within(part, keys), first_key, queries, keys)


def _within(part: slice | None, count: int) -> slice:
    return slice(0, count) if part is None or part.stop > count else part


def _sizes(mode: str, extent: Extent) -> dict[str, int]:
    """How many tokens of each stream this attention knows."""
    queries, keys = (part.stop - part.start for part in (extent.queries, extent.keys))
    return {"decoder": queries, "encoder": keys} if mode == "cross" else {mode: keys}


def _stream(chunks: list[Chunk], row: int, part: slice | None, count: int, tokenizer: Any) -> Stream:
    part = part or slice(0, _length(chunks))
    unseen = count - (part.stop - part.start)
    return make_stream(chunks, row, part, unseen, tokenizer) if chunks and unseen >= 0 else unnamed(count)


def _length(chunks: list[Chunk]) -> int:
    return sum(chunk.ids.shape[1] for chunk in chunks if chunk.ids is not None)
