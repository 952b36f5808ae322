"""Edits change one head before W_O, the others stay bit for bit, and the model is as it was afterwards."""

import threading
from typing import Any

import pytest
import torch
from traced_models import CONFIGS, ids_of, inputs_of, make

import headwise
from headwise import Cut, Knockout
from headwise.errors import HeadwiseError


def run(model: Any, *inputs: Any, **options: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(*inputs, **options)


def mixed_of(model: Any, layer: int, *edits: Any, name: str = "decoder", mode: str | None = None) -> torch.Tensor:
    """z of all heads of a layer [head, query, dim], and that the receipt is in order."""
    with headwise.edit(model, *edits), headwise.record(model) as recording:
        run(model, *inputs_of(name))
    assert recording.trace.receipt().ok
    return torch.from_numpy(recording.trace.place(layer, mode).mixed.copy())


@pytest.mark.parametrize("name", CONFIGS)
def test_a_head_knocked_out_is_a_head_whose_block_of_w_o_is_nought(name: str) -> None:
    model = make(name)
    mode, layer, module = model.attentions()[-1]
    plain = run(model, *inputs_of(name, 2))
    with headwise.edit(model, Knockout(layer, 1, mode=mode)):
        found = run(model, *inputs_of(name, 2))
    assert module.kernel == "auto"
    assert torch.equal(plain, run(model, *inputs_of(name, 2)))
    with torch.no_grad():
        module.output.weight[:, module.head_dim : 2 * module.head_dim] = 0
    torch.testing.assert_close(found, run(model, *inputs_of(name, 2)), atol=1e-5, rtol=1e-5)
    assert (found - plain).abs().max() > 1e-3


def test_mean_is_the_mean_over_the_positions_and_other_heads_stay() -> None:
    model = make("decoder")
    plain, found = mixed_of(model, 1), mixed_of(model, 1, Knockout(1, 2, how="mean"))
    torch.testing.assert_close(found[2], plain[2].mean(0, keepdim=True).expand_as(plain[2]))
    others = [0, 1, 3, 4, 5]
    assert torch.equal(found[others], plain[others])


def test_the_mean_leaves_filling_out() -> None:
    model, padding = make("encoder"), torch.ones(2, 8, dtype=torch.bool)
    padding[1, 5:] = False
    with headwise.record(model) as plain:
        run(model, ids_of(2, 8), padding=padding)
    with headwise.edit(model, Knockout(0, 3, how="mean")), headwise.record(model) as edited:
        run(model, ids_of(2, 8), padding=padding)
    expected = plain.row(1).place(0).mixed[3].mean(0)
    torch.testing.assert_close(torch.from_numpy(edited.row(1).place(0).mixed[3, 2]), torch.from_numpy(expected))


def test_resample_takes_z_of_other_positions_as_the_generator_says() -> None:
    model = make("decoder")
    plain = mixed_of(model, 1)
    found = mixed_of(model, 1, Knockout(1, 2, how="resample", generator=torch.Generator().manual_seed(5)))
    order = torch.randperm(9, generator=torch.Generator().manual_seed(5))
    assert torch.equal(found[2], plain[2][order])
    assert not torch.equal(found[2], plain[2])


@pytest.mark.parametrize("name", CONFIGS)
def test_a_cut_edge_has_no_weight_and_only_its_row_changes(name: str) -> None:
    model = make(name)
    mode, layer, _ = model.attentions()[-1]
    with headwise.record(model) as plain:
        run(model, *inputs_of(name))
    with (
        headwise.edit(model, Cut(layer, 1, 4, 2, mode), Cut(layer, 1, 4, 3, mode)),
        headwise.record(model) as edited,
    ):
        run(model, *inputs_of(name))
    before, after = plain.trace, edited.trace
    assert after.receipt().ok
    assert after.weights(layer, 1, 4, mode)[[2, 3]].tolist() == [0, 0]
    row = before.weights(layer, 1, 4, mode)
    row[[2, 3]] = 0
    torch.testing.assert_close(torch.from_numpy(after.weights(layer, 1, 4, mode)), torch.from_numpy(row / row.sum()))
    changed = (before.place(layer, mode).mixed != after.place(layer, mode).mixed).any(-1)
    assert changed.nonzero()[0].tolist() == [1]
    assert changed.nonzero()[1].tolist() == [4]


def test_cuts_reach_the_step_of_a_cached_run_that_they_name() -> None:
    for name in ("decoder", "windowed"):
        model = make(name)
        ids, cut = ids_of(1, 9), Cut(1, 0, 6, 5)
        with headwise.edit(model, cut):
            whole = run(model, ids)
            cache = model.new_cache()
            pieces = [run(model, ids[:, :4], cache=cache)]
            pieces += [run(model, ids[:, at : at + 1], cache=cache) for at in range(4, 9)]
        torch.testing.assert_close(torch.cat(pieces, 1), whole, atol=1e-4, rtol=1e-4)
        assert not torch.allclose(whole, run(model, ids), atol=1e-4)


def test_several_edits_at_once_and_nested() -> None:
    model = make("decoder")
    with headwise.edit(model, Knockout(0, 1), Knockout(2, 3), Cut(1, 0, 5, 1)):
        together = run(model, ids_of(1, 9))
    with (
        headwise.edit(model, Knockout(0, 1)),
        headwise.edit(model, Knockout(2, 3)),
        headwise.edit(model, Cut(1, 0, 5, 1)),
    ):
        nested = run(model, ids_of(1, 9))
    assert torch.equal(together, nested)
    assert all(place.module.kernel == "auto" for place in model.attentions())


def test_gradients_flow_through_an_edit() -> None:
    model = make("decoder")
    with headwise.edit(model, Knockout(1, 2)):
        model(ids_of(1, 5)).sum().backward()
    gradient = model.attentions()[1].module.query.weight.grad.view(6, 4, 24)
    assert gradient[2].abs().max() == 0
    assert gradient[1].abs().max() > 0


def test_other_threads_are_not_edited() -> None:
    model = make("decoder")
    plain, found = run(model, ids_of(1, 5)), {}

    def work() -> None:
        found["scores"] = run(model, ids_of(1, 5))

    with headwise.edit(model, Knockout(1, 2)):
        assert not torch.equal(run(model, ids_of(1, 5)), plain)
        worker = threading.Thread(target=work)
        worker.start()
        worker.join(30)
    assert torch.equal(found["scores"], plain)

    def use() -> None:
        with headwise.edit(model, Knockout(1, 2)):
            worker = threading.Thread(target=work)
            worker.start()
            worker.join(30)

    with pytest.raises(HeadwiseError, match="the model ran in another thread"):
        use()


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (Knockout(3, 0), r"Knockout\(layer 3, head 0\): layer: wanted 0 to 2"),
        (Knockout(0, 6), r"Knockout\(layer 0, head 6\): head: wanted 0 to 5"),
        (Knockout(0, -1), "head: got -1, wanted zero or more"),
        (Knockout(0, 1, how="half"), "how: got 'half', wanted zero, mean or resample"),  # type: ignore[arg-type]
        (Knockout(0, 1, mode="encoder"), "mode: got 'encoder', this model has decoder"),
        (Cut(0, 1, -2, 0), "query: got -2, wanted zero or more"),
        (Cut(0, 1, 3, 9), r"Cut\(layer 0, head 1, query 3, key 9\): key: wanted 0 to 8"),
        (Cut(0, 1, 9, 3), r"Cut\(layer 0, head 1, query 9, key 3\): never came"),
        ("head 3", "edit: got str, wanted Knockout or Cut"),
    ],
)
def test_an_edit_that_cannot_be_made_is_said(edit: Any, message: str) -> None:
    model = make("decoder")

    def use() -> None:
        with headwise.edit(model, edit):
            run(model, ids_of(1, 9))

    with pytest.raises(HeadwiseError, match=message):
        use()
    assert all(place.module.kernel == "auto" for place in model.attentions())


def test_a_model_with_several_modes_must_be_told_which() -> None:
    with pytest.raises(HeadwiseError, match="mode: this model has encoder, decoder, cross; say which"):
        headwise.edit(make("pair"), Knockout(0, 0)).__enter__()


def test_the_mean_cannot_be_had_word_by_word() -> None:
    model, cache = make("decoder"), make("decoder").new_cache()

    def use() -> None:
        with headwise.edit(model, Knockout(0, 1, how="mean")):
            run(model, ids_of(1, 4), cache=cache)
            run(model, ids_of(1, 1), cache=cache)

    with pytest.raises(HeadwiseError, match="how='mean' needs the whole text at once"):
        use()
