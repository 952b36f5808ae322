"""The C step against the modules: the same numbers, the same cache, for every kind of decoder that it computes."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from small_decoders import pack, small_decoder
from torch import Tensor

from headwise.attention.kernels import KERNELS
from headwise.packed.levels import available
from headwise.packed.step import DecodeStep
from headwise.transformer.config import Positions
from headwise.transformer.model import Decoder

pytestmark = pytest.mark.skipif(not available(), reason="no C compiler here")
LLAMA = {"positions": Positions("rotary"), "norm": "rms", "gated": True, "activation": "silu", "key_value_heads": 2}
KINDS: dict[str, dict[str, Any]] = {
    "llama": LLAMA,
    "gpt2": {"positions": Positions("learned", count=300), "activation": "gelu_tanh"},
    "half turned": {"positions": Positions("rotary", dims=8), "head_dim": 32, "query_key_norm": True, "norm": "rms"},
    "windows": {**LLAMA, "windows": (5, None, 40), "layers": 3},
    "wide heads": {"heads": 2, "head_dim": 128, "positions": Positions("sinusoidal"), "activation": "relu"},
    "odd heads": {"dim": 96, "heads": 2, "head_dim": 48, "embedding_scale": 3.0, "embedding_norm": True},
}
TOLERANCE = 2e-5
STEP = 0.05
"""What rounding a few activations to the neighbouring int8 may change: a sum in another order can tip them over."""


def decoder(kind: str, weights: str) -> Decoder:
    model = small_decoder(**KINDS[kind])
    return pack(model) if weights == "packed" else model  # type: ignore[return-value]


def largest_difference(found: Tensor, wanted: Tensor) -> float:
    """Beside the spread of what is wanted."""
    return float((found - wanted).abs().max() / wanted.std())


@pytest.mark.parametrize("level", available())
@pytest.mark.parametrize("weights", ["float32", "packed"])
@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_steps_are_those_of_the_modules(kind: str, weights: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWISE_PACKED", level)
    model = decoder(kind, weights)
    step = DecodeStep(model)
    assert step.reason is None
    ids = torch.randint(0, 75, (3, 140), generator=torch.Generator().manual_seed(1))
    ours, theirs = model.new_cache(), model.new_cache()
    for cache in (ours, theirs):
        model(ids[:, :125], cache=cache)  # short of a chunk, so that the steps cross its border
    differences: list[Tensor] = []
    for place in range(125, 140):
        found, wanted = step(ids[:, place], ours), model(ids[:, place : place + 1], cache=theirs)[:, -1]
        assert largest_difference(found, wanted) < (STEP if weights == "packed" else TOLERANCE)
        differences.append((found - wanted).abs() / wanted.std())
    assert float(torch.stack(differences).median()) < TOLERANCE
    for one, other in zip(ours.layers, theirs.layers, strict=True):
        assert (one.length, one.seen) == (other.length, other.seen)
        assert largest_difference(one.keys, other.keys) < STEP
        assert largest_difference(one.values, other.values) < STEP


@pytest.mark.parametrize("kind", ["llama", "gpt2", "windows"])
@torch.inference_mode()
def test_filling_is_not_seen(kind: str) -> None:
    model = decoder(kind, "float32")
    step = DecodeStep(model)
    ids = torch.randint(0, 75, (2, 12))
    padding = torch.ones(2, 8, dtype=torch.bool)
    padding[1, :5] = False
    together, alone = model.new_cache(), model.new_cache()
    model(ids[:, :8], padding=padding, cache=together)
    model(ids[1:, 5:8], cache=alone)
    for place in range(8, 12):
        both = step(ids[:, place], together)
        assert largest_difference(both[1:], step(ids[1:, place], alone)) < TOLERANCE
    assert together.layers[0].padding is not None
    assert together.layers[0].padding.shape == (2, together.layers[0].length)


@torch.inference_mode()
def test_steps_and_modules_take_turns() -> None:
    model = decoder("llama", "float32")
    step, ids, cache = DecodeStep(model), torch.randint(0, 75, (1, 20)), model.new_cache()
    wanted = model(ids)
    for place in range(20):
        one = ids[:, place]
        found = step(one, cache) if place % 2 else model(one[None], cache=cache)[:, -1]
        assert largest_difference(found, wanted[:, place]) < TOLERANCE


@torch.inference_mode()
def test_threads_do_not_matter() -> None:
    model = decoder("windows", "packed")
    step, ids, found, before = DecodeStep(model), torch.randint(0, 75, (3, 150)), [], torch.get_num_threads()
    start = model.new_cache()
    model(ids, cache=start)
    try:
        for threads in (1, 2, 7):
            torch.set_num_threads(threads)
            found.append(step(ids[:, 0], deepcopy(start)))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@torch.inference_mode()
def test_a_watched_model_runs_its_modules() -> None:
    model = decoder("llama", "packed")
    step, seen = DecodeStep(model), []

    def watching(query: Tensor, *rest: Any) -> Tensor:
        seen.append(query.shape)
        return KERNELS["sdpa"](query, *rest)

    cache = model.new_cache()
    model(torch.tensor([[1, 2, 3]]), cache=cache)
    step(torch.tensor([4]), cache)
    assert not seen
    model.attentions()[1].module.kernel = watching
    step(torch.tensor([5]), cache)
    assert seen == [(1, 4, 1, 16)]


@torch.inference_mode()
def test_an_empty_cache_is_filled_by_the_modules() -> None:
    model = decoder("gpt2", "float32")
    cache = model.new_cache()
    assert torch.equal(DecodeStep(model)(torch.tensor([7]), cache), model(torch.tensor([[7]]))[:, -1])
    assert cache.seen == 1


@torch.inference_mode()
def test_beams_are_reordered_between_steps() -> None:
    model = decoder("llama", "float32")
    step, ids, rows = DecodeStep(model), torch.randint(0, 75, (2, 9)), torch.tensor([1, 1])
    cache, wanted = model.new_cache(), model.new_cache()
    model(ids[:, :8], cache=cache)
    step(ids[:, 8], cache)
    cache.reorder(rows)
    model(ids[rows], cache=wanted)
    found = step(torch.tensor([3, 4]), cache)
    assert largest_difference(found, model(torch.tensor([[3], [4]]), cache=wanted)[:, -1]) < TOLERANCE


@pytest.mark.parametrize(
    ("stack", "reason"),
    [
        ({"positions": Positions("alibi")}, "positions of the kind 'alibi'"),
        ({"norm_place": "post"}, "norms placed post"),
        ({"dim": 40, "heads": 2, "head_dim": 32}, "dim is 40, not a multiple of 32"),
        ({"head_dim": 24}, "head_dim is 24"),
    ],
)
@torch.inference_mode()
def test_what_c_does_not_compute_runs_through_the_modules(stack: dict[str, Any], reason: str) -> None:
    model = small_decoder(**stack)
    step, cache = DecodeStep(model), model.new_cache()
    assert step.reason is not None
    assert reason in step.reason
    ids = torch.tensor([[1, 2, 3]])
    model(ids[:, :2], cache=cache)
    assert largest_difference(step(ids[:, 2], cache), model(ids)[:, -1]) < 1e-4


def test_a_dtype_that_c_does_not_read_runs_through_the_modules() -> None:
    assert "bfloat16" in str(DecodeStep(small_decoder(**LLAMA).bfloat16()).reason)


@torch.inference_mode()
def test_the_cache_must_be_that_of_the_model() -> None:
    model, other = decoder("llama", "float32"), small_decoder(**{**LLAMA, "head_dim": 32})
    cache = other.new_cache()
    other(torch.tensor([[1, 2]]), cache=cache)
    with pytest.raises(ValueError, match="wanted that of this model and batch"):
        DecodeStep(model)(torch.tensor([3]), cache)
    cache = model.new_cache()
    model(torch.tensor([[1, 2]]), cache=cache)
    with pytest.raises(IndexError):
        DecodeStep(model)(torch.tensor([75]), cache)


@pytest.mark.weights
@torch.inference_mode()
def test_the_real_model_chooses_the_same_words(smollm2: Decoder) -> None:
    import headwise

    packed = headwise.load("smollm2", weights="packed")
    assert isinstance(packed, Decoder)
    step = DecodeStep(packed)
    assert step.reason is None
    text = "The Eiffel Tower is a tower of iron in Paris. It was built between 1887 and 1889 by the company of"
    ids = torch.tensor([smollm2.tokenizer.encode(text)])
    cache = packed.new_cache()
    packed(ids[:, :4], cache=cache)
    found = torch.stack([step(token, cache) for token in ids[0, 4:, None]], dim=1)
    wanted = smollm2(ids)[:, 4:]
    apart = (found - found.mean(-1, keepdim=True)) - (wanted - wanted.mean(-1, keepdim=True))
    assert float(apart.abs().max()) < 0.25 * float(wanted.std())
    same = (found.argmax(-1) == wanted.argmax(-1)).float().mean()
    assert float(same) >= 0.85
