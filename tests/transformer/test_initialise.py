"""How weights begin: the deviations that the families' papers state."""

from dataclasses import replace

import pytest
import torch
from kinds_of_models import BASE, SMALL
from torch import Tensor

from headwise import Decoder, Encoder, EncoderDecoder, ModelConfig, Positions, presets

WIDE = {"layers": 2, "dim": 256, "heads": 4, "hidden": 512}


def deviations(model: torch.nn.Module) -> dict[str, float]:
    return {name: parameter.std().item() for name, parameter in model.named_parameters() if parameter.ndim == 2}


def near(value: float) -> object:
    return pytest.approx(value, rel=0.05)


def check_norms_and_biases(model: torch.nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            wanted = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            assert torch.equal(parameter, torch.full_like(parameter, wanted)), name


def test_bert() -> None:
    """0.02 everywhere (Devlin et al. 2019)."""
    stack = replace(BASE, **WIDE, causal=False, positions=Positions(kind="learned", count=300))
    config = ModelConfig(vocabulary=1000, encoder=stack, head="masked", token_types=300, pooler=True)
    model = Encoder(config)
    assert all(value == near(0.02) for value in deviations(model).values())
    check_norms_and_biases(model)


def test_gpt2() -> None:
    """0.02, and 1/√4 of it for the four layers that add to the stream (Radford et al. 2019, section 2.3)."""
    config = presets["gpt2"]
    assert config.decoder is not None
    model = Decoder(replace(config, vocabulary=1000, decoder=replace(config.decoder, **WIDE)))
    for name, value in deviations(model).items():
        adds = name.endswith(("attention.output.weight", "feedforward.down.weight"))
        assert value == near(0.01 if adds else 0.02), name
    check_norms_and_biases(model)


def test_t5() -> None:
    """1/√inputs, queries smaller by √head_dim as scores are not divided, embeddings of one (Raffel et al. 2020)."""
    stack = replace(SMALL, **WIDE, head_dim=64, positions=Positions(kind="buckets", buckets=512, farthest=1000))
    stack = replace(stack, causal=False, feedforward_bias=False)
    config = ModelConfig(vocabulary=1000, encoder=stack, decoder=replace(stack, causal=True, cross=True))
    found = deviations(EncoderDecoder(replace(config, initialisation="fan_in", deviation=1.0)))
    block = "decoder.blocks.1."
    assert found["embedding.weight"] == near(1.0)
    assert found["encoder.buckets.weight"] == near(1 / 16)
    for part in ("attention", "cross"):
        assert found[f"{block}{part}.query.weight"] == near(1 / 128)
        assert found[f"{block}{part}.key.weight"] == near(1 / 16)
        assert found[f"{block}{part}.value.weight"] == near(1 / 16)
        assert found[f"{block}{part}.output.weight"] == near(1 / 16)
    assert found[block + "feedforward.up.weight"] == near(1 / 16)
    assert found[block + "feedforward.down.weight"] == near(1 / 512**0.5)


def test_the_original() -> None:
    """Uniform within √(6/(inputs + outputs)) (Glorot and Bengio 2010); embeddings of 1/√dim (Vaswani et al. 2017)."""
    config = presets["transformer-small"]
    stacks = {name: replace(stack, **WIDE) for name, stack in config.stacks.items()}
    model = EncoderDecoder(replace(config, vocabulary=1000, **stacks))
    found = deviations(model)
    assert found["embedding.weight"] == near(1 / 16)
    matrix: Tensor = model.decoder.blocks[0].feedforward.up.weight.detach()
    assert matrix.abs().max().item() == pytest.approx((6 / 768) ** 0.5, rel=0.01)
    assert matrix.std().item() == near((2 / 768) ** 0.5)
    check_norms_and_biases(model)


def test_a_tied_head_is_the_embedding() -> None:
    model = Decoder(presets["gpt2-tiny"])
    assert model.head.words.weight is model.embedding.weight


def test_without_memory() -> None:
    with torch.device("meta"):
        model = Decoder(presets["gpt2"])
    assert all(parameter.is_meta for parameter in model.parameters())
    assert model(torch.zeros(1, 5, dtype=torch.int64, device="meta")).shape == (1, 5, 50257)


def test_the_papers_sizes() -> None:
    """65 million in table 3 of Vaswani et al. 2017; 117 million said for GPT-2's smallest, 124 counted."""
    with torch.device("meta"):
        base = EncoderDecoder(presets["transformer-base"])
        big = EncoderDecoder(presets["transformer-big"])
        gpt2 = Decoder(presets["gpt2"])
    count = lambda model: sum(parameter.numel() for parameter in model.parameters()) / 1e6  # noqa: E731
    assert count(base) == pytest.approx(65, rel=0.04)
    assert count(big) == pytest.approx(213, rel=0.04)
    assert count(gpt2) == pytest.approx(124.44, rel=1e-3)
