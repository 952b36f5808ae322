"""What stands on a stack: the next word, the masked word, or one vector for the whole text."""

import torch
from torch import Tensor, nn

from headwise.transformer.config import Activation, ModelConfig, StackConfig
from headwise.transformer.feedforward import ACTIVATIONS
from headwise.transformer.norms import make_norm


class LanguageHead(nn.Module):
    """A score for each word of the vocabulary: x·Eᵀ, where E may be the embedding itself."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.scale = config.head_scale
        self.words = nn.Linear(config.dim, config.vocabulary, bias=config.head_bias)

    def forward(self, x: Tensor) -> Tensor:
        """[..., dim] -> [..., vocabulary]."""
        return self.words(self.prepare(x))

    def prepare(self, x: Tensor) -> Tensor:
        """What meets the words."""
        return x if self.scale == 1 else x * self.scale


class MaskedHead(nn.Module):
    """The same after one more layer (Devlin et al. 2019, appendix A)."""

    def __init__(self, config: ModelConfig, stack: StackConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(stack.dim, stack.dim)
        self.activation: Activation = stack.activation
        self.norm = make_norm(stack.norm, stack.dim, stack.epsilon)
        self.words = nn.Linear(stack.dim, config.vocabulary)

    def forward(self, x: Tensor) -> Tensor:
        """[..., dim] -> [..., vocabulary]."""
        return self.words(self.prepare(x))

    def prepare(self, x: Tensor) -> Tensor:
        """What meets the words."""
        return self.norm(ACTIVATIONS[self.activation](self.dense(x)))


class Pooler(nn.Module):
    """tanh(x·W + b) of the first token."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dense = nn.Linear(dim, dim)

    def forward(self, hidden: Tensor) -> Tensor:
        """[batch, token, dim] -> [batch, dim]."""
        return torch.tanh(self.dense(hidden[:, 0]))
