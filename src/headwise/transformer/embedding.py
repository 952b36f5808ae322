"""A table of vectors, one for each word or kind, that waits for its numbers."""

import torch
from torch import nn


def make_embedding(count: int, dim: int) -> nn.Embedding:
    """Rows that `initialise` or a file will fill."""
    # Not nn.Embedding(...): its random start, on the meta device, imports the compiler, which takes a second.
    return nn.Embedding.from_pretrained(torch.empty(count, dim), freeze=False)
