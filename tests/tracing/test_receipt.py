"""Every check of the receipt, broken on purpose: it fails, and says which, where and by how much."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from traced_models import inputs_of, make

import headwise
from headwise.errors import ReceiptError
from headwise.tracing.arrays import Place, Visibility


def trace_of(name: str = "decoder") -> headwise.Trace:
    model = make(name)
    with torch.no_grad(), headwise.record(model) as recording:
        model(*inputs_of(name))
    return recording.trace


def broken(trace: headwise.Trace, change: Callable[[Place], Place]) -> headwise.Trace:
    """The trace with one place of layer 1 changed."""
    mode = trace.modes[0]
    return replace(trace, places={**trace.places, (mode, 1): change(trace.place(1, mode))})


def pushed(array: Any, by: float) -> Any:
    """The array with one number changed."""
    changed = array.copy()
    changed.flat[-1] += by
    return changed


BREAKS: dict[str, tuple[Callable[[Place], Place], str]] = {
    "a score that is no number": (lambda p: replace(p, query=pushed(p.query, np.nan)), "rows sum to one"),
    "one number of z": (lambda p: replace(p, mixed=pushed(p.mixed, 0.01)), "weights · v"),
    "one number of a query": (lambda p: replace(p, query=pushed(p.query, 1.0)), "weights · v"),
    "one number of a value": (lambda p: replace(p, value=pushed(p.value, 0.1)), "weights · v"),
    "the scale": (lambda p: replace(p, scale=p.scale * 1.01), "weights · v"),
    "the mask": (lambda p: replace(p, mask=Visibility()), "weights · v"),
    "heads in another order": (lambda p: replace(p, query=p.query[::-1]), "weights · v"),
    "one number of the output": (lambda p: replace(p, output=pushed(p.output, 0.01)), "heads through W_O"),
    "one number of W_O": (lambda p: replace(p, output_weight=pushed(p.output_weight, 0.1)), "heads through W_O"),
    "the bias of W_O": (lambda p: replace(p, output_bias=None), "heads through W_O"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_what_is_broken_is_found_and_named(name: str) -> None:
    change, check = BREAKS[name]
    receipt = broken(trace_of(), change).receipt()
    assert not receipt.ok
    assert receipt.worst.layer == 1
    failed = [row for row in receipt.rows if not row.ok]
    assert failed[0].check == check
    assert all(row.layer == 1 for row in failed)
    with pytest.raises(ReceiptError, match=rf"receipt: {check}, decoder layer 1: differs by .* allowed is .*float32"):
        receipt.require()


def test_a_final_output_that_is_another_is_found() -> None:
    trace = replace(trace_of(), rerun=0.5, again=None)
    assert not trace.receipt().ok
    with pytest.raises(ReceiptError, match=r"final output, the model: differs by 0\.5"):
        trace.receipt().require()


def test_a_kernel_that_is_not_attention_is_found() -> None:
    def lying(query: Any, key: Any, value: Any, mask: Any, bias: Any, scale: float, dropout: float) -> Any:
        return value.repeat_interleave(query.shape[1] // value.shape[1], 1)

    model = make("decoder")
    model.attentions()[2].module.kernel = lying
    with torch.no_grad(), headwise.record(model) as recording:
        model(*inputs_of("decoder"))
    with pytest.raises(ReceiptError, match="weights · v, decoder layer 2"):
        recording.trace.receipt().require()


def test_the_allowed_error_is_far_below_what_a_mistake_makes() -> None:
    trace = trace_of()
    for row in trace.receipt().rows:
        assert 0 < row.allowed < 1e-3
        assert row.error < row.allowed / 2
    assert trace.receipt([1]).of("weights · v").layer == 1  # type: ignore[union-attr]
    assert len(trace.receipt([1]).rows) == 4


def test_what_could_not_be_checked_is_said() -> None:
    trace = broken(trace_of(), lambda p: replace(p, output_weight=None, output_bias=None))
    receipt = replace(trace, again=None, rerun=None).receipt()
    assert receipt.ok
    assert receipt.missing == (
        "heads through W_O, decoder layer 1: W_O was not found in this model's structure",
        "final output: the model was not run again",
    )
    with pytest.raises(headwise.errors.HeadwiseError, match="decoder layer 1: W_O was not found"):
        trace.wrote(1, 0, 0)
