"""Recording a model of the transformers library as it is, through that library's own registry of attentions."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

from torch import nn

from headwise.errors import HeadwiseError, UnsupportedError
from headwise.tracing.library_seam import library_tapped
from headwise.tracing.library_watch import LibraryWatch
from headwise.tracing.record import Recorder, Recording


class LibraryRecorder(Recorder):
    """Remembers the calls of these layers; which there are is known when the model has run."""

    def __init__(self, model: nn.Module, inputs: bool | None, layers: set[int] | None) -> None:
        super().__init__(model, inputs)
        self.layers = layers
        self.seen: set[int] = set()

    def wants(self, mode: str, layer: int) -> bool:
        """Whether the layer was asked for."""
        self.seen.add(layer)
        return self.layers is None or layer in self.layers

    def missing(self) -> set[int]:
        """Layers that were asked for and never came."""
        return set() if self.layers is None else self.layers - self.seen

    def ran(self) -> int:
        """How many layers came, wanted or not."""
        return len(self.seen)


@contextmanager
def open_library(
    model: nn.Module, layers: Iterable[int] | None, inputs: bool | None, tokenizer: Any
) -> Generator[Recording]:
    """Record the last run of this model in this thread."""
    check_library()
    recorder = LibraryRecorder(model, inputs, None if layers is None else set(layers))
    watch = LibraryWatch(model, recorder.slab)
    with library_tapped(model, recorder) as seam, watch.open(seam):
        yield Recording(recorder, watch, tokenizer)


def check_library() -> None:
    """Raise an error where the installed library has no registry of attention functions."""
    import transformers

    if not hasattr(transformers, "AttentionMaskInterface"):
        found = transformers.__version__
        raise UnsupportedError(f"transformers: got version {found}, wanted 5 or newer, with its AttentionInterface")


def load_library(path: str) -> tuple[nn.Module, Any]:
    """The model and tokenizer in this directory, by the transformers library; nothing in it is run as code."""
    try:
        from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer
    except ImportError:
        raise UnsupportedError("transformers: not installed; pip install 'headwise[transformers]'") from None
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        config = AutoConfig.from_pretrained(path, trust_remote_code=False)
        language = any("CausalLM" in name or "LMHead" in name for name in config.architectures or ())
        kind: Any = AutoModelForCausalLM if language else AutoModel
        model = kind.from_pretrained(path, trust_remote_code=False, use_safetensors=True)
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        raise HeadwiseError(f"{path}: the transformers library cannot load it: {error}") from None
    return model.eval(), tokenizer
