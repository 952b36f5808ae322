"""Watching the stacks of a model of the transformers library: their tokens, vectors, caches, and the same run again."""

import copy
import inspect
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from headwise.tracing.library_seam import LibrarySeam
from headwise.tracing.slab import Slab
from headwise.tracing.tap import Tap, quiet
from headwise.tracing.watch import Chunk, own


class LibraryWatch:
    """The stacks of one model, while a recording is open in this thread."""

    def __init__(self, model: nn.Module, slab: Slab) -> None:
        self.slab = slab
        self.chunks: dict[str, list[Chunk]] = {}
        self.stacks = find_stacks(model)
        self.thread = threading.get_ident()
        self._caches: dict[str, Any] = {}
        """By stack: its cache as it was before the first token."""

    @contextmanager
    def open(self, seam: LibrarySeam) -> Generator[None]:
        """Hook the stacks and their first layers, and take the hooks away again."""
        with ExitStack() as undo:
            for name, stack in self.stacks.items():
                undo.callback(stack.register_forward_pre_hook(self._begin(name, seam), with_kwargs=True).remove)
                undo.callback(stack.register_forward_hook(self._end(name, seam), prepend=True).remove)
                first = _first_layer(stack)
                if first is not None:
                    undo.callback(first.register_forward_pre_hook(self._before(name), with_kwargs=True).remove)
            yield

    def can_run_again(self) -> bool:
        """Whether a whole run was seen, from its first token to its end."""
        chunks = [chunk for own in self.chunks.values() for chunk in own]
        starts = all(own[0].fresh and (not own[0].cached or name in self._caches) for name, own in self.chunks.items())
        return bool(chunks) and starts and all(chunk.after is not None for chunk in chunks)

    def run_again(self, edits: list[Tap]) -> float:
        """The largest difference between the vectors that left the stacks then and now, when only `edits` are open."""
        largest = torch.zeros(())
        with quiet(*edits):
            for name, own in self.chunks.items():
                cache = copy.deepcopy(self._caches.get(name))
                for chunk in own:
                    given = chunk.given | ({"past_key_values": cache} if chunk.cached else {})
                    with torch.set_grad_enabled(chunk.gradients):
                        now = _vectors(self.stacks[name](**given))
                    assert chunk.after is not None
                    largest = torch.maximum(largest, (now - chunk.after).abs().amax().float().cpu())
        return float(largest)

    def _elsewhere(self) -> bool:
        return threading.get_ident() != self.thread or quiet.on()

    def _begin(self, name: str, seam: LibrarySeam) -> Callable[..., None]:
        parameters = list(inspect.signature(self.stacks[name].forward).parameters)

        def begin(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            given = dict(zip(parameters, args, strict=False)) | kwargs
            cache = given.pop("past_key_values", None)
            seen = 0 if cache is None else int(cache.get_seq_length())
            seam.begin(name, seen)
            if self._elsewhere():
                return
            given = own(given)
            ids, padding = given.get("input_ids"), given.get("attention_mask")
            chunk = Chunk(ids, None, given=given, gradients=torch.is_grad_enabled())
            if isinstance(padding, Tensor) and padding.ndim == 2 and ids is not None:
                chunk.padding = padding[:, -ids.shape[1] :].bool()
            chunk.fresh, chunk.cached = not seen, cache is not None
            if cache is not None and chunk.fresh:
                self._caches[name] = copy.deepcopy(cache)
            self.chunks[name] = [*([] if chunk.fresh else self.chunks.get(name, [])), chunk]

        return begin

    def _before(self, name: str) -> Callable[..., None]:
        def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            vectors = args[0] if args else kwargs.get("hidden_states")
            if not self._elsewhere() and isinstance(vectors, Tensor) and self.chunks.get(name):
                self.chunks[name][-1].before = self.slab.keep(vectors)

        return before

    def _end(self, name: str, seam: LibrarySeam) -> Callable[..., None]:
        def end(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            seam.end()
            if not self._elsewhere():
                self.chunks[name][-1].after = self.slab.keep(_vectors(output))
                self.slab.settle()

        return end


def find_stacks(model: Any) -> dict[str, nn.Module]:
    """The encoder and the decoder, or the one stack there is, called a decoder where its attention is causal."""
    if getattr(model.config, "is_encoder_decoder", False):
        return {"encoder": model.get_encoder(), "decoder": model.get_decoder()}
    base: Any = model.base_model
    causal = any(getattr(module, "is_causal", False) is True for module in base.modules())
    return {"decoder" if causal else "encoder": base}


def _first_layer(stack: nn.Module) -> nn.Module | None:
    """The first of the longest list of layers."""
    lists = [module for module in stack.modules() if isinstance(module, nn.ModuleList) and len(module)]
    return max(lists, key=len)[0] if lists else None


def _vectors(output: Any) -> Tensor:
    """The last hidden states in whatever a stack returned."""
    found = getattr(output, "last_hidden_state", None)
    found = output if isinstance(output, Tensor) else output[0] if found is None else found
    return found.detach()
