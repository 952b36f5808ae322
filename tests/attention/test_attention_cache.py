"""The cache: one token after many equals all at once, whatever the steps, padding, window, order and gradients."""

import pytest
import torch

from headwise import KeyValueCache, Mask, MultiHeadAttention
from headwise.attention.positions import ALiBi, RelativeBuckets, Rotary


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer_with(positions=None, **more):
    torch.manual_seed(0)
    return MultiHeadAttention(8, 4, key_value_heads=2, positions=positions, **more).double().eval()


STEPS = [[1] * 9, [4, 1, 1, 3], [9], [0, 5, 0, 4], [2, 7]]


@pytest.mark.parametrize("steps", STEPS, ids=str)
@pytest.mark.parametrize("window", [None, 1, 3, 8])
@pytest.mark.parametrize(
    "positions", [None, Rotary(2), ALiBi(4), RelativeBuckets(4)], ids=["plain", "rotary", "alibi", "buckets"]
)
def test_steps_equal_all_at_once(positions, window, steps):
    layer = layer_with(positions)
    x, mask = normal(2, 9, 8), Mask(causal=True, window=window)
    cache = KeyValueCache(capacity=2, window=window)
    with torch.no_grad():
        parts = [layer(part, mask=mask, cache=cache) for part in x.split(steps, dim=1)]
        torch.testing.assert_close(torch.cat(parts, dim=1), layer(x, mask=mask), rtol=0, atol=1e-12)
    assert cache.seen == 9


def test_a_window_forgets_what_no_query_can_see():
    cache = KeyValueCache(window=4)
    for token in range(100):
        cache.append(torch.full((1, 1, 1, 1), float(token)), torch.zeros(1, 1, 1, 1))
        assert cache.length <= 8
        assert cache.keys.flatten().tolist()[-4:] == list(range(max(0, token - 3), token + 1))
    assert cache.seen == 100


def test_a_cache_with_room_never_moves():
    cache = KeyValueCache(capacity=10)
    places = {cache.append(torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 1, 2))[0].data_ptr() for _ in range(10)}
    assert len(places) == 1


def test_a_full_cache_grows_by_doubling():
    cache, moves, place = KeyValueCache(), 0, None
    for _ in range(1000):
        keys, _ = cache.append(torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 1, 2))
        moves, place = moves + (keys.data_ptr() != place), keys.data_ptr()
    assert moves <= 11


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_of_different_lengths_equal_each_row_alone(side, window):
    """Prompts of 5 and 2 tokens, filled on one side, and then four steps with both."""
    layer, mask = layer_with(ALiBi(4)), Mask(causal=True, window=window)
    prompt, later = normal(2, 5, 8), normal(2, 4, 8, seed=1)
    kept = torch.tensor([[True] * 5, [True, True, False, False, False]])
    kept = kept.flip(1) if side == "left" else kept
    cache = KeyValueCache()
    with torch.no_grad():
        layer(prompt, mask=Mask(causal=True, window=window, padding=kept), cache=cache)
        steps = [layer(step, mask=mask, cache=cache) for step in later.split(1, dim=1)]
        first = layer(torch.cat([prompt[:1], later[:1]], dim=1), mask=mask)[:, -4:]
        torch.testing.assert_close(torch.cat(steps, dim=1)[:1], first, rtol=0, atol=1e-12)
        if side == "left":  # a distance bias does not see that all positions are shifted
            second = layer(torch.cat([prompt[1:, 3:], later[1:]], dim=1), mask=mask)[:, -4:]
            torch.testing.assert_close(torch.cat(steps, dim=1)[1:], second, rtol=0, atol=1e-12)
    assert cache.padding.shape == (2, 9)
    assert cache.padding[1].sum() == 6


@pytest.mark.parametrize("window", [None, 2])
def test_padding_may_name_the_new_keys_or_all(window):
    layer, x = layer_with(), normal(2, 6, 8)
    kept = torch.rand(2, 6, generator=torch.Generator().manual_seed(1)) < 0.6
    whole = layer(x, mask=Mask(causal=True, window=window, padding=kept))
    only_new, all_keys = KeyValueCache(window=window), KeyValueCache(window=window)
    for step in range(6):
        new, until = kept[:, step : step + 1], kept[:, : step + 1]
        part = x[:, step : step + 1]
        one = layer(part, mask=Mask(causal=True, window=window, padding=new), cache=only_new)
        other = layer(part, mask=Mask(causal=True, window=window, padding=until), cache=all_keys)
        torch.testing.assert_close(one, whole[:, step : step + 1], rtol=0, atol=1e-12)
        torch.testing.assert_close(other, whole[:, step : step + 1], rtol=0, atol=1e-12)


def test_documents_and_tensors_reach_over_the_cache():
    layer, x = layer_with(), normal(1, 9, 8)
    documents = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 2, 2]])
    allowed = torch.rand(1, 1, 9, 9, generator=torch.Generator().manual_seed(0)) < 0.7
    whole = layer(x, mask=Mask(causal=True, window=3, documents=documents, allowed=allowed))
    cache = KeyValueCache(window=3)
    for start, stop in ((0, 4), (4, 5), (5, 9)):
        mask = Mask(True, 3, None, documents[:, :stop], allowed[:, :, start:stop, :stop])
        torch.testing.assert_close(layer(x[:, start:stop], mask=mask, cache=cache), whole[:, start:stop])


def test_beams_are_reordered_with_their_padding():
    layer, mask = layer_with(), Mask(causal=True)
    x, after = normal(3, 4, 8), normal(4, 1, 8, seed=1)
    kept = torch.tensor([[True] * 4, [False, True, True, True], [False, False, True, True]])
    rows = torch.tensor([2, 0, 0, 1])
    with torch.no_grad():
        cache = KeyValueCache()
        layer(x, mask=Mask(causal=True, padding=kept), cache=cache)
        cache.reorder(rows)
        got = layer(after, mask=mask, cache=cache)
        full = Mask(causal=True, padding=torch.cat([kept[rows], torch.ones(4, 1).bool()], dim=1))
        torch.testing.assert_close(got, layer(torch.cat([x[rows], after], dim=1), mask=full)[:, -1:])


def test_memory_is_projected_once():
    layer, memory = layer_with(), normal(2, 5, 8)
    kept = Mask(padding=torch.tensor([[True] * 5, [True, True, False, False, False]]))
    cache, x = KeyValueCache(), normal(2, 3, 8, seed=1)
    calls = []
    layer.key.register_forward_hook(lambda *_: calls.append(1))
    parts = [layer(part, memory, mask=kept, cache=cache) for part in x.split(1, dim=1)]
    assert len(calls) == 1
    torch.testing.assert_close(torch.cat(parts, dim=1), layer(x, memory, mask=kept))
    assert cache.length == 5


def test_gradients_flow_through_the_steps():
    layer, x = layer_with(), normal(1, 5, 8).requires_grad_()
    cache, mask = KeyValueCache(capacity=3), Mask(causal=True)
    parts = torch.cat([layer(part, mask=mask, cache=cache) for part in x.split([2, 1, 2], dim=1)], dim=1)
    wanted = torch.autograd.grad(layer(x, mask=mask).cos().sum(), x)[0]
    torch.testing.assert_close(torch.autograd.grad(parts.cos().sum(), x)[0], wanted)


def test_what_was_returned_stays_when_the_cache_goes_on():
    cache = KeyValueCache(capacity=8, window=2)
    first, _ = cache.append(torch.ones(1, 1, 4, 1), torch.ones(1, 1, 4, 1))
    for number in range(2, 9):
        cache.append(torch.full((1, 1, 1, 1), float(number)), torch.zeros(1, 1, 1, 1))
    assert first.flatten().tolist() == [1, 1, 1, 1]


def test_a_prompt_read_in_inference_mode_may_be_continued_outside():
    layer, mask, x = layer_with(), Mask(causal=True), normal(1, 4, 8)
    cache = KeyValueCache(capacity=8)
    with torch.inference_mode():
        layer(x[:, :3], mask=mask, cache=cache)
    with torch.no_grad():
        torch.testing.assert_close(layer(x[:, 3:], mask=mask, cache=cache), layer(x, mask=mask)[:, 3:])


def test_an_error_leaves_the_cache_as_it_was():
    layer, cache = layer_with(), KeyValueCache()
    layer(normal(2, 3, 8), mask=Mask(causal=True), cache=cache)
    for mask in (
        Mask(causal=True, padding=torch.ones(2, 2).bool()),
        Mask(causal=True, padding=torch.ones(3, 1).bool()),
        Mask(allowed=torch.ones(1, 7).bool()),
    ):
        with pytest.raises(ValueError, match="wanted"):
            layer(normal(2, 1, 8), mask=mask, cache=cache)
        assert (cache.length, cache.seen, cache.padding) == (3, 3, None)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: KeyValueCache(capacity=-1), "capacity: got -1"),
        (lambda: KeyValueCache(window=0), "window: got 0"),
        (lambda: KeyValueCache().keys, "cache: got an empty one"),
        (
            lambda: filled().append(torch.zeros(2, 2, 1, 3), torch.zeros(2, 2, 1, 3)),
            r"holds keys of shape \[1, 2, tokens, 3\]",
        ),
        (lambda: filled().append(torch.zeros(1, 2, 1, 4), torch.zeros(1, 2, 1, 3)), "wanted the cache of this layer"),
        (lambda: filled().append(*[torch.zeros(1, 2, 1, 3).half()] * 2), "torch.float16; wanted"),
        (lambda: filled().append(torch.zeros(1, 2, 2, 3), torch.zeros(1, 2, 1, 3)), r"value: got shape \[1, 2, 1, 3\]"),
        (
            lambda: filled().append(*[torch.zeros(1, 2, 1, 3)] * 2, torch.ones(1, 2).bool()),
            r"padding: got shape \[1, 2\]",
        ),
        (lambda: layer_with()(normal(1, 1, 8), cache=filled()), "cache: holds keys of shape"),
        (
            lambda: layer_with()(normal(2, 1, 8), normal(2, 1, 8), cache=filled()),
            r"cache: holds keys of shape \[1, 2, 4, 3\]",
        ),
        (
            lambda: layer_with()(normal(1, 1, 8), mask=Mask(causal=True), cache=KeyValueCache(window=2)),
            "cache: forgets beyond its window of 2, wanted mask.window within it, got None",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name(use, message):
    with pytest.raises(ValueError, match=message):
        use()


def filled():
    cache = KeyValueCache()
    cache.append(torch.zeros(1, 2, 4, 3), torch.zeros(1, 2, 4, 3))
    return cache
