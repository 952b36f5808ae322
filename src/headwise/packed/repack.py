"""GGUF's blocks, row by row, to groups of 16 rows that a kernel reads from one end to the other."""

import ctypes

import torch
from torch import Tensor

from headwise.packed.build import library
from headwise.packed.kinds import BLOCK, GROUP, Kind
from headwise.packed.levels import level
from headwise.packed.memory import weight_memory


def repack(blocks: Tensor, form: Kind, rows: int, columns: int) -> Tensor:
    """uint8 [row, block bytes] -> [group, block, scales · minima · quads of columns], padded with zero rows."""
    kernel = None if level() == "torch" else library()
    if kernel is None:
        return interleave(blocks, form, rows, columns)
    blocks = blocks.contiguous()
    count = columns // BLOCK
    size = GROUP * (2 + 2 * form.has_minimum + BLOCK * form.bits // 8)
    out = weight_memory(-(-rows // GROUP) * count * size).view(-1, count, size)
    kernel.headwise_repack(
        ctypes.c_void_p(blocks.data_ptr()),
        ctypes.c_long(rows),
        ctypes.c_long(count),
        form.block_bytes,
        form.has_minimum,
        form.five_bits,
        form.bits,
        ctypes.c_void_p(out.data_ptr()),
        torch.get_num_threads(),
    )
    return out


def interleave(blocks: Tensor, form: Kind, rows: int, columns: int) -> Tensor:
    """The same by torch."""
    groups, count = -(-rows // GROUP), columns // BLOCK
    padded = torch.zeros(groups * GROUP, count * form.block_bytes, dtype=torch.uint8)
    padded[:rows] = blocks
    cells = padded.view(groups, GROUP, count, form.block_bytes).transpose(1, 2)  # [group, block, lane, bytes]
    ends = 4 if form.has_minimum else 2
    parts = [cells[..., at : at + 2].reshape(groups, count, 2 * GROUP) for at in range(0, ends, 2)]
    values = _five_bits(cells[..., ends:]) if form.five_bits else cells[..., ends:]
    quads = values.reshape(groups, count, GROUP, -1, 4).transpose(2, 3)
    parts.append(quads.reshape(groups, count, -1))
    size = sum(part.shape[-1] for part in parts)
    return torch.cat(parts, dim=-1, out=weight_memory(groups * count * size).view(groups, count, size))


def _five_bits(cells: Tensor) -> Tensor:
    """Four bytes of fifth bits, then 16 bytes of nibbles -> 32 bytes."""
    fifth = (cells[..., :4].unsqueeze(-1) >> torch.arange(8, dtype=torch.uint8) & 1).flatten(-2)
    nibbles = torch.cat([cells[..., 4:] & 15, cells[..., 4:] >> 4], dim=-1)
    return nibbles | fifth << 4
