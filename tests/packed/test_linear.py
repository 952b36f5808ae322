"""PackedLinear and PackedEmbedding stand where torch's modules do."""

import pytest
import torch
from blocks_by_hand import random_weight
from torch import nn

from headwise.errors import HeadwiseError
from headwise.packed.kinds import KINDS
from headwise.packed.levels import available, level
from headwise.packed.linear import FEW, PackedEmbedding, PackedLinear


@pytest.fixture(params=[*available(), "torch"])
def any_level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every way that this machine has."""
    monkeypatch.setenv("HEADWISE_PACKED", request.param)
    return request.param


def close(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Within what rounding x to int8 or bfloat16 costs: some 1/200 of the length of the sum, and no more."""
    return bool((found - wanted).norm() <= 0.02 * wanted.norm())


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("rows", [1, FEW, FEW + 1])
def test_it_is_a_linear_layer(any_level: str, kind: str, rows: int) -> None:
    weight, bias = random_weight(kind, 64, 96), torch.randn(64)
    layer = PackedLinear(weight, bias)
    x = torch.randn(rows, 1, 96)
    wanted = nn.functional.linear(x, weight.dequantize(), bias)
    assert layer(x).shape == (rows, 1, 64)
    assert close(layer(x), wanted)
    assert layer(x.bfloat16()).dtype == torch.bfloat16
    assert close(layer(x.bfloat16()).float(), wanted)
    assert (layer.in_features, layer.out_features) == (96, 64)
    assert torch.equal(layer.weight, weight.dequantize())
    assert torch.equal(layer.bias, bias)  # type: ignore[arg-type]


def test_float64_and_gradients_are_not_rounded(any_level: str) -> None:
    weight = random_weight("Q4_1", 20, 64)
    x = torch.randn(3, 64, dtype=torch.float64)
    assert torch.allclose(PackedLinear(weight)(x), x @ weight.dequantize(torch.float64).T, rtol=1e-12, atol=1e-12)
    y = torch.randn(3, 64, requires_grad=True)
    out = PackedLinear(weight)(y)
    assert torch.allclose(out, y @ weight.dequantize().T, atol=1e-5)
    out.sum().backward()
    assert torch.allclose(y.grad, weight.dequantize().sum(0).expand(3, -1), atol=1e-5)  # type: ignore[arg-type]


def test_an_embedding_gives_exact_rows(any_level: str) -> None:
    weight = random_weight("Q8_0", 37, 64)
    ids = torch.tensor([[0, 36], [5, 5]])
    assert torch.equal(PackedEmbedding(weight)(ids), weight.dequantize()[ids])
    with pytest.raises(IndexError):
        PackedEmbedding(weight)(torch.tensor([37]))


def test_what_is_saved_is_the_matrix() -> None:
    weight = random_weight("Q5_1", 20, 64)
    saved = nn.Sequential(PackedEmbedding(weight), PackedLinear(weight, torch.zeros(20))).state_dict()
    assert sorted(saved) == ["0.weight", "1.bias", "1.weight"]
    assert torch.equal(saved["1.weight"], weight.dequantize())


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"bias: got shape \[19\]"):
        PackedLinear(random_weight("Q4_0", 20, 64), torch.zeros(19))
    with pytest.raises(ValueError, match=r"x: got shape \[2, 32\]"):
        PackedLinear(random_weight("Q4_0", 20, 64))(torch.zeros(2, 32))


def test_the_level_is_said_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWISE_PACKED", "torch")
    assert level() == "torch"
    monkeypatch.setenv("HEADWISE_PACKED", "abacus")
    with pytest.raises(HeadwiseError, match="HEADWISE_PACKED: got 'abacus', wanted one of"):
        level()
