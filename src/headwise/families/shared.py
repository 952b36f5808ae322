"""What the configurations of several families write alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from headwise.transformer.config import Activation


def body_class(classes: Mapping[str, str]) -> str:
    """The reference library's class for the body alone."""
    return next(name for name, head in classes.items() if head in ("body", "none"))


class About(NamedTuple):
    """What a family's reader is told beside the fields."""

    architecture: str
    """The `model_type`."""
    head: str
    """What the named class puts on the body: "language", "masked", "none", or "body" for a language model without."""
    names: Collection[str]
    """The tensors beside the configuration."""


# Names of the reference library; "gelu_new", "gelu_fast" and "gelu_pytorch_tanh" are the same curve.
ACTIVATIONS: dict[str, Activation] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
ACTIVATION_NAMES: dict[Activation, str] = {
    "gelu": "gelu",
    "gelu_tanh": "gelu_new",
    "relu": "relu",
    "silu": "silu",
}
