"""The laws bite: for each there are wrong attentions that it catches, with the smallest case and two numbers."""

import math

import pytest
import torch

from headwise import check_attention
from headwise.attention.laws import LAWS, Counterexample

NEVER = -math.inf


def scores(query, key, mask):
    """The right scores, grouped heads and all."""
    key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    found = query.float() @ key.float().mT if query.dtype.itemsize == 2 else query @ key.mT
    found = found / math.sqrt(query.shape[3])
    return found if mask is None else found.masked_fill(~mask, NEVER)


def mix(weights, query, value):
    value = value.repeat_interleave(query.shape[1] // value.shape[1], dim=1)
    return (weights @ value.to(weights.dtype)).to(query.dtype)


def softmax(masked):
    nothing = (masked == NEVER).all(dim=-1, keepdim=True)
    return masked.masked_fill(nothing, 0).softmax(dim=-1).masked_fill(nothing, 0)


def right(query, key, value, mask):
    return mix(softmax(scores(query, key, mask)), query, value)


def no_root(query, key, value, mask):
    return right(query * math.sqrt(query.shape[3]), key, value, mask)


def root_of_heads(query, key, value, mask):
    return right(query * math.sqrt(query.shape[3] / query.shape[1]), key, value, mask)


def sees_one_ahead(query, key, value, mask):
    """A causal mask that is off by one."""
    if mask is not None and mask.shape[1] == 1:
        mask = mask | mask.roll(1, dims=-1)
    return right(query, key, value, mask)


def causal_from_the_left(query, key, value, mask):
    """Forgets that with fewer queries than keys the last query stands at the last key."""
    queries, keys = query.shape[2], key.shape[2]
    if mask is not None and torch.equal(mask[0, 0], torch.ones(queries, keys).tril(keys - queries).bool()):
        mask = torch.ones(queries, keys).tril().bool()
    return right(query, key, value, mask)


def ignores_the_mask(query, key, value, mask):
    return right(query, key, value, None)


def inverted_mask(query, key, value, mask):
    return right(query, key, value, None if mask is None else ~mask)


def one_mask_for_all_heads(query, key, value, mask):
    return right(query, key, value, None if mask is None else mask[:, :1])


def mask_after_softmax(query, key, value, mask):
    weights = softmax(scores(query, key, None))
    return mix(weights if mask is None else weights * mask, query, value)


def softmax_over_queries(query, key, value, mask):
    return mix(softmax(scores(query, key, mask).mT).mT, query, value)


def softmax_over_everything(query, key, value, mask):
    found = scores(query, key, mask)
    return mix(softmax(found.flatten(-2)).view(found.shape), query, value)


def leaks_a_little(query, key, value, mask):
    """Adds a modest number where -∞ belongs."""
    found = scores(query, key, None)
    return mix(softmax(found if mask is None else found - 20 * (~mask).to(found.dtype)), query, value)


class OnlyTheWayBackLeaks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, mask):
        ctx.save_for_backward(query, key, value, mask)
        return right(query, key, value, mask)

    @staticmethod
    def backward(ctx, upstream):
        query, key, value, _ = ctx.saved_tensors
        with torch.enable_grad():
            inputs = [x.detach().requires_grad_() for x in (query, key, value)]
            return *torch.autograd.grad(right(*inputs, None), inputs, upstream), None


def leaks_on_the_way_back(query, key, value, mask):
    return right(query, key, value, None) if mask is None else OnlyTheWayBackLeaks.apply(query, key, value, mask)


def value_cut_off(query, key, value, mask):
    return right(query, key, value.detach(), mask)


def prefers_the_last_key(query, key, value, mask):
    found = scores(query, key, mask)
    return mix(softmax(found + torch.arange(key.shape[2])), query, value)


def swapped_heads(query, key, value, mask):
    return right(query, key, value, mask).flip(1)


def mean_of_the_heads(query, key, value, mask):
    return right(query, key, value, mask).mean(dim=1, keepdim=True).expand_as(query)


def rows_see_each_other(query, key, value, mask):
    return right(query, key, value.mean(dim=0, keepdim=True).expand_as(value), mask)


def groups_side_by_side(query, key, value, mask):
    """Head i takes key head i mod n, where it should be i div n."""
    times = query.shape[1] // key.shape[1]
    return right(query, key.repeat(1, times, 1, 1), value.repeat(1, times, 1, 1), mask)


def plain_exponentials(query, key, value, mask):
    weights = scores(query, key, mask).exp()
    return mix(weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-300), query, value)


def nan_where_nothing_is_seen(query, key, value, mask):
    return mix(scores(query, key, mask).softmax(dim=-1), query, value)


def mean_where_nothing_is_seen(query, key, value, mask):
    found = scores(query, key, None)
    return mix((found if mask is None else found.masked_fill(~mask, -1e30)).softmax(dim=-1), query, value)


def nan_gradient_where_nothing_is_seen(query, key, value, mask):
    blocked = 0 if mask is None else torch.where(mask, 0.0, NEVER)
    return mix((scores(query, key, None) + blocked).softmax(dim=-1).nan_to_num(0), query, value)


def float_comes_back(query, key, value, mask):
    return right(query.float(), key.float(), value.float(), mask)


def batch_comes_back_flat(query, key, value, mask):
    return right(query, key, value, mask).flatten(0, 1)


def raises(query, key, value, mask):
    raise KeyError("no such head")


def returns_weights(query, key, value, mask):
    weights = softmax(scores(query, key, mask))
    return mix(weights, query, value), weights


CAUGHT = [
    (no_root, "equation"),
    (root_of_heads, "equation"),
    (returns_weights, "equation"),
    (raises, "equation"),
    (mask_after_softmax, "sums"),
    (softmax_over_queries, "sums"),
    (softmax_over_everything, "sums"),
    (ignores_the_mask, "blocked"),
    (inverted_mask, "blocked"),
    (one_mask_for_all_heads, "blocked"),
    (leaks_a_little, "blocked"),
    (leaks_on_the_way_back, "blocked"),
    (sees_one_ahead, "future"),
    (ignores_the_mask, "future"),
    (softmax_over_everything, "future"),
    (leaks_on_the_way_back, "future"),
    (prefers_the_last_key, "permutation"),
    (causal_from_the_left, "permutation"),
    (swapped_heads, "heads"),
    (mean_of_the_heads, "heads"),
    (rows_see_each_other, "heads"),
    (groups_side_by_side, "grouped"),
    (plain_exponentials, "huge"),
    (nan_where_nothing_is_seen, "empty"),
    (mean_where_nothing_is_seen, "empty"),
    (nan_gradient_where_nothing_is_seen, "empty"),
    (float_comes_back, "kept"),
    (batch_comes_back_flat, "kept"),
    (value_cut_off, "gradients"),
    (leaks_on_the_way_back, "gradients"),
]


def only(law):
    return [name for name in LAWS if name != law]


@pytest.mark.parametrize(("wrong", "law"), CAUGHT, ids=[f"{law}: {wrong.__name__}" for wrong, law in CAUGHT])
def test_a_wrong_attention_is_caught(wrong, law):
    report = check_attention(wrong, without=only(law))
    assert not report.ok
    (row,) = report.rows
    assert (row.name, row.law, row.held) == (law, LAWS[law].sentence, False)
    assert isinstance(row.counterexample, Counterexample)
    assert row.counterexample.got != row.counterexample.wanted


def test_every_law_catches_something():
    assert {law for _, law in CAUGHT} == set(LAWS)


def test_a_right_attention_breaks_no_law():
    report = check_attention(right)
    assert report.ok, str(report)
    assert [row.name for row in report.rows] == list(LAWS)


def test_the_counterexample_is_the_smallest_case_and_can_be_computed_again():
    """One head_dim needs no root, and one key is certain: the smallest failure has more of both."""
    example = check_attention(no_root, without=only("equation")).rows[0].counterexample
    sizes = example.case
    assert (sizes.batch, sizes.heads, sizes.queries, sizes.keys, sizes.dim) == (1, 1, 1, 2, 3)
    drawn = sizes.draw()
    place = tuple(int(number) for number in example.where.removeprefix("output[").removesuffix("]").split(","))
    assert no_root(*drawn)[place].item() == example.got
    torch.testing.assert_close(right(*drawn)[place].item(), example.wanted)
    assert str(example) == f"{sizes}: {example.where} is {example.got:.6g}, wanted {example.wanted:.6g}"


def test_two_runs_find_the_same():
    first, second = (str(check_attention(swapped_heads)) for _ in range(2))
    assert first == second
    assert "broken  heads and batch rows do not mix" in first


def test_an_exception_is_an_answer():
    row = check_attention(raises, without=only("equation")).rows[0]
    assert "KeyError: 'no such head'" in str(row.counterexample)


def test_what_cannot_be_checked_is_refused():
    with pytest.raises(ValueError, match="function: got int"):
        check_attention(3)
    with pytest.raises(ValueError, match="without: got colour, wanted some of equation"):
        check_attention(right, without=["colour"])
