"""Recording changes nothing, remembers everything, and leaves nothing behind."""

import copy
import gc
import pickle
import threading
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from traced_models import CONFIGS, Witness, ids_of, inputs_of, make

import headwise
from headwise.errors import HeadwiseError
from headwise.tracing import slab
from headwise.tracing.seam import Seam


def state_of(model: nn.Module) -> list[Any]:
    """All that a recording might leave behind: kernels, hooks, attributes."""
    return [
        (
            name,
            getattr(module, "kernel", None),
            len(module._forward_hooks),
            len(module._forward_pre_hooks),
            vars(module).keys(),
        )
        for name, module in model.named_modules()
    ]


def run(model: Any, *inputs: Any, **options: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(*inputs, **options)


def recorded(model: Any, *inputs: Any, row: int = 0, **options: Any) -> headwise.Trace:
    with headwise.record(model) as recording:
        run(model, *inputs, **options)
    return recording.row(row)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("kernel", ["auto", "sdpa", "equation", "blocks"])
def test_the_recorded_run_is_the_plain_run_bit_for_bit(name: str, kernel: str) -> None:
    model = make(name)
    for place in model.attentions():
        place.module.kernel = kernel
    before = state_of(model)
    plain = run(model, *inputs_of(name, 2))
    with headwise.record(model):
        same = run(model, *inputs_of(name, 2))
    assert torch.equal(plain, same)
    assert state_of(model) == before
    assert torch.equal(plain, run(model, *inputs_of(name, 2)))


@pytest.mark.parametrize("name", CONFIGS)
def test_the_recorded_run_has_the_same_gradients(name: str) -> None:
    def gradients(model: nn.Module) -> list[torch.Tensor]:
        model(*inputs_of(name, 2)).square().sum().backward()
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    plain, watched = make(name), make(name)
    expected = gradients(plain)
    with headwise.record(watched):
        found = gradients(watched)
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))


@pytest.mark.parametrize("name", CONFIGS)
def test_the_weights_are_those_of_the_equation(name: str) -> None:
    model = make(name)
    witness = Witness(model)
    trace = recorded(model, *inputs_of(name))
    assert set(trace.places) == set(witness.steps)
    for (mode, layer), steps in witness.steps.items():
        np.testing.assert_allclose(trace.weights(layer, mode=mode), steps.weights[0], atol=2e-6)
        np.testing.assert_allclose(trace.place(layer, mode).mixed, steps.mixed[0], atol=2e-5)


@pytest.mark.parametrize("name", CONFIGS)
def test_every_receipt_is_in_order(name: str) -> None:
    receipt = recorded(make(name), *inputs_of(name)).receipt()
    assert receipt.ok
    assert not receipt.missing
    assert {row.check for row in receipt.rows} == {
        "rows sum to one",
        "weights · v",
        "heads through W_O",
        "final output",
    }
    assert receipt.rows[-1].error == 0


def write(model: Any, prompt: torch.Tensor, steps: int, cache: Any) -> torch.Tensor:
    """Greedy writing with a cache: the prompt at once, then word for word."""
    ids = prompt
    with torch.no_grad():
        scores = model(ids, cache=cache)
        for _ in range(steps):
            new = scores[:, -1:].argmax(-1)
            ids = torch.cat([ids, new], dim=1)
            scores = model(new, cache=cache)
    return ids


@pytest.mark.parametrize("name", ["decoder", "windowed", "alibi"])
@pytest.mark.parametrize("prompt", [1, 5])
def test_writing_with_a_cache_is_one_rectangle(name: str, prompt: int) -> None:
    model = make(name)
    with headwise.record(model) as recording:
        ids = write(model, ids_of(2, prompt), 8, model.new_cache())
    whole = recorded(model, ids, row=1)
    pieces = recording.row(1)
    assert pieces.tokens == whole.tokens
    for layer in whole.layers:
        np.testing.assert_allclose(pieces.weights(layer), whole.weights(layer), atol=3e-6)
        for field in ("query", "key", "value", "mixed", "output", "input"):
            np.testing.assert_allclose(
                getattr(pieces.place(layer), field), getattr(whole.place(layer), field), atol=3e-5
            )
    assert pieces.receipt().ok
    assert pieces.receipt().of("final output").error == 0  # type: ignore[union-attr]


def test_the_writing_of_a_pair_is_one_rectangle_a_mode() -> None:
    """In float64: scores reach tens here, and step by step float32 rounds them otherwise than at once."""
    model = make("pair").double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + torch.rand_like(parameter) * 1e-3)  # numbers that float32 does not hold
    source, target = inputs_of("pair")
    with headwise.record(model) as recording, torch.no_grad():
        memory, cache = model.encode(source), model.new_cache()
        model.decode(target[:, :2], memory, cache=cache)
        for at in range(2, target.shape[1]):
            model.decode(target[:, at : at + 1], memory, cache=cache)
    whole, pieces = recorded(model, source, target), recording.trace
    for mode in ("encoder", "decoder", "cross"):
        assert pieces.weights(1, mode=mode).shape == whole.weights(1, mode=mode).shape
        np.testing.assert_allclose(pieces.weights(1, mode=mode), whole.weights(1, mode=mode), atol=1e-12)
    assert pieces.receipt().ok
    assert whole.receipt().ok


def test_a_recording_may_begin_in_the_middle_of_a_text() -> None:
    model = make("decoder")
    ids = ids_of(1, 9)
    cache = model.new_cache()
    run(model, ids[:, :6], cache=cache)
    with headwise.record(model) as recording:
        run(model, ids[:, 6:], cache=cache)
    trace, whole = recording.trace, recorded(model, ids)
    assert trace.weights(2).shape == (6, 3, 9)
    np.testing.assert_allclose(trace.weights(2), whole.weights(2)[:, 6:], atol=3e-6)
    assert trace.tokens[:6] == ("…",) * 6
    assert trace.receipt().ok
    assert trace.receipt().missing == ("final output: the model was not run again",)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("name", ["encoder", "decoder", "windowed", "alibi"])
def test_a_row_of_a_padded_batch_is_its_text_alone(name: str, left: bool) -> None:
    model = make(name)
    ids = ids_of(3, 8)
    padding = torch.ones(3, 8, dtype=torch.bool)
    padding[1, slice(0, 3) if left else slice(5, 8)] = False
    alone = recorded(model, ids[1:2][:, padding[1]])
    row = recorded(model, ids, padding=padding, row=1)
    assert row.tokens == alone.tokens
    for layer in row.layers:
        np.testing.assert_allclose(row.weights(layer), alone.weights(layer), atol=3e-6)
        np.testing.assert_allclose(row.joined(layer, 2).result, alone.joined(layer, 2).result, atol=3e-5)
    assert row.receipt().ok
    assert row.place(0).mask.allowed is None


def test_filling_inside_a_text_stays_and_is_masked() -> None:
    padding = torch.tensor([[True, True, False, False, True, True]])
    trace = recorded(make("encoder"), ids_of(1, 6), padding=padding)
    assert trace.weights(1)[:, :, 2:4].max() == 0
    assert trace.receipt().ok


def test_texts_packed_in_a_row_do_not_see_each_other() -> None:
    documents = torch.tensor([[0, 0, 0, 1, 1, 1, 1]])
    trace = recorded(make("decoder"), ids_of(1, 7), documents=documents)
    assert trace.weights(0)[:, 3:, :3].max() == 0
    assert trace.receipt().ok


def test_only_some_layers() -> None:
    model = make("pair")
    with headwise.record(model, layers=[2]) as recording:
        run(model, *inputs_of("pair"))
    assert sorted(recording.trace.places) == [("cross", 2), ("decoder", 2), ("encoder", 2)]
    assert recording.trace.receipt().ok


def test_the_inputs_are_kept_for_short_texts_or_as_asked() -> None:
    model = make("encoder")
    for inputs, kept in ((None, True), (True, True), (False, False)):
        with headwise.record(model, inputs=inputs) as recording:
            run(model, ids_of(1, 5))
        assert (recording.trace.place(0).input is not None) == kept
    alone = make("decoder")
    with headwise.record(alone) as recording:
        run(alone, ids_of(1, 1100))
    assert recording.trace.place(0).input is None


def test_the_vectors_before_and_after_are_kept() -> None:
    model = make("encoder")
    ids = ids_of(1, 5)
    stream = recorded(model, ids).query_stream("encoder")
    np.testing.assert_array_equal(stream.after, run(model, ids)[0])
    np.testing.assert_array_equal(stream.before, recorded(model, ids).place(0).input)


def test_an_exception_leaves_nothing_behind() -> None:
    model = make("decoder")
    before = state_of(model)

    def fail() -> None:
        with headwise.record(model):
            run(model, ids_of(1, 4))
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        fail()
    assert state_of(model) == before

    def broken(*given: Any) -> torch.Tensor:
        raise RuntimeError("the kernel broke")

    model.attentions()[1].module.kernel = broken
    before = state_of(model)
    with pytest.raises(RuntimeError, match="the kernel broke"), headwise.record(model):
        run(model, ids_of(1, 4))
    assert state_of(model) == before


def test_recordings_nest_and_close_in_any_order() -> None:
    model = make("decoder")
    before = state_of(model)
    outer, inner = headwise.record(model), headwise.record(model, layers=[1])
    first = outer.__enter__()
    second = inner.__enter__()
    run(model, ids_of(1, 4))
    outer.__exit__(None, None, None)
    run(model, ids_of(1, 6))
    inner.__exit__(None, None, None)
    assert first.trace.weights(1).shape == (6, 4, 4)
    assert second.trace.weights(1).shape == (6, 6, 6)
    assert second.trace.layers == (1,)
    assert state_of(model) == before


def test_a_kernel_put_in_meanwhile_stays() -> None:
    model = make("encoder")
    with headwise.record(model):
        assert isinstance(model.attentions()[0].module.kernel, Seam)
        model.attentions()[0].module.kernel = "equation"
    assert [place.module.kernel for place in model.attentions()] == ["equation", "auto", "auto"]


def test_a_kernel_that_is_a_module_stays_one() -> None:
    class Own(nn.Module):
        def forward(self, *given: Any) -> torch.Tensor:
            from headwise.attention.kernels import find_kernel

            return find_kernel("sdpa")(*given)

    model = make("encoder")
    own = model.attentions()[0].module.kernel = Own()
    trace = recorded(model, ids_of(1, 4))
    assert model.attentions()[0].module.kernel is own
    assert "Own" in trace.about["kernel"]


def test_threads_record_their_own_runs() -> None:
    model = make("decoder")
    gate = threading.Barrier(2, timeout=20)
    found: dict[int, headwise.Trace] = {}

    def work(tokens: int) -> None:
        with headwise.record(model) as recording:
            gate.wait()
            run(model, ids_of(1, tokens))
            gate.wait()
        found[tokens] = recording.trace

    before = state_of(model)
    workers = [threading.Thread(target=work, args=(tokens,)) for tokens in (4, 7)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert {tokens: trace.weights(0).shape for tokens, trace in found.items()} == {4: (6, 4, 4), 7: (6, 7, 7)}
    assert all(trace.receipt().ok for trace in found.values())
    assert state_of(model) == before


def test_a_run_in_another_thread_is_not_recorded_and_said() -> None:
    model = make("decoder")
    with headwise.record(model) as recording:
        worker = threading.Thread(target=run, args=(model, ids_of(1, 4)))
        worker.start()
        worker.join(30)
    with pytest.raises(HeadwiseError, match="nothing was recorded, the model ran in another thread"):
        _ = recording.trace


def test_the_record_is_of_the_last_run() -> None:
    model = make("encoder")
    with headwise.record(model) as recording:
        run(model, ids_of(1, 4))
        run(model, ids_of(1, 7))
    assert recording.trace.weights(0).shape == (4, 7, 7)


def test_training_afterwards_does_not_change_the_record() -> None:
    model = make("encoder")
    trace = recorded(model, ids_of(1, 5))
    weights, joined = trace.weights(1), trace.joined(1, 2).result
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    np.testing.assert_array_equal(trace.weights(1), weights)
    np.testing.assert_array_equal(trace.joined(1, 2).result, joined)
    assert not trace.receipt().ok  # the model that would be run again is another one
    with pytest.raises(headwise.errors.ReceiptError, match="final output, the model: differs by"):
        trace.receipt().require()


def test_what_is_changed_before_anybody_looks_does_not_change_the_record() -> None:
    model, ids = make("encoder"), ids_of(2, 6)
    padding = torch.ones(2, 6, dtype=torch.bool)
    padding[0, 4:] = False
    expected = recorded(model, ids.clone(), padding=padding.clone())
    shown = expected.joined(1, 2).result, expected.weights(1), dict(expected.about)
    with headwise.record(model) as recording:
        run(model, ids, padding=padding)
        ids.zero_()
        padding.fill_(True)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.data.mul_(2)  # .data: unseen by torch's own count of changes
    trace = recording.trace
    assert trace.tokens == expected.tokens
    np.testing.assert_array_equal(trace.joined(1, 2).result, shown[0])
    np.testing.assert_array_equal(trace.weights(1), shown[1])
    assert trace.about == shown[2]


def test_what_is_held_of_a_trace_outlives_it() -> None:
    model = make("encoder")
    recording = recorded(model, ids_of(1, 6))
    query = recording.place(0).query[1:, 2]
    before = query.copy()
    del recording
    others = [recorded(model, ids_of(1, 6, seed)) for seed in (2, 3)]
    np.testing.assert_array_equal(query, before)
    assert not np.array_equal(others[0].place(0).query, others[1].place(0).query)


def test_the_memory_of_a_trace_is_used_again() -> None:
    model = make("encoder")
    trace = recorded(model, ids_of(1, 6))
    where = trace.place(0).query.ctypes.data
    del trace
    gc.collect()
    assert recorded(model, ids_of(1, 6, 2)).place(0).query.ctypes.data == where


def test_a_trace_is_copied_and_sent_whole() -> None:
    trace = recorded(make("decoder"), ids_of(1, 5))
    places = pickle.loads(pickle.dumps(trace.places))
    np.testing.assert_array_equal(places["decoder", 1].query, trace.place(1).query)
    assert list(places) == list(trace.places)
    assert copy.deepcopy(trace).tokens == trace.tokens
    with pytest.raises(KeyError):
        _ = trace.places["encoder", 9]


def test_any_module_built_of_our_attention_is_recorded() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = headwise.MultiHeadAttention(16, 4)
            self.two = headwise.MultiHeadAttention(16, 4)

        def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
            return self.two(self.one(x, mask=headwise.Mask(causal=True)), memory=memory)

    model = Own()
    x, memory = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    trace = recorded(model, x, memory, row=1)
    assert sorted(trace.places) == [("cross", 1), ("decoder", 0)]
    assert trace.weights(1, mode="cross").shape == (4, 5, 7)
    assert trace.receipt().ok
    assert trace.receipt().missing == ("final output: the model was not run again",)


def test_half_precision_is_recorded_as_it_was() -> None:
    model = make("decoder").to(torch.bfloat16)
    trace = recorded(model, ids_of(1, 9))
    assert trace.about["dtype"] == "bfloat16"
    assert trace.place(0).query.dtype == np.float32
    assert trace.receipt().ok


def test_double_precision_is_kept() -> None:
    trace = recorded(make("encoder").double(), ids_of(1, 9))
    assert trace.place(0).query.dtype == np.float64
    assert trace.receipt().ok
    assert trace.receipt().of("weights · v").error < 1e-13  # type: ignore[union-attr]


def test_beams_that_change_places_are_refused() -> None:
    model = make("decoder")
    cache = model.new_cache()
    with headwise.record(model) as recording:
        run(model, ids_of(2, 5), cache=cache)
        cache.reorder(torch.tensor([1, 0]))
        run(model, ids_of(2, 1), cache=cache)
    with pytest.raises(HeadwiseError, match="rows changed places"):
        _ = recording.trace


def test_dropout_is_refused() -> None:
    model = make("encoder")
    for place in model.attentions():
        place.module.dropout = 0.1
    model.train()
    with headwise.record(model) as recording:
        run(model, ids_of(1, 4))
    with pytest.raises(HeadwiseError, match=r"encoder layer 0: dropout 0\.1 was on.*model\.eval"):
        _ = recording.trace


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: headwise.record(make("decoder"), layers=[0, 7]).__enter__(), "layers: got 7, .* layers 0 to 2"),
        (lambda: headwise.record(nn.Linear(2, 2)).__enter__(), "model: Linear has no attention"),
        (lambda: headwise.record("minilm").__enter__(), "model: got str, wanted a model"),  # type: ignore[arg-type]
        (lambda: recorded(make("decoder"), ids_of(2, 4), row=2), "row: got 2, the batch has the rows 0 to 1"),
    ],
)
def test_what_cannot_be_recorded_is_said(use: Any, message: str) -> None:
    with pytest.raises(HeadwiseError, match=message):
        use()


def test_a_recording_without_a_run_is_said() -> None:
    with headwise.record(make("decoder")) as recording:
        pass
    with pytest.raises(HeadwiseError, match="nothing was recorded, the model was not run inside the with block"):
        _ = recording.trace


def test_a_compiled_model_is_refused() -> None:
    compiled = torch.compile(make("encoder"), backend="eager")
    with pytest.raises(HeadwiseError, match="compiled"), headwise.record(compiled):  # type: ignore[arg-type]
        pass


@pytest.mark.parametrize("name", ["decoder", "pair"])
def test_records_are_copied_to_slabs_by_runs_of_every_mode(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float64: with gradients torch takes another kernel where there is a bias."""
    model, inputs = make(name).double(), inputs_of(name, 2)
    small = recorded(model, *inputs)
    monkeypatch.setattr(slab, "FIRST", 4096)
    monkeypatch.setattr(slab, "MOST", 8192)
    with headwise.record(model) as recording:
        for mode in (torch.inference_mode, torch.no_grad, torch.enable_grad, torch.inference_mode):
            with mode():
                model(*inputs)
            large = recording.row(0)
            for place, own in small.places.items():
                for field in ("query", "key", "value", "mixed", "output", "input"):
                    np.testing.assert_allclose(getattr(large.places[place], field), getattr(own, field), atol=1e-10)
    assert large.receipt().ok
