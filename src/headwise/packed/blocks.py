"""Weights kept in GGUF's 4- and 8-bit blocks of 32, repacked without loss into groups of 16 rows."""

from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.errors import HeadwiseError, UnsupportedError
from headwise.packed.kinds import BLOCK, GROUP, KINDS, Kind
from headwise.packed.repack import repack


@dataclass(frozen=True, eq=False)
class PackedWeight:
    """A matrix [rows, columns] in blocks; `data` is [group, block, bytes]: 16 scales, 16 minima, values by fours."""

    data: Tensor
    rows: int
    columns: int
    kind: str

    @classmethod
    def from_blocks(cls, blocks: Tensor, kind: str, shape: tuple[int, int]) -> "PackedWeight":
        """Repacks the raw blocks of a GGUF tensor, uint8 [rows, bytes per row]; every weight keeps its exact value."""
        rows, columns = shape
        form = KINDS.get(kind)
        if form is None:
            raise UnsupportedError(f"packed weight: kind {kind!r} is not one of {', '.join(KINDS)}: dequantise it")
        if rows < 1 or columns < 1 or columns % BLOCK:
            raise HeadwiseError(f"packed weight: shape {rows} x {columns}: wanted rows, and columns by {BLOCK}s")
        expected = (rows, columns // BLOCK * form.block_bytes)
        if blocks.dtype != torch.uint8 or tuple(blocks.shape) != expected:
            raise HeadwiseError(
                f"packed weight: {kind} of shape {rows} x {columns} needs uint8 blocks of shape {expected}, "
                f"got {blocks.dtype} {tuple(blocks.shape)}"
            )
        return cls(repack(blocks, form, rows, columns), rows, columns, kind)

    @property
    def form(self) -> Kind:
        """How this weight's blocks are stored."""
        return KINDS[self.kind]

    @property
    def shape(self) -> torch.Size:
        """[rows, columns]."""
        return torch.Size((self.rows, self.columns))

    def dequantize(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """The whole matrix: w = scale · (value − offset) + minimum."""
        values, scale, minimum = _open(self.data, self.form)  # [group, block, lane, 32], [group, block, lane]
        weights = _weights(values, scale, minimum, self.form, dtype)
        return weights.permute(0, 2, 1, 3).reshape(-1, self.columns)[: self.rows].contiguous()

    def parts(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Values [rows, columns], and for each block scales and minima [rows, block] in half precision."""

        def by_rows(part: Tensor) -> Tensor:
            return part.transpose(1, 2).reshape(-1, *part.shape[3:], part.shape[1])[: self.rows]

        values, scale, minimum = _open(self.data, self.form)
        flat = values.transpose(1, 2).reshape(-1, self.columns)[: self.rows]
        return flat, by_rows(scale), None if minimum is None else by_rows(minimum)

    def rows_at(self, ids: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """The rows `ids`, any shape: [..., columns]; what an embedding looks up."""
        flat = ids.reshape(-1)
        self.check_ids(flat)
        lane = (flat % GROUP).view(-1, 1, 1)
        values, scale, minimum = _open(self.data.index_select(0, flat // GROUP), self.form)
        blocks = self.columns // BLOCK
        values = values.gather(2, lane.unsqueeze(-1).expand(-1, blocks, 1, BLOCK))[:, :, 0]
        pick = lane.expand(-1, blocks, 1)
        scale = scale.gather(2, pick)[:, :, 0]
        minimum = None if minimum is None else minimum.gather(2, pick)[:, :, 0]
        return _weights(values, scale, minimum, self.form, dtype).reshape(*ids.shape, self.columns)

    def check_ids(self, ids: Tensor) -> None:
        """Raise an IndexError where one of them is not the number of a row."""
        if ids.numel() and (int(ids.min()) < 0 or int(ids.max()) >= self.rows):
            raise IndexError(f"packed weight: row {int(ids.min())}..{int(ids.max())} outside 0..{self.rows - 1}")

    def nbytes(self) -> int:
        """Memory held."""
        return self.data.numel()


def _weights(values: Tensor, scale: Tensor, minimum: Tensor | None, form: Kind, dtype: torch.dtype) -> Tensor:
    """In float32 the published formula rounds twice (product, then sum); in float64 it is exact."""
    compute = torch.float64 if dtype == torch.float64 else torch.float32
    weights = (values.to(compute) - form.offset) * scale.to(compute).unsqueeze(-1)
    if minimum is not None:
        weights += minimum.to(compute).unsqueeze(-1)
    return weights.to(dtype)


def _open(data: Tensor, form: Kind) -> tuple[Tensor, Tensor, Tensor | None]:
    """Values [group, block, lane, 32], scales and minima [group, block, lane] of repacked blocks."""
    groups, count = data.shape[:2]
    scale = data[..., : 2 * GROUP].contiguous().view(torch.float16)
    minimum = data[..., 2 * GROUP : 4 * GROUP].contiguous().view(torch.float16) if form.has_minimum else None
    start = 4 * GROUP if form.has_minimum else 2 * GROUP
    quads = data[..., start:].reshape(groups, count, form.bits, GROUP, 4)  # as many quads of columns as bits
    values = quads.transpose(2, 3).reshape(groups, count, GROUP, 4 * form.bits)
    if form.bits == 4:
        return torch.cat([values & 15, values >> 4], dim=-1), scale, minimum
    return values.contiguous().view(torch.int8), scale, minimum
