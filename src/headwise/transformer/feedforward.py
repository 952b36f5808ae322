"""The feed-forward layer: each token for itself, wide, and narrow again."""

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn

from headwise.transformer.config import Activation

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu": nn.functional.gelu,
    "gelu_tanh": partial(nn.functional.gelu, approximate="tanh"),
    "relu": nn.functional.relu,
    "silu": nn.functional.silu,
}


class FeedForward(nn.Module):
    """activation(x·W_up)·W_down; gated: (activation(x·W_gate) ⊙ x·W_up)·W_down (Shazeer 2020)."""

    def __init__(self, dim: int, hidden: int, activation: Activation, gated: bool, bias: bool, dropout: float) -> None:
        super().__init__()
        self.up = nn.Linear(dim, hidden, bias=bias)
        self.gate = nn.Linear(dim, hidden, bias=bias) if gated else None
        self.down = nn.Linear(hidden, dim, bias=bias)
        self.activation: Activation = activation
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """[..., dim] -> [..., dim]."""
        activate = ACTIVATIONS[self.activation]
        wide = activate(self.up(x)) if self.gate is None else activate(self.gate(x)) * self.up(x)
        return self.down(self.dropout(wide))
