"""Positions against formulas written a second time with Python numbers, and against the transformers library."""

import math

import pytest
import torch

from headwise.attention.positions import (
    ALiBi,
    DistanceBias,
    LearnedPositions,
    RelativeBuckets,
    Rotary,
    RotaryScaling,
    SinusoidalPositions,
    sinusoids,
)


@pytest.mark.parametrize("dim", [2, 6, 7])
def test_sinusoids_are_the_papers(dim):
    table = SinusoidalPositions(dim)(torch.tensor([0, 1, 5, 4000]))
    for row, position in enumerate((0, 1, 5, 4000)):
        for i in range(dim):
            angle = position / 10000 ** (2 * (i // 2) / dim)
            assert table[row, i] == pytest.approx((math.cos if i % 2 else math.sin)(angle), abs=1e-6)


@pytest.mark.parametrize("dim", [8, 7])
def test_sinusoids_in_halves_are_those_of_marian(dim):
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

    theirs = MarianSinusoidalPositionalEmbedding(64, dim)
    theirs.weight = torch.nn.Parameter(theirs.create_weight())
    torch.testing.assert_close(sinusoids(torch.arange(64), dim, layout="halves"), theirs(torch.Size([1, 64])))


def test_learned_positions_skip_the_rows_a_family_reserves():
    plain, offset = LearnedPositions(4, 3), LearnedPositions(4, 3, offset=2)
    assert torch.equal(plain(torch.tensor([[0, 3]])), plain.weight[None, [0, 3]])
    assert torch.equal(offset(torch.tensor([0, 3])), offset.weight[[2, 5]])
    assert offset.weight.shape == (6, 3)


def test_rotary_turns_each_pair_by_its_angle():
    """As complex numbers: (x_i + i·x_{i+d/2}) · exp(i·position·base^(-2i/d))."""
    x = torch.randn(2, 3, 5, 8, generator=torch.Generator().manual_seed(0))
    positions = torch.tensor([0, 1, 2, 7, 100])
    turned = Rotary(8, base=50.0)(positions).apply(x)
    for i in range(4):
        angles = positions.double() * 50.0 ** (-2 * i / 8)
        wanted = torch.complex(x[..., i], x[..., i + 4]) * torch.polar(torch.ones(5).double(), angles)
        torch.testing.assert_close(turned[..., i].double(), wanted.real, rtol=0, atol=1e-4)
        torch.testing.assert_close(turned[..., i + 4].double(), wanted.imag, rtol=0, atol=1e-4)


def test_rotary_knows_the_distance_only():
    query, key = (torch.randn(8, generator=torch.Generator().manual_seed(i)) for i in range(2))
    rotary = Rotary(8)

    def product(m, n):
        turned = rotary(torch.tensor([m, n])).apply(torch.stack([query, key])[None, None])
        return (turned[0, 0, 0] @ turned[0, 0, 1]).item()

    assert product(3, 10) == pytest.approx(product(103, 110), abs=1e-4)
    assert abs(product(3, 10) - product(3, 11)) > 1e-3


def test_partial_rotary_leaves_the_rest():
    x = torch.randn(1, 1, 3, 8)
    turned = Rotary(8, dims=4)(torch.arange(3)).apply(x)
    assert torch.equal(turned[..., 4:], x[..., 4:])
    torch.testing.assert_close(turned[..., :4], Rotary(4)(torch.arange(3)).apply(x[..., :4]))


def test_rotary_takes_positions_per_row():
    x = torch.randn(2, 1, 3, 4)
    rows = torch.tensor([[0, 1, 2], [5, 6, 7]])
    turned = Rotary(4)(rows).apply(x)
    for i in range(2):
        torch.testing.assert_close(turned[i], Rotary(4)(rows[i]).apply(x[i : i + 1])[0])


SCALINGS = {
    "linear": (RotaryScaling("linear", 4.0, 32), {"factor": 4.0}),
    "dynamic": (RotaryScaling("dynamic", 2.0, 32), {"factor": 2.0}),
    "llama3": (
        RotaryScaling("llama3", 8.0, 32, low=1.0, high=4.0),
        {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32},
    ),
    "yarn": (
        RotaryScaling("yarn", 4.0, 32, low=1.0, high=32.0),
        {"factor": 4.0, "beta_slow": 1.0, "beta_fast": 32.0, "original_max_position_embeddings": 32},
    ),
    "yarn, untruncated, own factor": (
        RotaryScaling("yarn", 4.0, 2048, low=1.0, high=16.0, attention_factor=1.5, truncate=False),
        {
            "factor": 4.0,
            "beta_slow": 1.0,
            "beta_fast": 16.0,
            "attention_factor": 1.5,
            "truncate": False,
            "original_max_position_embeddings": 2048,
        },
    ),
    "none": (None, {}),
}


@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.parametrize("length", [20, 100])
def test_rotary_scalings_are_those_of_transformers(name, length):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    scaling, fields = SCALINGS[name]
    kind = "default" if scaling is None else scaling.kind
    longest = scaling.original if scaling is not None and kind != "dynamic" else 32
    config = LlamaConfig(
        hidden_size=64,
        num_attention_heads=4,
        max_position_embeddings=longest,
        rope_parameters={"rope_type": kind, "rope_theta": 10000.0, **fields},
    )
    x = torch.randn(1, 2, length, 16, generator=torch.Generator().manual_seed(0))
    positions = torch.arange(length)
    cosine, sine = LlamaRotaryEmbedding(config)(x, positions[None])
    ours = Rotary(16, scaling=scaling)(positions, length=length)
    torch.testing.assert_close(ours.cosine[0], cosine)
    torch.testing.assert_close(ours.sine[0], sine)
    torch.testing.assert_close(ours.apply(x), apply_rotary_pos_emb(x, x, cosine, sine)[0])


def test_rotary_refuses_odd_dimensions():
    for dims in (3, 10, 0):
        with pytest.raises(ValueError, match=f"dims: got {dims}, wanted an even number from 2 to head_dim=8"):
            Rotary(8, dims=dims)


@pytest.mark.parametrize("both_sides", [True, False])
@pytest.mark.parametrize(("buckets", "farthest"), [(32, 128), (8, 20)])
def test_buckets_are_those_of_t5(both_sides, buckets, farthest):
    from transformers.models.t5.modeling_t5 import T5Attention

    distance = torch.arange(-300, 301)
    wanted = T5Attention._relative_position_bucket(distance, both_sides, buckets, farthest)
    assert torch.equal(RelativeBuckets(2, buckets, farthest, both_sides).bucket(distance), wanted)


def test_the_bias_of_buckets_is_trained_per_head_and_bucket():
    layer = RelativeBuckets(2, buckets=8, farthest=20)
    torch.nn.init.normal_(layer.weight)
    bias = layer(3, 5).tensor(3, 5)
    assert bias.shape == (1, 2, 3, 5)
    for query in range(3):
        for key in range(5):
            bucket = layer.bucket(torch.tensor(key - (query + 2)))
            assert torch.equal(bias[0, :, query, key], layer.weight[bucket])
    bias.sum().backward()
    assert layer.weight.grad.sum() == 2 * 3 * 5


@pytest.mark.parametrize("heads", [1, 2, 8, 6, 12])
def test_alibi_slopes_are_those_of_bloom(heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    theirs = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1]
    torch.testing.assert_close(torch.tensor(ALiBi(heads).slopes()), theirs)


def test_alibi_falls_with_the_distance():
    bias = ALiBi(2)(2, 3).tensor(2, 3)
    assert bias[0, 0].tolist() == [[-1 / 16, 0, -1 / 16], [-2 / 16, -1 / 16, 0]]
    assert bias[0, 1].tolist() == [[-1 / 256, 0, -1 / 256], [-2 / 256, -1 / 256, 0]]


def test_a_block_of_a_distance_bias_is_cut_from_the_whole():
    bias = DistanceBias(torch.randn(2, 20), zero=9)
    whole = bias.tensor(5, 8)
    assert torch.equal(bias.tensor(5, 8, (1, 4), (2, 7)), whole[:, :, 1:4, 2:7])
