"""Every kernel against the equation in float64: masks, biases, dtypes, sizes, backward, compiled, mapped, on meta."""

import math
from functools import partial

import pytest
import torch
from attention_by_hand import problems
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise import Mask, attention, attention_steps, check_attention, explain_kernel
from headwise.attention import blocks as blocks_module
from headwise.attention.kernels import KERNELS
from headwise.attention.positions import ALiBi, DistanceBias

FAST = ("sdpa", "blocks", "auto")
EVERY = ("equation", *FAST)


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("kernel", EVERY)
def test_every_kernel_obeys_the_laws(kernel):
    report = check_attention(lambda query, key, value, mask: attention(query, key, value, mask, kernel=kernel))
    assert report.ok, str(report)


@st.composite
def biased_problems(draw):
    query, key, value, mask = draw(problems())
    batch, heads, queries, keys = *query.shape[:2], query.shape[2], key.shape[2]
    kind = draw(st.sampled_from(("no", "tensor", "distance")))
    bias = None
    if kind == "tensor":
        bias = normal(draw(st.sampled_from((1, batch))), draw(st.sampled_from((1, heads))), queries, keys)
    elif kind == "distance":
        spare = draw(st.integers(0, 2))
        bias = DistanceBias(normal(heads, queries + keys - 1 + 2 * spare), zero=keys - 1 + spare)
    return query, key, value, mask, bias


def mixed_and_gradients(kernel, problem, scale):
    query, key, value, mask, bias = problem
    inputs = [x.clone().requires_grad_() for x in (query, key, value)]
    if isinstance(bias, DistanceBias):
        inputs.append(bias.values.clone().requires_grad_())
        bias = DistanceBias(inputs[-1], bias.zero)
    elif bias is not None:
        inputs.append(bias.clone().requires_grad_())
        bias = inputs[-1]
    mixed = attention(*inputs[:3], mask, bias, scale, kernel)
    return [mixed, *torch.autograd.grad(mixed, inputs, mixed.detach().cos())]


@pytest.mark.parametrize("kernel", FAST)
@settings(max_examples=120, deadline=None, derandomize=True)
@given(problem=biased_problems(), scale=st.sampled_from((None, 1.0, 0.3)))
def test_equals_the_equation_forward_and_backward(kernel, problem, scale):
    wanted = mixed_and_gradients("equation", problem, scale)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks_module, "QUERIES", 3)
        patch.setattr(blocks_module, "KEYS", 4)
        patch.setattr(blocks_module, "NEAR", 2)
        got = mixed_and_gradients(kernel, problem, scale)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


MASKS = {
    "no": Mask(),
    "causal": Mask(causal=True),
    "window": Mask(window=300),
    "causal window": Mask(causal=True, window=70),
    "padding": Mask(padding=torch.arange(1100).expand(2, -1) < torch.tensor([[1100], [450]])),
    "causal padding on the left": Mask(
        causal=True, padding=torch.arange(1100).expand(2, -1) >= torch.tensor([[0], [450]])
    ),
    "documents": Mask(causal=True, documents=(torch.arange(1100) // 333).expand(2, -1)),
    "tensor": Mask(allowed=torch.rand(2, 1, 1100, 1100, generator=torch.Generator().manual_seed(3)) < 0.5),
}


@pytest.mark.parametrize("kernel", FAST)
@pytest.mark.parametrize("name", MASKS)
def test_long_inputs_cross_the_edges_of_real_blocks(name, kernel):
    query, key, value = (normal(2, 4 if i == 0 else 2, 1100, 4, seed=i) for i in range(3))
    query, key, value = (x.requires_grad_() for x in (query, key, value))
    mask = MASKS[name]
    wanted = attention(query, key, value, mask, kernel="equation")
    got = attention(query, key, value, mask, kernel=kernel)
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-10)
    pulled = (torch.autograd.grad(x, (query, key, value), value.detach().repeat(1, 2, 1, 1)) for x in (got, wanted))
    for one, other in zip(*pulled, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kernel", FAST)
@pytest.mark.parametrize("name", ["causal", "causal window", "documents"])
def test_fewer_queries_than_keys_are_the_last_rows(name, kernel):
    query, key, value = (normal(2, 2, 1100, 4, seed=i) for i in range(3))
    wanted = attention(query, key, value, MASKS[name], kernel="equation")[:, :, -300:]
    got = attention(query[:, :, -300:], key, value, MASKS[name], kernel=kernel)
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)


TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


@pytest.mark.parametrize("kernel", EVERY)
@pytest.mark.parametrize("kind", TOLERANCE)
@pytest.mark.parametrize("name", ["no", "causal", "causal window", "causal padding on the left"])
def test_every_dtype(name, kind, kernel):
    query, key, value = (normal(2, 2, 1100, 8, seed=i, dtype=kind) for i in range(3))
    wanted = attention_steps(query.double(), key.double(), value.double(), MASKS[name]).mixed
    got = attention(query, key, value, MASKS[name], kernel=kernel)
    assert got.dtype == kind
    torch.testing.assert_close(got.double(), wanted, rtol=TOLERANCE[kind], atol=TOLERANCE[kind])


@pytest.mark.parametrize("kernel", EVERY)
def test_products_beyond_half_precision_do_not_overflow(kernel):
    query = torch.full((1, 1, 2, 64), 200.0, dtype=torch.float16)
    key = torch.stack([query[0, 0, 0], -query[0, 0, 0]])[None, None]
    value = torch.tensor([[[[1.0], [2.0]]]], dtype=torch.float16).expand(1, 1, 2, 64)
    assert (attention(query, key, value, kernel=kernel) == 1).all()


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kernel", EVERY)
def test_rows_that_see_nothing_give_zeros_and_finite_gradients(kernel, kind, dropout):
    query, key, value = (normal(2, 4, 5, 8, seed=i, dtype=kind).requires_grad_() for i in range(3))
    masks = [
        Mask(padding=torch.tensor([[True] * 5, [False] * 5])),
        Mask(causal=True, padding=torch.tensor([[False, True, True, True, True]])),
        Mask(allowed=torch.zeros(5, 5, dtype=torch.bool)),
        Mask(causal=True, window=1, padding=torch.tensor([[True, False, True, False, True]])),
    ]
    for mask in masks:
        mixed = attention(query, key, value, mask, bias=normal(4, 5, 5, dtype=kind), kernel=kernel, dropout=dropout)
        blind = ~mask.tensor(5, 5).expand(2, 4, 5, 5).any(dim=-1)
        assert blind.any()
        assert (mixed[blind] == 0).all()
        assert mixed.isfinite().all()
        gradients = torch.autograd.grad(mixed.float().square().sum(), (query, key, value))
        assert all(gradient.isfinite().all() for gradient in gradients)
        assert (gradients[0][blind] == 0).all()


def test_torch_gives_nan_where_ours_gives_zeros():
    """pytorch issues 41508 and 160064: a row of padding turns torch.nn.MultiheadAttention's output into NaN."""
    from headwise import MultiHeadAttention

    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    ours = MultiHeadAttention(8, 2)
    x = normal(2, 3, 8, dtype=torch.float32).requires_grad_()
    kept = torch.tensor([[True, True, True], [False, False, False]])
    broken = theirs(x, x, x, key_padding_mask=~kept)[0]
    assert broken[1].isnan().all()
    assert torch.autograd.grad(broken[0].sum(), x)[0].isnan().any()
    mixed = ours(x, mask=Mask(padding=kept))
    assert torch.equal(mixed[1], ours.output.bias.expand(3, 8))
    assert torch.autograd.grad(mixed.sum(), x)[0].isfinite().all()


@pytest.mark.parametrize("kernel", EVERY)
def test_dropout_drops_weights_and_keeps_the_mean(kernel):
    """With one key seen by all, a weight of one is kept and doubled, or dropped."""
    value = torch.ones(1, 1, 1, 1)
    query = torch.zeros(1, 1, 4000, 1)
    torch.manual_seed(0)
    mixed = attention(query, torch.zeros(1, 1, 1, 1), value, kernel=kernel, dropout=0.5)
    assert set(mixed.flatten().tolist()) == {0, 2}
    assert 0.95 < mixed.mean() < 1.05


@pytest.mark.parametrize("kernel", EVERY)
def test_gradients_belong_to_the_weights_that_were_dropped(kernel):
    """The way back must meet the same dropped weights as the way forward: mixed is linear in value."""
    query, key, value = (normal(1, 2, 600, 4, seed=i) for i in range(3))
    value.requires_grad_()
    torch.manual_seed(5)
    mixed = attention(query.requires_grad_(), key, value, Mask(causal=True), kernel=kernel, dropout=0.3)
    pull = torch.autograd.grad((mixed * 0.5).sum(), value, retain_graph=True)[0]
    torch.testing.assert_close((pull * value).sum(), mixed.sum() * 0.5, rtol=1e-9, atol=1e-9)
    with torch.no_grad():
        again = attention(query, key, value, Mask(causal=True), kernel=kernel, dropout=0.3)
    assert not torch.equal(again, mixed)


@pytest.mark.parametrize("kernel", EVERY)
@pytest.mark.parametrize("shape", [(0, 2, 3, 4), (2, 2, 0, 4), (2, 0, 3, 4)])
def test_nothing_in_nothing_out(shape, kernel):
    query = normal(*shape).requires_grad_()
    mixed = attention(query, query, query, Mask(causal=True), kernel=kernel)
    assert mixed.shape == shape
    mixed.sum().backward()
    assert query.grad.shape == shape


@pytest.mark.parametrize("kernel", EVERY)
def test_no_keys_give_zeros(kernel):
    query, nothing = normal(2, 4, 3, 4), normal(2, 2, 0, 4)
    mixed = attention(query, nothing, nothing, kernel=kernel)
    assert torch.equal(mixed, torch.zeros(2, 4, 3, 4, dtype=torch.float64))


@pytest.mark.parametrize("kernel", EVERY)
@pytest.mark.parametrize("name", ["no", "causal", "causal window", "documents", "tensor"])
def test_compiles_whole(name, kernel):
    query, key, value = (normal(2, 2, 40, 8, seed=i).requires_grad_() for i in range(3))
    parts = MASKS[name]
    mask = Mask(
        causal=parts.causal,
        window=None if parts.window is None else 7,
        documents=None if parts.documents is None else parts.documents[:, 320:360],
        allowed=None if parts.allowed is None else parts.allowed[..., :40, :40],
    )
    plain = partial(attention, mask=mask, kernel=kernel)
    torch.compiler.reset()
    compiled = torch.compile(plain, fullgraph=True, backend="aot_eager")
    got, wanted = compiled(query, key, value), plain(query, key, value)
    torch.testing.assert_close(got, wanted)
    pulled = (torch.autograd.grad(x.square().sum(), (query, key, value)) for x in (got, wanted))
    for one, other in zip(*pulled, strict=True):
        torch.testing.assert_close(one, other)


# torch maps its own CPU kernel by a loop, and says so.
LOOPS = pytest.mark.filterwarnings(
    "ignore:There is a performance drop because we have not yet implemented the batching"
)


@LOOPS
@pytest.mark.parametrize("kernel", EVERY)
@pytest.mark.parametrize("mask", [Mask(), Mask(causal=True), Mask(window=2)], ids=["no", "causal", "window"])
def test_maps_over_a_batch(mask, kernel):
    query, key, value = (normal(3, 2, 2, 5, 4, seed=i) for i in range(3))
    call = partial(attention, mask=mask, kernel=kernel)
    mapped = torch.func.vmap(call)(query, key, value)
    torch.testing.assert_close(mapped, torch.stack([call(*row) for row in zip(query, key, value, strict=True)]))


@LOOPS
@pytest.mark.parametrize("kernel", EVERY)
def test_maps_over_masks_too(kernel):
    query = normal(3, 1, 2, 5, 4)
    allowed = torch.rand(3, 1, 1, 5, 5, generator=torch.Generator().manual_seed(0)) < 0.4
    mapped = torch.func.vmap(lambda x, seen: attention(x, x, x, seen, kernel=kernel))(query, allowed)
    rows = [attention(x, x, x, seen, kernel=kernel) for x, seen in zip(query, allowed, strict=True)]
    torch.testing.assert_close(mapped, torch.stack(rows))


@pytest.mark.parametrize("kernel", EVERY)
def test_meta_tensors_know_their_shape(kernel):
    query = torch.empty(2, 4, 600, 8, device="meta")
    key, value = torch.empty(2, 2, 700, 8, device="meta"), torch.empty(2, 2, 700, 8, device="meta")
    kept = torch.ones(2, 700, dtype=torch.bool, device="meta")
    for mask in (Mask(), Mask(causal=True), Mask(causal=True, padding=kept), Mask(window=50)):
        mixed = attention(query, key, value, mask, kernel=kernel)
        assert mixed.shape == (2, 4, 600, 8)
        assert mixed.device.type == "meta"


def test_auto_says_what_it_takes_and_why():
    query, long = torch.empty(1, 1, 64, 8, device="meta"), torch.empty(1, 1, 8192, 8, device="meta")
    alibi = ALiBi(1)(8192, 8192)
    wanted = [
        ((query, query, None, None), "sdpa", "nothing is blocked"),
        ((query, query, Mask(causal=True), None), "sdpa", "only the future is blocked"),
        ((query, query, Mask(window=8), None), "sdpa", "64 queries and 64 keys is small"),
        ((query[:, :, :1], long, Mask(window=8), None), "sdpa", "one query"),
        ((long, long, Mask(causal=True), None), "sdpa", "only the future is blocked"),
        ((long, long, Mask(causal=True, window=512), None), "blocks", "a window of 512 leaves most of the 8192 keys"),
        ((long, long, Mask(documents=torch.zeros(1, 8192).long()), None), "blocks", r"a [8192, 8192] mask"),
        ((long, long, None, alibi), "blocks", r"a [8192, 8192] mask or bias would be large"),
        ((long[:, :, :4096], long, Mask(causal=True), None), "blocks", r"a [4096, 8192] mask"),
    ]
    for arguments, name, reason in wanted:
        choice = explain_kernel(*arguments)
        assert choice.name == name
        assert reason in choice.reason


def test_auto_does_what_it_says(monkeypatch):
    called = []
    for name, kernel in KERNELS.items():
        monkeypatch.setitem(KERNELS, name, lambda *a, name=name, kernel=kernel: called.append(name) or kernel(*a))
    query = normal(1, 1, 1100, 2)
    for mask in (None, Mask(causal=True), Mask(window=50), Mask(causal=True, window=900)):
        attention(query, query, query, mask)
        assert called.pop() == explain_kernel(query, query, mask).name


def test_sdpa_shares_keys_among_heads_without_copies():
    """Grouped heads in blocks and in torch's kernel: the shared keys are never repeated."""
    query, key = normal(1, 8, 4, 2), normal(1, 2, 4, 2)
    repeat = torch.Tensor.repeat_interleave
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "repeat_interleave", lambda *_, **__: pytest.fail("keys were copied"))
        shared = [attention(query, key, key, kernel=kernel) for kernel in ("sdpa", "blocks")]
    repeated = repeat(key, 4, dim=1)
    for mixed in shared:
        torch.testing.assert_close(mixed, attention(query, repeated, repeated, kernel="equation"))


Q = torch.zeros(2, 4, 3, 8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Q[0], Q, Q), r"query: got shape \[4, 3, 8\], wanted \[batch, head, token, head_dim\]"),
        ((Q, Q.half(), Q), "key: got dtype torch.float16, wanted that of query"),
        ((Q.long(), Q.long(), Q.long()), "query: got dtype torch.int64"),
        ((Q, Q[..., :4], Q), "key: got head_dim 4, wanted query's 8"),
        ((Q, Q, Q[:, :, :2]), "value: got shape"),
        ((Q, Q[:1], Q[:1]), "key: got batch 1, wanted query's 2"),
        ((Q, Q[:, :3], Q[:, :3]), "key: got 3 heads, wanted a number that divides query's 4"),
        ((Q, Q, Q, torch.ones(3, 4).bool()), r"mask: got shape \[3, 4\], wanted it to broadcast to \[2, 4, 3, 3\]"),
        ((Q, Q, Q, torch.ones(3, 3)), "mask.allowed: got shape .* float32, wanted .* bool"),
        ((Q, Q, Q, "causal"), "mask: got str"),
        ((Q, Q, Q, None, torch.zeros(5, 3)), r"bias: got shape \[5, 3\]"),
        ((Q, Q, Q, None, DistanceBias(torch.zeros(4, 4), 2)), "bias: got .* distances from -2 to 2"),
        ((Q, Q, Q, None, None, math.nan), "scale: got nan, wanted a finite number"),
        ((Q, Q, Q, None, None, None, "flash"), "kernel: got 'flash', wanted one of auto, equation, sdpa, blocks"),
        ((Q, Q, Q, None, None, None, "auto", 1.5), "dropout: got 1.5"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        attention(*arguments)
