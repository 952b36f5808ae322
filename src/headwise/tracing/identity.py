"""What a trace says about the model it came from, and the fingerprint by which another model is told."""

import hashlib
from functools import cache
from importlib.metadata import version
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from headwise.errors import HeadwiseError
from headwise.packed.blocks import PackedWeight
from headwise.packed.linear import Packed, PackedLinear
from headwise.tracing.trace import Trace

_SAMPLE = 64
_SAMPLES: WeakKeyDictionary[PackedWeight, Tensor] = WeakKeyDictionary()


def identify(model: nn.Module) -> dict[str, str]:
    """Facts about a model, as text."""
    config: Any = getattr(model, "config", None)
    family = getattr(model, "family", None) or getattr(config, "model_type", None)
    source = getattr(model, "name", None) or getattr(model, "source", None) or getattr(config, "_name_or_path", None)
    facts = {"architecture": type(model).__name__, "family": family, "source": source}
    found = _tensors(model)
    packed = (module for _, module in found if isinstance(module, PackedLinear))
    facts["products"] = max((module.rounding for module in packed), default=None)
    facts |= {"fingerprint": _digest(found), "headwise": _own_version(), "torch": str(torch.__version__)}
    return {name: str(value) for name, value in facts.items() if value}


@cache
def _own_version() -> str:
    """Looked up once: reading the package's metadata takes as long as a small model's layer."""
    return version("headwise")


def fingerprint(model: nn.Module) -> str:
    """A hash of the names, shapes and first numbers of all parameters: the same for the same weights, and quick."""
    return _digest(_tensors(model))


def _tensors(model: nn.Module) -> list[tuple[str, Tensor | Packed]]:
    """What a state dict has, by name; a packed module stands for the matrix that it would be widened to."""
    found: list[tuple[str, Tensor | Packed]] = []
    waiting = [("", model)]
    for prefix, module in waiting:
        if isinstance(module, Packed):
            found.append((f"{prefix}weight", module))
        parts: dict[str, Any] = vars(module)  # half the time of named_parameters and its like
        unsaved = parts["_non_persistent_buffers_set"]
        found += [(prefix + name, x) for name, x in parts["_parameters"].items() if x is not None]
        found += [(prefix + name, x) for name, x in parts["_buffers"].items() if x is not None and name not in unsaved]
        waiting += [(f"{prefix}{name}.", part) for name, part in parts["_modules"].items() if part is not None]
    return sorted(found, key=lambda pair: pair[0])


@torch.no_grad()
def _digest(found: list[tuple[str, Tensor | Packed]]) -> str:
    shapes = "".join([f"{name} {tuple(x.packed.shape if isinstance(x, Packed) else x.shape)}" for name, x in found])
    samples = [_sample(x) for _, x in found if isinstance(x, Packed) or not x.is_meta]
    if len({x.device for x in samples}) > 1:
        samples = [x.cpu() for x in samples]
    numbers = torch.cat(samples) if samples else torch.zeros(0)
    digest = hashlib.blake2b(shapes.encode(), digest_size=12)
    digest.update(numbers.double().cpu().numpy().tobytes())
    return digest.hexdigest()


def _sample(x: Tensor | Packed) -> Tensor:
    """Its first numbers, in as few steps as there are."""
    if isinstance(x, Packed):
        return _sample_of(x.packed)
    return x.as_strided((min(x.numel(), _SAMPLE),), (1,)) if x.is_contiguous() else x.flatten()[:_SAMPLE]


def _sample_of(packed: PackedWeight) -> Tensor:
    """Its first numbers, widened once: packed weights do not change."""
    if packed not in _SAMPLES:
        rows = torch.arange(min(packed.rows, -(-_SAMPLE // packed.columns)))
        _SAMPLES[packed] = packed.rows_at(rows).flatten()[:_SAMPLE].clone()
    return _SAMPLES[packed]


def check_same_model(trace: Trace, model: nn.Module, where: str = "trace") -> None:
    """Raise an error where the trace came from another model."""
    own = fingerprint(model)
    if trace.about.get("fingerprint", own) != own:
        recorded = trace.about.get("source", trace.about.get("architecture", "a model"))
        raise HeadwiseError(
            f"{where}: recorded from another model ({recorded}, {trace.about['fingerprint']}), not this one"
        )
