"""Random GGUF blocks of every kind, and what the gguf package says they mean."""

import numpy as np
import torch
from torch import Tensor

from headwise.packed.blocks import PackedWeight
from headwise.packed.kinds import BLOCK, KINDS


def random_blocks(kind: str, rows: int, columns: int, seed: int) -> Tensor:
    """Raw bytes [rows, bytes of a row] whose scales and minima are ordinary half-precision numbers."""
    random = np.random.default_rng(seed)
    form = KINDS[kind]
    cells = random.integers(0, 256, (rows, columns // BLOCK, form.block_bytes), dtype=np.uint8)
    ends = 2 if form.has_minimum else 1
    halves = (random.standard_normal((rows, columns // BLOCK, ends)) / 16).astype(np.float16)
    cells[..., : 2 * ends] = halves.view(np.uint8)
    return torch.from_numpy(cells.reshape(rows, columns // BLOCK * form.block_bytes))


def random_weight(kind: str, rows: int, columns: int, seed: int = 0) -> PackedWeight:
    """A packed matrix of random blocks."""
    return PackedWeight.from_blocks(random_blocks(kind, rows, columns, seed), kind, (rows, columns))


def meaning(blocks: Tensor, kind: str) -> Tensor:
    """The matrix in float32, by the reference."""
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    return torch.from_numpy(dequantize(blocks.numpy(), GGMLQuantizationType[kind]))
