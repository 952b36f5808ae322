"""Models of the transformers library, recorded and edited as they are."""

import threading
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from library_models import IDS, MAKERS, make

import headwise
from headwise.errors import HeadwiseError
from headwise.tracing.library_seam import _OPEN, _USERS


def run(model: Any, inputs: dict[str, Any]) -> torch.Tensor:
    with torch.no_grad():
        return model(**inputs)[0]


def left_behind(model: Any) -> list[Any]:
    hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()]
    names = sorted(transformers.AttentionInterface()), sorted(transformers.AttentionMaskInterface())
    return [hooks, names, model.config._attn_implementation, dict(_OPEN), dict(_USERS)]


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_outputs_are_equal_bit_for_bit_and_the_receipt_is_in_order(name: str, kernel: str) -> None:
    model, inputs = make(name, kernel)
    before = left_behind(model)
    plain = run(model, inputs)
    with headwise.record(model) as recording:
        same = run(model, inputs)
    assert torch.equal(plain, same)
    assert left_behind(model) == before
    assert torch.equal(plain, run(model, inputs))
    for row in (0, 1):
        trace = recording.row(row)
        receipt = trace.receipt()
        assert receipt.ok
        assert not receipt.missing  # W_O was found, and the model ran again
        assert receipt.of("final output").error == 0  # type: ignore[union-attr]
        assert trace.about["kernel"] == kernel
        if kernel == "sdpa":
            assert all(place.mask.allowed is None for place in trace.places.values())


@pytest.mark.parametrize("name", ["bert", "gpt_neox", "vit", "whisper", "albert"])
def test_the_weights_are_those_of_eager_attention(name: str) -> None:
    model, inputs = make(name)
    with headwise.record(model) as recording:
        run(model, inputs)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model(**inputs, output_attentions=True)
    lists = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
    trace = recording.trace
    for mode in trace.modes:
        wanted = getattr(out, lists[mode], None) or out.attentions
        for layer, weights in enumerate(wanted):
            found = trace.weights(layer, mode=mode)
            np.testing.assert_allclose(found, weights[0, :, -found.shape[1] :, -found.shape[2] :], atol=1e-5)


def test_padding_is_cut_away() -> None:
    for name in ("bert", "gpt_neox"):
        model, inputs = make(name)
        with headwise.record(model) as recording:
            run(model, inputs)
        short = recording.row(1)
        assert len(short.tokens) == 7
        real = inputs["attention_mask"][1].bool()
        with headwise.record(model) as alone:
            run(model, {"input_ids": IDS[1:, real]})
        np.testing.assert_allclose(short.weights(1), alone.trace.weights(1), atol=2e-6)


def test_writing_with_a_cache_is_one_rectangle() -> None:
    for name in ("llama", "mistral"):
        model, _ = make(name)
        options = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
        with torch.no_grad():
            plain = model.generate(IDS[:1], **options)
            with headwise.record(model) as recording:
                ids = model.generate(IDS[:1], **options)
        assert torch.equal(plain, ids)
        with headwise.record(model) as whole:
            run(model, {"input_ids": ids[:, :-1]})
        trace = recording.trace
        assert trace.weights(1).shape == (4, 16, 16)
        np.testing.assert_allclose(trace.weights(1), whole.trace.weights(1), atol=3e-6)
        assert trace.receipt().ok
        assert trace.rerun == 0


def test_what_a_pair_writes_is_one_rectangle_a_mode() -> None:
    model, inputs = make("bart")
    with headwise.record(model) as recording, torch.no_grad():
        out = model.generate(inputs["input_ids"][:1], max_new_tokens=5, min_new_tokens=5, do_sample=False, num_beams=1)
    trace = recording.trace
    steps = out.shape[1] - 1
    assert trace.weights(0, mode="decoder").shape == (4, steps, steps)
    assert trace.weights(0, mode="cross").shape == (4, steps, 11)
    assert trace.receipt().ok


def test_edits_work_at_the_same_seam() -> None:
    model, inputs = make("bert")
    plain = run(model, inputs)
    w_o = model.encoder.layer[1].attention.output.dense.weight
    kept = w_o.detach().clone()
    with torch.no_grad():
        w_o[:, 16:24] = 0  # what head 2 writes through
    expected = run(model, inputs)
    with torch.no_grad():
        w_o.copy_(kept)
    before = left_behind(model)
    with headwise.edit(model, headwise.Knockout(1, 2)), headwise.record(model) as recording:
        found = run(model, inputs)
    torch.testing.assert_close(found, expected)
    assert not torch.equal(found, plain)
    assert recording.trace.receipt().ok
    assert recording.trace.place(1).replaced == (2,)
    assert left_behind(model) == before
    with headwise.edit(model, headwise.Cut(0, 1, 3, 2)), headwise.record(model) as recording:
        run(model, inputs)
    assert recording.trace.weights(0, 1, 3)[2] == 0
    assert recording.trace.receipt().ok


def test_an_exception_leaves_nothing_behind() -> None:
    model, inputs = make("bert")
    before = left_behind(model)

    def fail() -> None:
        with headwise.record(model):
            run(model, inputs)
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        fail()
    assert left_behind(model) == before


def test_models_that_share_a_configuration_and_threads_are_told_apart() -> None:
    model, inputs = make("bert")
    other = transformers.BertModel(model.config).eval()
    with headwise.record(model, layers=[0]) as recording, headwise.record(other, layers=[1]) as second:
        run(other, inputs)
        run(model, {"input_ids": IDS[:, :5]})
        worker = threading.Thread(target=run, args=(model, inputs))
        worker.start()
        worker.join(30)
    assert recording.trace.layers == (0,)
    assert recording.trace.weights(0).shape == (4, 5, 5)
    assert second.trace.layers == (1,)
    assert model.config._attn_implementation == "sdpa"


def test_where_w_o_cannot_be_told_it_is_said() -> None:
    model, inputs = make("bert")
    dense = model.encoder.layer[0].attention.output.dense
    model.encoder.layer[0].attention.output.dense = torch.nn.Sequential(torch.nn.Dropout(0.0), Doubled(dense))
    with headwise.record(model) as recording:
        run(model, inputs)
    receipt = recording.trace.receipt()
    assert receipt.ok
    assert "heads through W_O, encoder layer 0: W_O was not found in this model's structure" in receipt.missing
    with pytest.raises(HeadwiseError, match="encoder layer 0: W_O was not found"):
        recording.trace.wrote(0, 0, 0)
    assert recording.trace.wrote(1, 0, 0).norms.shape == (11,)


class Doubled(torch.nn.Module):
    """What no structure tells: the linear layer reads something else than the kernel's output."""

    def __init__(self, dense: Any) -> None:
        super().__init__()
        self.dense = dense

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dense(x * 2)


def test_scores_that_are_bent_are_refused_by_name() -> None:
    config = transformers.Gemma2Config(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8, vocab_size=100,
        intermediate_size=64, attn_implementation="eager",
    )  # fmt: skip
    model = transformers.Gemma2ForCausalLM(config).eval()
    with headwise.record(model) as recording:
        run(model, {"input_ids": IDS})
    with pytest.raises(HeadwiseError, match=r"softcap \(scores bent by tanh\), which is more than the equation shows"):
        _ = recording.trace


def test_a_layer_that_never_came_is_said() -> None:
    model, inputs = make("bert")
    with headwise.record(model, layers=[0, 5]) as recording:
        run(model, inputs)
    with pytest.raises(HeadwiseError, match="layers: got 5, this model ran 2"):
        _ = recording.trace
