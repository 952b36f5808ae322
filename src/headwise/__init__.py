"""Multi-head attention computed, shown and trusted, head by head."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwise.analysis.atlas.run import atlas as atlas
    from headwise.analysis.effect import effect as effect
    from headwise.attention.cache import KeyValueCache as KeyValueCache
    from headwise.attention.equation import AttentionSteps as AttentionSteps
    from headwise.attention.equation import attention_steps as attention_steps
    from headwise.attention.kernels import attention as attention
    from headwise.attention.kernels import explain_kernel as explain_kernel
    from headwise.attention.laws import check_attention as check_attention
    from headwise.attention.masks import Mask as Mask
    from headwise.attention.multihead import MultiHeadAttention as MultiHeadAttention
    from headwise.checkpoints.load import load as load
    from headwise.checkpoints.save import save as save
    from headwise.families.presets import presets as presets
    from headwise.generation.generate import generate as generate
    from headwise.generation.summarize import Summary as Summary
    from headwise.generation.summarize import summarize as summarize
    from headwise.tracing.edit import Cut as Cut
    from headwise.tracing.edit import Knockout as Knockout
    from headwise.tracing.edit import edit as edit
    from headwise.tracing.record import record as record
    from headwise.tracing.trace import Trace as Trace
    from headwise.training.train import Trained as Trained
    from headwise.training.train import train as train
    from headwise.transformer.config import ModelConfig as ModelConfig
    from headwise.transformer.config import Positions as Positions
    from headwise.transformer.config import StackConfig as StackConfig
    from headwise.transformer.model import Decoder as Decoder
    from headwise.transformer.model import Encoder as Encoder
    from headwise.transformer.model import EncoderDecoder as EncoderDecoder
    from headwise.views.page.write import write_page as write_page

# Names are imported when they are first used, so that `headwise --help` answers without torch.
_HOMES = {
    "analysis.atlas.run": ["atlas"],
    "analysis.effect": ["effect"],
    "attention.cache": ["KeyValueCache"],
    "attention.equation": ["AttentionSteps", "attention_steps"],
    "attention.kernels": ["attention", "explain_kernel"],
    "attention.laws": ["check_attention"],
    "attention.masks": ["Mask"],
    "attention.multihead": ["MultiHeadAttention"],
    "checkpoints.load": ["load"],
    "checkpoints.save": ["save"],
    "families.presets": ["presets"],
    "tracing.edit": ["Cut", "Knockout", "edit"],
    "tracing.record": ["record"],
    "tracing.trace": ["Trace"],
    "generation.generate": ["generate"],
    "generation.summarize": ["Summary", "summarize"],
    "training.train": ["Trained", "train"],
    "transformer.config": ["ModelConfig", "Positions", "StackConfig"],
    "transformer.model": ["Decoder", "Encoder", "EncoderDecoder"],
    "views.page.write": ["write_page"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'headwise' has no attribute {name!r}")
    value = getattr(import_module(f"headwise.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Headwise(ModuleType):
    """`attention` names a function and the package it lives in: the attribute is the function, and has the modules."""

    @property
    def attention(self) -> Any:
        function = import_module("headwise.attention.kernels").attention
        function.__dict__ = sys.modules["headwise.attention"].__dict__
        return function

    @attention.setter
    def attention(self, package: ModuleType) -> None:
        """The import system would put the package here; it stays in sys.modules, where imports find it."""


sys.modules[__name__].__class__ = _Headwise
