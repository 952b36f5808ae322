"""The steps of one head, what it wrote, and all heads joined, against the modules' own matrices in float64."""

from typing import Any

import numpy as np
import pytest
import torch
from traced_models import CONFIGS, Witness, inputs_of, make

import headwise
from headwise.errors import HeadwiseError


def traced(name: str) -> tuple[Any, headwise.Trace, Witness]:
    model = make(name).double()
    witness = Witness(model)
    with torch.no_grad(), headwise.record(model) as recording:
        model(*inputs_of(name))
    return model, recording.trace, witness


@pytest.mark.parametrize("name", CONFIGS)
def test_every_step_is_that_of_the_equation(name: str) -> None:
    _, trace, witness = traced(name)
    for (mode, layer), expected in witness.steps.items():
        place = trace.place(layer, mode)
        for head in range(place.heads):
            for query in range(place.queries):
                steps = trace.steps(layer, head, query, mode)
                row = (0, head, query)
                np.testing.assert_allclose(steps.products, expected.products[row], atol=1e-12)
                np.testing.assert_allclose(steps.scaled, steps.products * place.scale, atol=1e-12)
                np.testing.assert_allclose(steps.scores, expected.masked[row], atol=1e-12)
                np.testing.assert_array_equal(steps.allowed, np.isfinite(expected.masked[row].numpy()))
                np.testing.assert_allclose(steps.weights, expected.weights[row], atol=1e-12)
                np.testing.assert_allclose(steps.z, expected.mixed[row], atol=1e-12)
                np.testing.assert_allclose(steps.weighted.sum(0), steps.z, atol=1e-12)
                if steps.bias is None:
                    continue
                unblocked = expected.scaled[row].numpy()
                np.testing.assert_allclose(steps.scaled + steps.bias, unblocked, atol=1e-12)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_heads_through_their_blocks_are_the_layers_output(name: str) -> None:
    model, trace, _ = traced(name)
    for mode, layer, module in model.attentions():
        place = trace.place(layer, mode)
        for query in (0, place.queries - 1):
            joined = trace.joined(layer, query, mode)
            whole = module.output(torch.from_numpy(joined.z.reshape(-1))).detach().numpy()
            np.testing.assert_allclose(joined.result, whole, atol=1e-12)
            np.testing.assert_allclose(joined.result, place.output[query], atol=1e-11)
            np.testing.assert_allclose(joined.parts.sum(0), joined.total, atol=1e-12)


@pytest.mark.parametrize("name", CONFIGS)
def test_what_a_head_wrote_is_weight_times_the_length_of_v_through_its_block(name: str) -> None:
    model, trace, _ = traced(name)
    mode, layer, module = model.attentions()[-1]
    for head in range(module.heads):
        steps, wrote = trace.steps(layer, head, 3, mode), trace.wrote(layer, head, 3, mode)
        alone = np.zeros((place_size(module),))
        for key, weight in enumerate(steps.weights):
            one = np.zeros_like(alone)
            one[head * module.head_dim : (head + 1) * module.head_dim] = steps.v[key]
            through = module.output.weight.detach().numpy() @ one
            assert wrote.norms[key] == pytest.approx(weight * np.linalg.norm(through), abs=1e-12)
            alone += weight * one
        np.testing.assert_allclose(wrote.output, module.output.weight.detach().numpy() @ alone, atol=1e-12)
        np.testing.assert_allclose(wrote.output, trace.joined(layer, 3, mode).parts[head], atol=1e-11)


def place_size(module: Any) -> int:
    return module.heads * module.head_dim


def test_weights_of_chosen_heads_and_rows() -> None:
    _, trace, _ = traced("decoder")
    whole = trace.weights(1)
    assert whole.shape == (6, 9, 9)
    np.testing.assert_array_equal(trace.weights(1, 3), whole[3])
    np.testing.assert_allclose(trace.weights(1, 3, 4), whole[3, 4], atol=1e-15)
    np.testing.assert_allclose(trace.weights(1, rows=-1), whole[:, 8], atol=1e-15)
    np.testing.assert_allclose(trace.weights(1, 3, [1, 8]), whole[3, [1, 8]], atol=1e-15)
    np.testing.assert_allclose(trace.weights(1, 3, range(2, 5)), whole[3, 2:5], atol=1e-15)
    np.testing.assert_allclose(trace.weights(1, 3, slice(2, 5)), whole[3, 2:5], atol=1e-15)


def test_weights_by_blocks_are_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    _, trace, _ = traced("alibi")
    whole, receipt = trace.weights(2), trace.receipt([0, 1, 2])
    monkeypatch.setattr("headwise.tracing.steps._BLOCK", 20)
    np.testing.assert_allclose(trace.weights(2), whole, atol=1e-15)
    for one, other in zip(trace.receipt([0, 1, 2]).rows, receipt.rows, strict=True):
        assert one.error == pytest.approx(other.error, abs=1e-13)


def test_what_the_trace_says_of_itself() -> None:
    _, trace, _ = traced("pair")
    assert trace.modes == ("encoder", "decoder", "cross")
    assert trace.layers == (0, 1, 2)
    assert trace.heads == 4
    assert len(trace.tokens) == 6
    assert len(trace.key_stream("cross").tokens) == 9
    assert repr(trace) == "Trace(6 tokens, encoder: layers 0-2, decoder: layers 0-2, cross: layers 0-2, 4 heads)"
    assert trace.about["architecture"] == "EncoderDecoder"


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda t: t.weights(3, mode="cross"), r"layer: got 3, this trace has 0-2 \(cross\)"),
        (lambda t: t.weights(0), "mode: this trace has encoder, decoder, cross; say which"),
        (lambda t: t.weights(0, mode="both"), "mode: got 'both', this trace has encoder, decoder, cross"),
        (lambda t: t.steps(0, 4, 0, "cross"), "head: got 4, layer 0 has the heads 0 to 3"),
        (lambda t: t.steps(0, -1, 0, "cross"), "head: got -1"),
        (lambda t: t.joined(0, 6, "cross"), "query: got 6, this trace has the tokens 0 to 5"),
        (lambda t: t.weights(0, 1, [0, 9], "cross"), "query: got 9"),
        (lambda t: t.receipt([5]), r"layers: got \[5\], this trace has \[0, 1, 2\]"),
    ],
)
def test_what_is_not_there_is_said(use: Any, message: str) -> None:
    _, trace, _ = traced("pair")
    with pytest.raises(HeadwiseError, match=message):
        use(trace)
