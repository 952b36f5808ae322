"""The kinds of GGUF blocks that are computed with as they are."""

from typing import NamedTuple

BLOCK = 32  # columns that share a scale
GROUP = 16  # rows that a kernel computes at once, one per lane


class Kind(NamedTuple):
    """How one block is stored: w = scale · (value − offset) + minimum."""

    block_bytes: int
    bits: int  # as kept here: 4, or 8 (also for five-bit values)
    offset: int
    has_minimum: bool

    @property
    def five_bits(self) -> bool:
        """Whether the fifth bits stand before the nibbles."""
        return self.block_bytes in (22, 24)


KINDS = {
    "Q4_0": Kind(18, 4, 8, False),
    "Q4_1": Kind(20, 4, 0, True),
    "Q5_0": Kind(22, 8, 16, False),
    "Q5_1": Kind(24, 8, 0, True),
    "Q8_0": Kind(34, 8, 0, False),
}
