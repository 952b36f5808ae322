"""Prompts read by the C kernel against the modules: the same scores, the same cache, for all that it computes."""

from typing import Any

import pytest
import torch
from small_decoders import pack, small_decoder
from test_step import KINDS, largest_difference

from headwise.packed.levels import available
from headwise.packed.step import READ_AT_ONCE, DecodeStep
from headwise.transformer.model import Decoder

pytestmark = pytest.mark.skipif(not available(), reason="no C compiler here")
TOLERANCE = 5e-5


def decoder(kind: str) -> Decoder:
    return pack(small_decoder(**KINDS[kind]))  # type: ignore[return-value]


def fail(*_: Any) -> Any:
    raise AssertionError("the modules ran")


@pytest.mark.parametrize("level", available())
@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_reading_is_that_of_the_modules(kind: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWISE_PACKED", level)
    model = decoder(kind)
    step = DecodeStep(model)
    for tokens in (1, 5, READ_AT_ONCE + 3):
        ids = torch.randint(0, 75, (2, tokens), generator=torch.Generator().manual_seed(tokens))
        padding = torch.ones_like(ids, dtype=torch.bool)
        padding[1, : tokens // 3] = False  # filling, which nobody sees
        ours, theirs = model.new_cache(), model.new_cache()
        wanted = model(ids, padding=padding, cache=theirs)[:, -1]
        with monkeypatch.context() as without:
            without.setattr(model.decoder, "forward", fail)
            found = step.read(ids, padding, ours)
        assert largest_difference(found, wanted) < TOLERANCE
        assert (ours.seen, ours.layers[0].length) == (theirs.seen, theirs.layers[0].length)
        for one, other in zip(ours.layers, theirs.layers, strict=True):
            apart = (one.keys - other.keys).abs().amax((1, 3)) / other.keys.std()
            assert float(apart[padding].median()) < TOLERANCE
        following = ids[:, 0]
        assert largest_difference(step(following, ours), model(following[:, None], cache=theirs)[:, -1]) < 0.05


@torch.inference_mode()
def test_threads_do_not_matter() -> None:
    model = decoder("windows")
    step, ids, found, before = DecodeStep(model), torch.randint(0, 75, (1, 300)), [], torch.get_num_threads()
    try:
        for threads in (1, 2, 7):
            torch.set_num_threads(threads)
            found.append(step.read(ids, None, model.new_cache()))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@torch.inference_mode()
def test_a_text_reads_the_same_in_any_company() -> None:
    model = decoder("llama")
    step, ids = DecodeStep(model), torch.randint(0, 75, (3, 40))
    padding = torch.arange(40) >= torch.tensor([[0], [11], [39]])
    together = step.read(ids, padding, model.new_cache())
    for row, filling in enumerate((0, 11, 39)):
        alone = step.read(ids[row : row + 1, filling:], None, model.new_cache())
        assert largest_difference(together[row], alone[0]) < TOLERANCE


@torch.inference_mode()
def test_other_filling_and_plain_floats_run_through_the_modules() -> None:
    ids = torch.randint(0, 75, (2, 9))
    padding = torch.ones_like(ids, dtype=torch.bool)
    padding[1, 4:] = False
    for model in (decoder("llama"), small_decoder(**KINDS["llama"])):
        found = DecodeStep(model).read(ids, padding, model.new_cache())
        # One row times the head's matrix is rounded in another order than nine rows are.
        torch.testing.assert_close(found, model(ids, padding=padding)[:, -1], rtol=0, atol=1e-5)


@torch.inference_mode()
def test_what_is_wrong_is_refused() -> None:
    from headwise.errors import ContextError

    model = decoder("gpt2")
    step = DecodeStep(model)
    with pytest.raises(ContextError, match="301 tokens"):
        step.read(torch.zeros(1, 301, dtype=torch.int64), None, model.new_cache())
    with pytest.raises(IndexError):
        step.read(torch.tensor([[1, 75]]), None, model.new_cache())
