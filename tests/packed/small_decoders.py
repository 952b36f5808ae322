"""Small decoders of every kind that the C step computes, with packed weights, beside the same with widened ones."""

from typing import Any

import torch
from blocks_by_hand import random_weight
from torch import nn

from headwise.packed.linear import PackedEmbedding, PackedLinear
from headwise.transformer.config import ModelConfig, StackConfig
from headwise.transformer.model import Decoder


def small_decoder(seed: int = 0, vocabulary: int = 75, **stack: Any) -> Decoder:
    """A random decoder in eval mode; biases and norms are drawn too."""
    torch.manual_seed(seed)
    sizes = {"layers": 2, "dim": 64, "heads": 4, "hidden": 96, "causal": True, **stack}
    model = Decoder(ModelConfig(vocabulary=vocabulary, decoder=StackConfig(**sizes), head_bias=True, tied=False))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(1.0 if parameter.ndim == 1 else 0.0, 0.3)
    return model.eval()


def pack(model: nn.Module, kind: str = "Q4_1") -> nn.Module:
    """Exchanges every linear layer and embedding for a packed one of random blocks."""
    for seed, (name, module) in enumerate(list(model.named_modules())):
        home, _, leaf = name.rpartition(".")
        if isinstance(module, nn.Linear):
            weight = random_weight(kind, module.out_features, module.in_features, seed)
            setattr(model.get_submodule(home), leaf, PackedLinear(weight, module.bias))
        elif isinstance(module, nn.Embedding) and home == "":
            weight = random_weight("Q8_0", module.num_embeddings, module.embedding_dim, seed)
            setattr(model, leaf, PackedEmbedding(weight))
    return model
