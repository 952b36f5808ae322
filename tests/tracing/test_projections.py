"""Projections: what the model was given, times its own W_Q, W_K and W_V, is the q, k and v that were recorded."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import headwise
from headwise.errors import HeadwiseError
from headwise.tracing.projections import projected, projections_of

sys.path.insert(0, str(Path(__file__).parents[1] / "packed"))
from small_decoders import pack, small_decoder

ROTARY = headwise.Positions(kind="rotary")


def read(model: Any, *inputs: Any) -> Any:
    with torch.no_grad(), headwise.record(model) as recording:
        model(*inputs)
    return recording.trace


def agrees(trace: Any, model: Any, mode: str, most: float) -> Any:
    place = trace.place(1, mode)
    found = projections_of(model, trace, mode, 1)
    for projection, rows, recorded in (
        (found.query, found.x, place.query),
        (found.key, found.memory, place.key),
        (found.value, found.memory, place.value),
    ):
        again = projected(projection, found, rows, recorded.shape[2])
        assert float(np.abs(again - recorded).max()) <= most * float(np.abs(recorded).max())
    assert 0 < found.error <= found.allowed
    return found


@pytest.mark.parametrize(
    "options",
    [
        {"positions": ROTARY},
        {"positions": headwise.Positions(kind="rotary", dims=8), "key_value_heads": 2},
        {"positions": ROTARY, "key_value_heads": 1, "query_key_norm": True},
        {"positions": headwise.Positions(kind="alibi")},
    ],
)
def test_a_decoder_of_any_kind(options: dict[str, Any]) -> None:
    model = small_decoder(**options)
    found = agrees(read(model, torch.arange(3, 12)[None]), model, "decoder", 2e-6)
    assert (found.cosine is not None) == (options["positions"].kind == "rotary")
    assert found.memory is found.x


@pytest.mark.parametrize("level", ["torch", None])
def test_packed_weights_as_they_were_multiplied(level: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if level is not None:
        monkeypatch.setenv("HEADWISE_PACKED", level)
    model = pack(small_decoder(positions=ROTARY, key_value_heads=2))
    trace = read(model, torch.arange(3, 12)[None])
    place = trace.place(1, "decoder")
    found = projections_of(model, trace, "decoder", 1)
    if found.rounding == "int8":
        agrees(trace, model, "decoder", 2e-6)
        assert 0 < float(np.abs(found.x - place.input).max()) <= float(np.abs(place.input).max()) / 254 * 1.001
    else:
        np.testing.assert_array_equal(found.x, place.input)
    assert level is None or found.rounding != "int8"


def test_all_three_kinds_of_attention() -> None:
    torch.manual_seed(3)
    stack = headwise.StackConfig(layers=2, dim=24, heads=3, hidden=32, positions=headwise.Positions(kind="buckets"))
    decoder = headwise.StackConfig(
        layers=2, dim=24, heads=3, hidden=32, positions=headwise.Positions(kind="buckets"), causal=True, cross=True
    )
    model = headwise.EncoderDecoder(headwise.ModelConfig(vocabulary=60, encoder=stack, decoder=decoder)).eval()
    trace = read(model, torch.arange(5, 14)[None], torch.arange(20, 26)[None])
    for mode in ("encoder", "decoder", "cross"):
        found = agrees(trace, model, mode, 2e-6)
        assert len(found.memory) == (6 if mode == "decoder" else 9)


def test_another_state_of_the_model_is_refused() -> None:
    model = small_decoder(positions=ROTARY)
    trace = read(model, torch.arange(3, 12)[None])
    with torch.no_grad():
        model.attentions()[1].module.value.weight[0, 0] += 0.01
    with pytest.raises(HeadwiseError, match=r"decoder layer 1: .* give other numbers than the record.*trained since"):
        projections_of(model, trace, "decoder", 1)
    projections_of(model, trace, "decoder", 0)


def test_what_cannot_be_had_says_why() -> None:
    model = small_decoder(positions=ROTARY)
    with torch.no_grad(), headwise.record(model, inputs=False) as recording:
        model(torch.arange(3, 12)[None])
    with pytest.raises(HeadwiseError, match="the record has not what the layer was given"):
        projections_of(model, recording.trace, "decoder", 1)
    with pytest.raises(HeadwiseError, match="headwise's own models only"):
        projections_of(nn.Linear(2, 2), recording.trace, "decoder", 1)
    cache = model.new_cache()
    with torch.no_grad():
        model(torch.arange(3, 7)[None], cache=cache)
        with headwise.record(model) as recording:
            model(torch.arange(7, 9)[None], cache=cache)
    with pytest.raises(HeadwiseError, match="earlier tokens came from a cache"):
        projections_of(model, recording.trace, "decoder", 1)
