"""Masks: each part means what it says, a block is cut from the whole, and what does not fit is refused."""

import pytest
import torch
from attention_by_hand import masks, permission
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise import Mask
from headwise.attention.masks import as_mask


@st.composite
def sized_masks(draw):
    batch, heads = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    queries, keys = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    return draw(masks(batch, heads, queries, keys)), (batch, heads, queries, keys)


def whole(mask, sizes):
    found = mask.tensor(*sizes[2:])
    return torch.ones(sizes, dtype=torch.bool) if found is None else found.expand(sizes)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(sized_masks())
def test_the_tensor_is_the_meaning_pair_by_pair(drawn):
    mask, sizes = drawn
    may_see = permission(mask, *sizes[2:])
    for place in torch.cartesian_prod(*(torch.arange(size) for size in sizes)).tolist():
        assert bool(whole(mask, sizes)[tuple(place)]) == may_see(*place)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(sized_masks(), st.data())
def test_a_block_is_cut_from_the_whole_and_reach_misses_nothing(drawn, data):
    mask, (batch, heads, queries, keys) = drawn
    first = data.draw(st.integers(0, queries - 1))
    last = data.draw(st.integers(first + 1, queries))
    start = data.draw(st.integers(0, keys - 1))
    stop = data.draw(st.integers(start + 1, keys))
    block = mask.tensor(queries, keys, rows=(first, last), columns=(start, stop))
    wanted = whole(mask, (batch, heads, queries, keys))
    cut = wanted[..., first:last, start:stop]
    assert torch.equal(cut, torch.ones_like(cut) if block is None else block.expand(cut.shape))
    near, far = mask.reach(first, last, queries, keys)
    assert 0 <= near <= far <= keys
    assert not wanted[..., first:last, :near].any()
    assert not wanted[..., first:last, far:].any()


@settings(max_examples=100, deadline=None, derandomize=True)
@given(sized_masks())
def test_may_leave_nothing_never_misses_an_empty_row(drawn):
    mask, sizes = drawn
    if not whole(mask, sizes).any(dim=-1).all():
        assert mask.may_leave_nothing(*sizes[2:])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_and_allows_what_both_allow(data):
    sizes = (1, 2, 4, 6)
    one, other = data.draw(masks(*sizes)), data.draw(masks(*sizes))
    if one.documents is not None and other.documents is not None:
        with pytest.raises(ValueError, match="documents"):
            one & other
    else:
        assert torch.equal(whole(one & other, sizes), whole(one, sizes) & whole(other, sizes))


def test_padding_on_the_left_shifts_no_position():
    kept = torch.tensor([[False, True, True]])
    assert Mask(causal=True, padding=kept).tensor(3, 3).int().tolist() == [[[[0, 0, 0], [0, 1, 0], [0, 1, 1]]]]


def test_causal_with_fewer_queries_than_keys_ends_at_the_last_key():
    assert Mask(causal=True).tensor(2, 4).int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]


def test_last_keys_cuts_only_what_spans_all_keys():
    mask = Mask(padding=torch.tensor([[True, False, True]]), allowed=torch.ones(2, 1, dtype=torch.bool))
    cut = mask.last_keys(2, 3)
    assert cut.padding.tolist() == [[False, True]]
    assert cut.allowed.shape == (2, 1)
    assert mask.last_keys(3, 3) is mask


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Mask(window=0), "window: got 0"),
        (lambda: Mask(padding=torch.ones(2, 3)), r"mask.padding: got shape \[2, 3\] of dtype float32"),
        (lambda: Mask(padding=torch.ones(3).bool()), r"mask.padding: got shape \[3\]"),
        (lambda: Mask(padding=[True]), "mask.padding: got list"),
        (lambda: Mask(documents=torch.ones(1, 3)), "mask.documents: .* float32, wanted .* integers"),
        (lambda: Mask(allowed=torch.ones(1, 3)), "mask.allowed: .* float32, wanted .* bool"),
        (lambda: as_mask([[True]]), "mask: got list, wanted a Mask"),
        (
            lambda: Mask(padding=torch.ones(2, 3).bool()).check(2, 1, 3, 4),
            r"mask.padding: got shape \[2, 3\], wanted \[2, 4\]",
        ),
        (lambda: Mask(padding=torch.ones(3, 4).bool()).check(2, 1, 3, 4), r"mask.padding: got shape \[3, 4\]"),
        (
            lambda: Mask(documents=torch.zeros(1, 3).long()).check(1, 1, 4, 3),
            "mask.documents: got 4 queries for 3 keys",
        ),
        (lambda: Mask(allowed=torch.ones(2, 3, 4).bool()).check(1, 4, 3, 4), r"mask: got shape \[2, 3, 4\]"),
        (lambda: Mask(allowed=torch.ones(1, 1, 1, 1, 1).bool()).check(1, 1, 1, 1), "mask: got shape"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(build, message):
    with pytest.raises(ValueError, match=message):
        build()
