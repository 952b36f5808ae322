"""Repacking loses nothing: the gguf package's own reading is the reference."""

import pytest
import torch
from blocks_by_hand import meaning, random_blocks, random_weight
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.errors import HeadwiseError, UnsupportedError
from headwise.packed.blocks import PackedWeight
from headwise.packed.kinds import KINDS

kinds = st.sampled_from(sorted(KINDS))


@settings(max_examples=30, deadline=None)
@given(kinds, st.integers(1, 50), st.integers(1, 5), st.integers(0, 99))
def test_repacked_weights_keep_their_exact_value(kind: str, rows: int, blocks: int, seed: int) -> None:
    raw = random_blocks(kind, rows, 32 * blocks, seed)
    packed = PackedWeight.from_blocks(raw, kind, (rows, 32 * blocks))
    assert packed.shape == (rows, 32 * blocks)
    assert torch.equal(packed.dequantize(), meaning(raw, kind))


def test_float64_rounds_nowhere() -> None:
    raw = random_blocks("Q4_1", 3, 32, 1)
    packed = PackedWeight.from_blocks(raw, "Q4_1", (3, 32))
    scale, minimum = raw[:, :4].clone().view(torch.float16).double().T
    values = torch.cat([raw[:, 4:] & 15, raw[:, 4:] >> 4], dim=1).double()
    assert torch.equal(packed.dequantize(torch.float64), values * scale[:, None] + minimum[:, None])


@settings(max_examples=20, deadline=None)
@given(kinds, st.lists(st.integers(0, 36), max_size=9))
def test_rows_are_those_of_the_matrix(kind: str, ids: list[int]) -> None:
    packed = random_weight(kind, 37, 64)
    assert torch.equal(packed.rows_at(torch.tensor(ids, dtype=torch.int64)), packed.dequantize()[ids])


def test_memory_is_that_of_the_blocks() -> None:
    assert random_weight("Q4_1", 64, 96).nbytes() == 64 * 3 * 20
    assert random_weight("Q5_0", 64, 96).nbytes() == 64 * 3 * 34  # five bits are kept in eight


@pytest.mark.parametrize("row", [-1, 37])
def test_rows_outside_are_refused(row: int) -> None:
    with pytest.raises(IndexError, match=r"outside 0\.\.36"):
        random_weight("Q8_0", 37, 64).rows_at(torch.tensor([0, row]))


def test_what_does_not_fit_is_refused() -> None:
    raw = random_blocks("Q4_0", 4, 64, 0)
    with pytest.raises(UnsupportedError, match="Q6_K"):
        PackedWeight.from_blocks(raw, "Q6_K", (4, 64))
    with pytest.raises(HeadwiseError, match="by 32s"):
        PackedWeight.from_blocks(raw, "Q4_0", (4, 63))
    with pytest.raises(HeadwiseError, match="wanted rows"):
        PackedWeight.from_blocks(raw[:0], "Q4_0", (0, 64))
    with pytest.raises(HeadwiseError, match="needs uint8 blocks of shape"):
        PackedWeight.from_blocks(raw, "Q4_0", (5, 64))
    with pytest.raises(HeadwiseError, match="needs uint8 blocks of shape"):
        PackedWeight.from_blocks(raw.float(), "Q4_0", (4, 64))
