"""Every kernel level against the widened matrix: equal but for the rounding of x to int8, whose bound is computed."""

import pytest
import torch
from blocks_by_hand import meaning, random_blocks, random_weight
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from headwise.packed import native
from headwise.packed.blocks import PackedWeight
from headwise.packed.kinds import KINDS
from headwise.packed.levels import available

LEVELS = available()
needs_compiler = pytest.mark.skipif(not LEVELS, reason="no C compiler here")
pytestmark = needs_compiler
kinds, levels = st.sampled_from(sorted(KINDS)), st.sampled_from(LEVELS or ["torch"])


def product(weight: PackedWeight, x: Tensor, level: str, bias: Tensor | None = None) -> Tensor:
    return native.products([native.weight_struct(weight, bias)], x, level)[0]


def rounding(x: Tensor, weight: Tensor) -> Tensor:
    """Half a step of each block (its greatest value is 127 steps), times the weights it meets; float32's own on top."""
    steps = x.double().view(len(x), -1, 32).abs().amax(-1, keepdim=True) / 127
    halves = (steps / 2).expand(-1, -1, 32).reshape(len(x), -1)
    return (halves + x.double().abs() * 2e-6 + steps.amax() * 1e-3) @ weight.double().abs().T


@settings(max_examples=60, deadline=None)
@given(kinds, levels, st.integers(1, 40), st.integers(1, 6), st.integers(1, 70), st.integers(0, 99))
def test_products_are_those_of_the_matrix(
    kind: str, level: str, rows: int, blocks: int, tokens: int, seed: int
) -> None:
    raw = random_blocks(kind, rows, 32 * blocks, seed)
    packed = PackedWeight.from_blocks(raw, kind, (rows, 32 * blocks))
    weight = meaning(raw, kind)
    x = torch.randn(tokens, 32 * blocks, generator=torch.Generator().manual_seed(seed))
    bias = torch.randn(rows)
    found = product(packed, x, level, bias).double() - bias
    exact = x.double() @ weight.double().T
    assert bool(((found - exact).abs() <= rounding(x, weight) + 1e-6).all())


@settings(max_examples=30, deadline=None)
@given(kinds, levels, st.integers(0, 99))
def test_whole_numbers_are_not_rounded(kind: str, level: str, seed: int) -> None:
    """With x of whole numbers up to 127 and one of 127 in each block the algebra is exact, and so is the product."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(-127, 128, (3, 64), generator=generator).float()
    x[:, ::32] = 127
    raw = random_blocks(kind, 20, 64, seed)
    ends = 4 if KINDS[kind].has_minimum else 2
    raw.view(20, 2, -1)[..., :ends] = torch.tensor([1.0, 2.0], dtype=torch.float16).view(torch.uint8)[:ends]
    packed = PackedWeight.from_blocks(raw, kind, (20, 64))
    assert torch.equal(product(packed, x, level), x @ meaning(raw, kind).T)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_row_does_not_depend_on_its_company_nor_on_threads(level: str, kind: str) -> None:
    packed, x = random_weight(kind, 50, 96), torch.randn(11, 96)
    together = product(packed, x, level)
    alone = torch.cat([product(packed, row[None], level) for row in x])
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(5)
        with_more_threads = product(packed, x, level)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(together, alone)
    assert torch.equal(together, with_more_threads)


@pytest.mark.parametrize("level", LEVELS)
def test_several_weights_at_once_give_what_each_gives(level: str) -> None:
    weights = [random_weight("Q4_1", 48, 64), random_weight("Q8_0", 7, 64), random_weight("Q4_0", 16, 64)]
    x = torch.randn(2, 64)
    together = native.products([native.weight_struct(weight, None) for weight in weights], x, level)
    for weight, found in zip(weights, together, strict=True):
        assert torch.equal(found, product(weight, x, level))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_a_number_spoils_its_row_only(level: str, bad: float) -> None:
    packed, x = random_weight("Q4_0", 20, 64), torch.randn(3, 64)
    clean = product(packed, x, level)
    x[1, 40] = bad
    found = product(packed, x, level)
    assert bool(found[1].isnan().all())
    assert torch.equal(found[[0, 2]], clean[[0, 2]])


@pytest.mark.parametrize("level", LEVELS)
def test_zeros_give_the_bias(level: str) -> None:
    bias = torch.randn(20)
    assert torch.equal(product(random_weight("Q5_1", 20, 64), torch.zeros(2, 64), level, bias), bias.expand(2, -1))


@pytest.mark.parametrize("level", LEVELS)
def test_plain_floats_are_multiplied_too(level: str) -> None:
    weight, x = torch.randn(21, 64), torch.randn(9, 64)
    (found,) = native.products([native.weight_struct(weight, None)], x, level)
    assert torch.allclose(found.double(), x.double() @ weight.double().T, atol=1e-5, rtol=0)


@settings(max_examples=30, deadline=None)
@given(kinds, levels, st.integers(1, 40), st.integers(1, 4), st.sampled_from([torch.float32, torch.bfloat16]))
def test_widened_rows_are_bit_for_bit_those_of_the_matrix(
    kind: str, level: str, rows: int, blocks: int, dtype: torch.dtype
) -> None:
    packed = random_weight(kind, rows, 32 * blocks)
    whole = packed.dequantize(dtype)
    ids = torch.randint(0, rows, (20,))
    assert torch.equal(native.widen(packed, dtype, level), whole)
    assert torch.equal(native.widen(packed, dtype, level, ids), whole[ids])


def test_sizes_are_checked_before_c_sees_them() -> None:
    packed = random_weight("Q4_1", 20, 64)
    struct = native.weight_struct(packed, None)
    with pytest.raises(ValueError, match=r"x: got shape \[1, 96\]"):
        native.products([struct], torch.zeros(1, 96), LEVELS[0])
    with pytest.raises(ValueError, match=r"x: got torch\.float64"):
        native.products([struct], torch.zeros(1, 64).double(), LEVELS[0])
    with pytest.raises(ValueError, match=r"x: got torch\.float32"):
        native.products([struct], torch.zeros(64, 2).T, LEVELS[0])
    with pytest.raises(ValueError, match=r"bias: got shape \[19\]"):
        native.weight_struct(packed, torch.zeros(19))
    with pytest.raises(IndexError, match="row 20"):
        native.widen(packed, torch.float32, LEVELS[0], torch.tensor([20]))
    with pytest.raises(ValueError, match="wanted int64"):
        native.widen(packed, torch.float32, LEVELS[0], torch.tensor([2], dtype=torch.int32))
