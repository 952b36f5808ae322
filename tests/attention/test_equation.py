"""The taught form: each step is what its name says, and the whole equals attention computed by hand."""

import math

import pytest
import torch
from attention_by_hand import attention_by_hand, permission, problems
from hypothesis import given, settings

from headwise import Mask, attention_steps


@settings(max_examples=60, deadline=None, derandomize=True)
@given(problems(most=5))
def test_equals_attention_by_hand(problem):
    query, key, value, mask = problem
    wanted = attention_by_hand(
        query, key, value, permission(mask, query.shape[2], key.shape[2]), query.shape[3] ** -0.5
    )
    torch.testing.assert_close(attention_steps(query, key, value, mask).mixed, wanted, rtol=0, atol=1e-12)


def test_steps_of_a_worked_example():
    """One head, d = 4, two tokens, causal: numbers that can be checked with a pencil."""
    query = torch.tensor([[[[2.0, 0, 0, 0], [0, 2, 0, 0]]]])
    key = torch.tensor([[[[1.0, 0, 0, 0], [0, 2, 0, 0]]]])
    value = torch.tensor([[[[1.0, 0], [0, 1]]]])
    steps = attention_steps(query, key, value, Mask(causal=True))
    assert steps.products.tolist() == [[[[2, 0], [0, 4]]]]
    assert steps.scaled.tolist() == [[[[1, 0], [0, 2]]]]
    assert steps.masked.tolist() == [[[[1, -math.inf], [0, 2]]]]
    share = 1 / (1 + math.exp(2))
    torch.testing.assert_close(steps.weights, torch.tensor([[[[1, 0], [share, 1 - share]]]]))
    torch.testing.assert_close(steps.mixed, steps.weights)


def test_bias_is_added_after_scaling_and_before_masking():
    query, bias = torch.zeros(1, 1, 1, 4), torch.tensor([1.0, 2.0, 3.0])
    steps = attention_steps(
        query, torch.ones(1, 1, 3, 4), torch.eye(3)[None, None], torch.tensor([1, 1, 0]).bool(), bias
    )
    assert steps.scaled.flatten().tolist() == [1, 2, 3]
    assert steps.masked.flatten().tolist() == [1, 2, -math.inf]
    torch.testing.assert_close(steps.mixed.flatten(), torch.tensor([1, math.e, 0]) / (1 + math.e))


def test_scale_replaces_the_root():
    query, key = torch.full((1, 1, 1, 4), 3.0), torch.full((1, 1, 1, 4), 2.0)
    assert attention_steps(query, key, key).scaled.item() == 12
    assert attention_steps(query, key, key, scale=0.25).scaled.item() == 6


def test_a_row_that_sees_nothing_has_no_weights():
    query = torch.randn(1, 1, 2, 3)
    steps = attention_steps(query, query, query, torch.tensor([[True, True], [False, False]]))
    assert steps.masked[0, 0, 1].tolist() == [-math.inf, -math.inf]
    assert steps.weights[0, 0, 1].tolist() == [0, 0]
    assert steps.mixed[0, 0, 1].tolist() == [0, 0, 0]


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_step_keeps_the_dtype(kind):
    query = torch.randn(1, 2, 3, 4).to(kind)
    assert {step.dtype for step in attention_steps(query, query, query, Mask(causal=True))} == {kind}


def test_gradients_are_those_of_finite_differences():
    random = torch.Generator().manual_seed(1)
    query, key, value = (torch.randn(1, 2, 3, 2, generator=random, dtype=torch.float64) for _ in range(3))
    allowed = torch.tensor([[True, False, True], [False, False, False], [True, True, True]])
    inputs = tuple(x.requires_grad_() for x in (query, key, value))
    assert torch.autograd.gradcheck(lambda *x: attention_steps(*x, allowed).mixed, inputs)
