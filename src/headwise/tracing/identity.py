"""What a trace says about the model it came from, and the fingerprint by which another model is told."""

import hashlib
from functools import cache
from importlib.metadata import version
from typing import Any

import torch
from torch import nn

from headwise.errors import HeadwiseError
from headwise.packed.linear import PackedLinear
from headwise.tracing.trace import Trace

_SAMPLE = 64


def identify(model: nn.Module) -> dict[str, str]:
    """Facts about a model, as text."""
    config: Any = getattr(model, "config", None)
    family = getattr(model, "family", None) or getattr(config, "model_type", None)
    source = getattr(model, "name", None) or getattr(model, "source", None) or getattr(config, "_name_or_path", None)
    facts = {"architecture": type(model).__name__, "family": family, "source": source}
    rounding = {module.rounding for module in model.modules() if isinstance(module, PackedLinear)}
    facts["products"] = max(rounding, default=None)
    facts |= {"fingerprint": fingerprint(model), "headwise": _own_version(), "torch": str(torch.__version__)}
    return {name: str(value) for name, value in facts.items() if value}


@cache
def _own_version() -> str:
    """Looked up once: reading the package's metadata takes as long as a small model's layer."""
    return version("headwise")


def fingerprint(model: nn.Module) -> str:
    """A hash of the names, shapes and first numbers of all parameters: the same for the same weights, and quick."""
    digest = hashlib.blake2b(digest_size=12)
    samples = [torch.zeros(0)]
    for name, parameter in sorted(model.state_dict(keep_vars=True).items()):
        digest.update(f"{name} {tuple(parameter.shape)}".encode())
        if not parameter.is_meta:
            samples.append(parameter.detach().reshape(-1)[:_SAMPLE].cpu())
    digest.update(torch.cat(samples).double().numpy().tobytes())
    return digest.hexdigest()


def check_same_model(trace: Trace, model: nn.Module, where: str = "trace") -> None:
    """Raise an error where the trace came from another model."""
    own = fingerprint(model)
    if trace.about.get("fingerprint", own) != own:
        recorded = trace.about.get("source", trace.about.get("architecture", "a model"))
        raise HeadwiseError(
            f"{where}: recorded from another model ({recorded}, {trace.about['fingerprint']}), not this one"
        )
