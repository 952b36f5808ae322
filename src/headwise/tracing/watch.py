"""Watching the stacks of a model: which tokens came, their vectors before and after, and how to run the same again."""

import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headwise.tracing.slab import Slab
from headwise.tracing.tap import Tap, quiet


@dataclass(eq=False)
class Chunk:
    """One call of one stack: a whole text, or one step of writing."""

    ids: Tensor | None = None
    """[batch, token]."""
    padding: Tensor | None = None
    """[batch, token]: True for tokens."""
    before: Tensor | None = None
    """[batch, token, dim]: the vectors that entered the first layer."""
    after: Tensor | None = None
    """[batch, token, dim]: the vectors that left the stack."""
    fresh: bool = True
    """Whether nothing came before."""
    cached: bool = False
    given: dict[str, Any] = field(default_factory=dict[str, Any])
    """What else the stack was given, without its cache."""
    gradients: bool = False


class Watch:
    """The stacks of one of our models, while a recording is open in this thread."""

    def __init__(self, model: nn.Module, slab: Slab) -> None:
        self.model, self.slab = model, slab
        self.chunks: dict[str, list[Chunk]] = {}
        self.thread = threading.get_ident()
        self._ids: Tensor | None = None

    @contextmanager
    def open(self) -> Generator[None]:
        """Hook the embedding and the stacks, and take the hooks away again."""
        stacks: dict[str, nn.Module] = self.model.stacks() if hasattr(self.model, "stacks") else {}  # type: ignore[operator]
        with ExitStack() as handles:
            if stacks:
                embedding: Any = self.model.embedding
                _hold(handles, embedding.register_forward_hook(self._embedded, prepend=True))
            for name, stack in stacks.items():
                blocks: Any = stack.blocks
                _hold(handles, stack.register_forward_pre_hook(self._begin(name), with_kwargs=True))
                _hold(handles, blocks[0].register_forward_pre_hook(self._before(name)))
                _hold(handles, stack.register_forward_hook(self._end(name), prepend=True))
            yield

    def can_run_again(self) -> bool:
        """Whether a whole run was seen, from its first token to its end."""
        chunks = [chunk for own in self.chunks.values() for chunk in own]
        starts = all(own[0].fresh for own in self.chunks.values())
        return bool(chunks) and starts and all(chunk.after is not None for chunk in chunks)

    def run_again(self, edits: list[Tap]) -> float:
        """The largest difference between the vectors that left the stacks then and now, when only `edits` are open."""
        stacks: dict[str, nn.Module] = self.model.stacks()  # type: ignore[operator]
        largest = torch.zeros(())
        with quiet(*edits):
            for name, own in self.chunks.items():
                cache: Any = self.model.new_cache() if own[0].cached else None  # type: ignore[operator]
                for chunk in own:
                    given = chunk.given | ({"cache": cache} if chunk.cached else {})
                    assert chunk.after is not None
                    with torch.set_grad_enabled(chunk.gradients):
                        embedded: Any = self.model.embedding(chunk.ids)  # type: ignore[operator]
                        now = stacks[name](embedded, **given).detach()
                    largest = torch.maximum(largest, (now - chunk.after).abs().amax().float().cpu())
        return float(largest)

    def _elsewhere(self) -> bool:
        return threading.get_ident() != self.thread or quiet.on()

    def _embedded(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if not self._elsewhere():
            self._ids = args[0].clone()

    def _begin(self, name: str) -> Callable[..., None]:
        def begin(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if self._elsewhere():
                return
            cache = kwargs.get("cache")
            given = own({key: value for key, value in kwargs.items() if key != "cache"})
            chunk = Chunk(self._ids, given.get("padding"), given=given, gradients=torch.is_grad_enabled())
            chunk.fresh, chunk.cached = cache is None or not cache.seen, cache is not None
            self.chunks[name] = [*([] if chunk.fresh else self.chunks.get(name, [])), chunk]

        return begin

    def _before(self, name: str) -> Callable[..., None]:
        def before(module: nn.Module, args: tuple[Any, ...]) -> None:
            if not self._elsewhere():
                self.chunks[name][-1].before = self.slab.keep(args[0])

        return before

    def _end(self, name: str) -> Callable[..., None]:
        def end(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
            if not self._elsewhere():
                self.chunks[name][-1].after = self.slab.keep(output)
                self.slab.settle()

        return end


def own(given: dict[str, Any]) -> dict[str, Any]:
    """Ids and masks copied, because callers write into them for their next run; vectors are the model's."""
    small = (name for name, x in given.items() if isinstance(x, Tensor) and not x.is_floating_point())
    return given | {name: given[name].clone() for name in small}


def _hold(handles: ExitStack, handle: Any) -> None:
    handles.callback(handle.remove)
