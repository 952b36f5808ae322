"""The step in few operations of torch, for machines without a compiler: the modules' numbers and their cache."""

from typing import Any

import pytest
import torch
from blocks_by_hand import random_weight
from small_decoders import pack, small_decoder
from torch import Tensor

from headwise.packed import fallback, linear, torch_step
from headwise.packed.fallback import TorchProduct
from headwise.packed.kinds import KINDS as BLOCKS
from headwise.packed.step import DecodeStep
from headwise.transformer.config import Positions

LLAMA = {"positions": Positions("rotary"), "norm": "rms", "gated": True, "activation": "silu", "key_value_heads": 2}
KINDS: dict[str, dict[str, Any]] = {
    "llama": LLAMA,
    "gpt2": {"positions": Positions("learned", count=300), "activation": "gelu_tanh"},
    "half turned": {"positions": Positions("rotary", dims=8), "head_dim": 32, "query_key_norm": True, "norm": "rms"},
    "own norms": {**LLAMA, "query_key_norm": True, "norm": "layer"},
    "windows": {**LLAMA, "windows": (5, None, 40), "layers": 3},
    "wide heads": {"heads": 2, "head_dim": 128, "positions": Positions("sinusoidal"), "activation": "relu"},
    "odd heads": {"dim": 96, "heads": 2, "head_dim": 48, "embedding_scale": 3.0, "embedding_norm": True},
}
ROUNDED = 0.03
"""Beside the spread of the scores: activations are rounded to bfloat16 on both ways, and in another order."""


@pytest.fixture(autouse=True)
def without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that multiplies bfloat16 and has no compiler."""
    monkeypatch.setenv("HEADWISE_PACKED", "torch")
    for module in (linear, torch_step):
        monkeypatch.setattr(module, "fast_dtype", lambda: torch.bfloat16)


def difference(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted).abs().max() / wanted.std())


@pytest.mark.parametrize("kind", sorted(BLOCKS))
def test_joined_products_are_those_of_the_widened_weights(kind: str) -> None:
    weights = [random_weight(kind, rows, 96, seed=rows) for rows in (64, 20, 45)]
    x = torch.randn(3, 96).bfloat16()
    wanted = torch.cat([x.double() @ weight.dequantize(torch.float64).T for weight in weights], dim=1)
    product = TorchProduct(weights, torch.bfloat16)
    for found in (product.few(x), product.many(x)):
        assert found.shape == (3, 129)
        assert found.dtype == torch.float32
        assert float((found - wanted).norm() / wanted.norm()) < 0.005


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_steps_are_those_of_the_modules(kind: str) -> None:
    model: Any = pack(small_decoder(**KINDS[kind]))
    step = DecodeStep(model)
    assert step.reason is None
    ids = torch.randint(0, 75, (3, 60), generator=torch.Generator().manual_seed(1))
    ours, theirs = model.new_cache(), model.new_cache()
    for cache in (ours, theirs):
        model(ids[:, :50], cache=cache)
    for place in range(50, 60):
        found, wanted = step(ids[:, place], ours), model(ids[:, place : place + 1], cache=theirs)[:, -1]
        assert difference(found, wanted) < ROUNDED
    for one, other in zip(ours.layers, theirs.layers, strict=True):
        assert (one.length, one.seen) == (other.length, other.seen)
        assert difference(one.keys, other.keys) < ROUNDED
        assert difference(one.values, other.values) < ROUNDED


@pytest.mark.parametrize("kind", ["llama", "gpt2", "windows"])
@torch.inference_mode()
def test_filling_is_not_seen(kind: str) -> None:
    model: Any = pack(small_decoder(**KINDS[kind]))
    step, ids = DecodeStep(model), torch.randint(0, 75, (2, 12))
    padding = torch.ones(2, 8, dtype=torch.bool)
    padding[1, :5] = False
    together, alone = model.new_cache(), model.new_cache()
    model(ids[:, :8], padding=padding, cache=together)
    model(ids[1:, 5:8], cache=alone)
    for place in range(8, 12):
        both = step(ids[:, place], together)
        assert difference(both[1:], step(ids[1:, place], alone)) < ROUNDED


@torch.inference_mode()
def test_the_modules_are_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = pack(small_decoder(**LLAMA))
    step, cache = DecodeStep(model), model.new_cache()
    model(torch.tensor([[1, 2, 3]]), cache=cache)
    monkeypatch.setattr(type(model.decoder.blocks[0]), "forward", None)
    step(torch.tensor([4]), cache)
    assert cache.seen == 4


@torch.inference_mode()
def test_many_rows_and_watched_models_run_the_modules() -> None:
    model: Any = pack(small_decoder(**LLAMA))
    seen: list[torch.Size] = []
    for block in model.decoder.blocks:
        block.register_forward_hook(lambda _module, _inputs, output: seen.append(output.shape))
    rows = linear.FEW + 1
    step, cache = DecodeStep(model), model.new_cache()
    model(torch.ones(rows, 3, dtype=torch.long), cache=cache)
    step(torch.ones(rows, dtype=torch.long), cache)
    assert seen == 2 * [torch.Size([rows, 3, 64])] + 2 * [torch.Size([rows, 1, 64])]


def test_what_it_does_not_compute_says_why() -> None:
    assert "stands where a packed layer should" in str(DecodeStep(small_decoder(**LLAMA)).reason)
    model: Any = pack(small_decoder(**LLAMA))
    attention = model.decoder.blocks[0].attention
    attention.key = linear.PackedLinear(random_weight("Q8_0", 32, 64))
    assert "torch has no product" in str(DecodeStep(model).reason)


@torch.inference_mode()
def test_joined_weights_are_laid_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = pack(small_decoder(**LLAMA))
    made: list[int] = []
    planes = fallback._planes_of  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(fallback, "_planes_of", lambda weight: made.append(weight.rows) or planes(weight))
    for _ in range(2):
        step, cache = DecodeStep(model), model.new_cache()
        model(torch.ones(linear.FEW + 1, 3, dtype=torch.long))  # many rows: no planes
        step.read(torch.tensor([[1, 2, 3]]), None, cache)
        before = len(made)
        step(torch.tensor([4]), cache)
    assert len(made) == before
    model.decoder.blocks[0].attention.key = linear.PackedLinear(random_weight("Q4_1", 32, 64, seed=99))
    step = DecodeStep(model)
    step(torch.tensor([4]), cache)
    assert len(made) > before
