"""`headwise.edit`: change what a head returns, at the kernel and before W_O, while all else runs as it does."""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headwise.attention.equation import attention_steps
from headwise.attention.positions import bias_tensor
from headwise.errors import HeadwiseError
from headwise.tracing.record import check_model, is_transformers
from headwise.tracing.seam import places_of, tapped
from headwise.tracing.tap import Call, Received, Tap


@dataclass(frozen=True)
class Knockout:
    """Replace z of one head at every position: by zeros, its mean over the positions, or z of another position."""

    layer: int
    head: int
    how: Literal["zero", "mean", "resample"] = "zero"
    mode: str | None = None
    """encoder, decoder or cross; may be left out where the model has one only."""
    generator: torch.Generator | None = None
    """What "resample" draws positions with; one draw for each length of text."""


@dataclass(frozen=True)
class Cut:
    """Forbid one head to look from one token at another; positions count from the first token."""

    layer: int
    head: int
    query: int
    key: int
    mode: str | None = None


Edit = Knockout | Cut


@contextmanager
def edit(model: nn.Module, *edits: Edit) -> Generator[None]:
    """Run the model with these edits, in this thread; afterwards it is as it was."""
    editor = Editor(model, edits)
    with editor.open():
        yield
    editor.check_done()


class Editor(Tap):
    """Applies edits to the calls they name."""

    def __init__(self, model: nn.Module, edits: tuple[Edit, ...]) -> None:
        super().__init__()
        self.model = model
        self.of_library = is_transformers(model)
        self.modes = _modes(model, self.of_library)
        self.given = tuple(self._checked(edit) for edit in edits)
        self.done: set[Edit] = set()
        self.ran = False
        self.draws: dict[tuple[Edit, int], Tensor] = {}

    @property
    def edits(self) -> bool:
        """It does change what the model computes."""
        return True

    def open(self) -> AbstractContextManager[Any]:
        """Let the edits work until this is closed."""
        if self.of_library:
            from headwise.tracing.library_seam import library_tapped

            return library_tapped(self.model, self)
        named = {(edit.mode, edit.layer) for edit in self.given}
        return tapped([place for place in places_of(self.model) if (place.mode, place.layer) in named], self)

    def wants(self, mode: str, layer: int) -> bool:
        """Whether an edit names this attention."""
        self.ran = True
        return any((edit.mode in (mode, None)) and edit.layer == layer for edit in self.given)

    def change(self, call: Call, mixed: Tensor) -> Tensor:
        """z after the cuts and the knockouts of this attention, in that order."""
        here = [edit for edit in self.given if edit.mode in (call.mode, None) and edit.layer == call.layer]
        for edit in here:
            if edit.head >= mixed.shape[1]:
                raise HeadwiseError(f"{_name(edit)}: head: wanted 0 to {mixed.shape[1] - 1}")
        mixed = self._cut(call, [edit for edit in here if isinstance(edit, Cut)], mixed)
        for edit in here:
            if isinstance(edit, Knockout):
                mixed = self._knock_out(call, edit, mixed)
        return mixed

    def check_done(self) -> None:
        """Raise an error for edits that never met what they name, where the model did run."""
        if self.elsewhere and not self.ran:
            raise HeadwiseError("edit: the model ran in another thread, where this edit does not work: open it there")
        for edit in self.given if self.ran else ():
            if edit not in self.done:
                raise HeadwiseError(f"{_name(edit)}: never came: no such layer or position was run")

    def _knock_out(self, call: Call, edit: Knockout, mixed: Tensor) -> Tensor:
        if edit.how != "zero" and not call.fresh:
            problem = f"how={edit.how!r} needs the whole text at once; with a cache only 'zero' can be had"
            raise HeadwiseError(f"{_name(edit)}: {problem}")
        self.done.add(edit)
        call.replaced.add(edit.head)
        old = mixed[:, edit.head]
        new = torch.zeros_like(old)
        if edit.how == "mean":
            new = _mean(call, old).expand_as(old)
        elif edit.how == "resample":
            new = old[:, self._draw(edit, old.shape[1]).to(old.device)]
        return _with_head(mixed, edit.head, new)

    def _draw(self, edit: Knockout, tokens: int) -> Tensor:
        if (edit, tokens) not in self.draws:
            self.draws[edit, tokens] = torch.randperm(tokens, generator=edit.generator)
        return self.draws[edit, tokens]

    def _cut(self, call: Call, cuts: list[Cut], mixed: Tensor) -> Tensor:
        """Only the rows that lose an edge are computed again; all others stay as the kernel returned them."""
        rows: dict[tuple[int, int], list[int]] = {}
        for cut in cuts:
            if call.first <= cut.query < call.last:
                rows.setdefault((cut.head, cut.query), []).append(cut.key)
                self._note(call, cut)
        if rows:
            assert call.received is not None
            mixed = mixed.clone()
            for (head, query), keys in rows.items():
                row, columns = query - call.first, [key - call.first_key for key in keys]
                mixed[:, head, row] = _row_without(call.received, head, row, columns)
        return mixed

    def _note(self, call: Call, cut: Cut) -> None:
        assert call.received is not None
        if not 0 <= cut.key - call.first_key < call.received.key.shape[2]:
            stop = call.first_key + call.received.key.shape[2]
            raise HeadwiseError(f"{_name(cut)}: key: wanted {call.first_key} to {stop - 1}")
        self.done.add(cut)
        call.cuts.append((cut.head, cut.query, cut.key))

    def _checked(self, edit: Edit) -> Edit:
        """The edit with its mode filled in, or an error that says what there is."""
        if not isinstance(edit, Knockout | Cut):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise HeadwiseError(f"edit: got {type(edit).__name__}, wanted Knockout or Cut")
        if isinstance(edit, Knockout) and edit.how not in ("zero", "mean", "resample"):
            raise HeadwiseError(f"{_name(edit)}: how: got {edit.how!r}, wanted zero, mean or resample")
        mode = edit.mode
        if mode is None and len(self.modes) > 1:
            raise HeadwiseError(f"{_name(edit)}: mode: this model has {', '.join(self.modes)}; say which")
        if mode is not None and self.modes and mode not in self.modes:
            raise HeadwiseError(f"{_name(edit)}: mode: got {mode!r}, this model has {', '.join(self.modes)}")
        edit = replace(edit, mode=mode or next(iter(self.modes), None))
        for name, number in (
            ("head", edit.head),
            ("query", getattr(edit, "query", 0)),
            ("key", getattr(edit, "key", 0)),
        ):
            if number < 0:
                raise HeadwiseError(f"{_name(edit)}: {name}: got {number}, wanted zero or more")
        self._check_sizes(edit)
        return edit

    def _check_sizes(self, edit: Edit) -> None:
        if self.of_library:
            return
        heads = {place.layer: place.module.heads for place in check_model(self.model) if place.mode == edit.mode}
        if edit.layer not in heads:
            raise HeadwiseError(f"{_name(edit)}: layer: wanted {min(heads)} to {max(heads)}")
        if edit.head >= heads[edit.layer]:
            raise HeadwiseError(f"{_name(edit)}: head: wanted 0 to {heads[edit.layer] - 1}")


def _modes(model: nn.Module, of_library: bool) -> list[str]:
    """The modes this model has; empty where only its run can tell."""
    if of_library:
        from headwise.tracing.library_watch import find_stacks

        stacks = list(find_stacks(model))
        return [*stacks, "cross"] if len(stacks) > 1 else stacks
    return list(dict.fromkeys(place.mode for place in check_model(model) if place.mode is not None))


def _mean(call: Call, old: Tensor) -> Tensor:
    """The mean over the positions [batch, 1, dim], filling left out where the mask says what is filling."""
    assert call.received is not None
    padding = call.received.mask.padding
    if call.mode == "cross" or padding is None or padding.shape[1] != old.shape[1]:
        return old.mean(dim=1, keepdim=True)
    kept = padding.unsqueeze(-1).to(old.dtype)
    return (old * kept).sum(dim=1, keepdim=True) / kept.sum(dim=1, keepdim=True).clamp(min=1)


def _with_head(mixed: Tensor, head: int, new: Tensor) -> Tensor:
    """A copy with one head exchanged; gradients flow through the others."""
    return torch.cat([mixed[:, :head], new.unsqueeze(1), mixed[:, head + 1 :]], dim=1)


def _row_without(seen: Received, head: int, row: int, columns: list[int]) -> Tensor:
    """z of one query of one head, [batch, dim], when it may not look at these keys."""
    queries, keys = seen.query.shape[2], seen.key.shape[2]
    shared = head // (seen.query.shape[1] // seen.key.shape[1])
    allowed = seen.mask.tensor(queries, keys, seen.query.device, rows=(row, row + 1))
    if allowed is None:
        allowed = torch.ones(1, 1, 1, keys, dtype=torch.bool, device=seen.query.device)
    allowed = allowed.expand(*allowed.shape[:-1], keys).clone()
    allowed = allowed if allowed.ndim < 4 or allowed.shape[1] == 1 else allowed[:, head : head + 1]
    allowed[..., columns] = False
    bias = None
    if seen.bias is not None:
        bias = bias_tensor(seen.bias, queries, keys, rows=(row, row + 1))
        bias = bias if bias.ndim < 3 or bias.shape[-3] == 1 else bias[..., head : head + 1, :, :]
    query = seen.query[:, head : head + 1, row : row + 1]
    key, value = seen.key[:, shared : shared + 1], seen.value[:, shared : shared + 1]
    return attention_steps(query, key, value, allowed, bias, seen.scale).mixed[:, 0, 0]


def _name(edit: Edit) -> str:
    place = f"layer {edit.layer}, head {edit.head}"
    if isinstance(edit, Knockout):
        return f"Knockout({place})"
    return f"Cut({place}, query {edit.query}, key {edit.key})"
