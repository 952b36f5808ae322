"""MultiHeadAttention against torch.nn's with the same weights, and head by head; its options, sizes and refusals."""

import copy

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from headwise import KeyValueCache, Mask, MultiHeadAttention, attention, attention_steps
from headwise.attention.positions import ALiBi, RelativeBuckets, Rotary


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def build(*sizes, **more):
    torch.manual_seed(0)
    layer = MultiHeadAttention(*sizes, **more).double()
    for linear in (layer.query, layer.key, layer.value, layer.output):
        if linear.bias is not None:
            torch.nn.init.normal_(linear.bias)
    return layer


def pair():
    """Our layer and torch's, with the same weights."""
    ours, theirs = build(12, 3), torch.nn.MultiheadAttention(12, 3, batch_first=True).double()
    with torch.no_grad():
        parts = (ours.query, ours.key, ours.value)
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
        theirs.out_proj.load_state_dict(ours.output.state_dict())
    return ours, theirs


@pytest.mark.parametrize("training", [True, False])
def test_equals_torch_with_the_same_weights(training):
    ours, theirs = (layer.train(training) for layer in pair())
    x, memory = normal(2, 5, 12).requires_grad_(), normal(2, 7, 12, seed=1)
    kept = torch.tensor([[True] * 7, [True, True, True, False, False, False, False]])
    future = torch.ones(5, 5).triu(1).bool()
    pairs = [
        (ours(x), theirs(x, x, x)[0]),
        (ours(x, mask=Mask(causal=True)), theirs(x, x, x, attn_mask=future)[0]),
        (ours(x, mask=~future), theirs(x, x, x, attn_mask=future)[0]),
        (ours(x, memory, mask=Mask(padding=kept)), theirs(x, memory, memory, key_padding_mask=~kept)[0]),
    ]
    for got, wanted in pairs:
        torch.testing.assert_close(got, wanted)
        pulled = (torch.autograd.grad(mixed.cos().sum(), x)[0] for mixed in (got, wanted))
        torch.testing.assert_close(*pulled)


@pytest.mark.parametrize("kernel", ["equation", "sdpa", "blocks", "auto"])
def test_is_the_formula_head_by_head(kernel):
    """concat(head_1 ... head_h)·W_O, with the shared keys taken by hand."""
    layer = build(10, 6, key_value_heads=2, head_dim=4, kernel=kernel)
    x = normal(2, 5, 10)
    heads = []
    for head in range(6):
        own, shared = slice(4 * head, 4 * head + 4), slice(4 * (head // 3), 4 * (head // 3) + 4)
        query = x @ layer.query.weight[own].T + layer.query.bias[own]
        key = x @ layer.key.weight[shared].T + layer.key.bias[shared]
        value = x @ layer.value.weight[shared].T + layer.value.bias[shared]
        scores = (query @ key.mT / 2).masked_fill(torch.ones(5, 5).triu(1).bool(), -torch.inf)
        heads.append(scores.softmax(dim=-1) @ value)
    wanted = torch.cat(heads, dim=-1) @ layer.output.weight.T + layer.output.bias
    torch.testing.assert_close(layer(x, mask=Mask(causal=True)), wanted)


def test_the_kernel_is_the_seam():
    layer, seen = build(8, 2, dropout=0.5), []

    def spy(query, key, value, mask, bias, scale, dropout):
        seen.append((query.shape, mask.causal, bias, scale, dropout))
        return attention(query, key, value, mask, bias, scale)

    plain = layer.eval()(normal(1, 3, 8), mask=Mask(causal=True))
    layer.kernel = spy
    assert torch.equal(layer(normal(1, 3, 8), mask=Mask(causal=True)), plain)
    assert seen == [((1, 2, 3, 4), True, None, 0.5, 0.0)]
    layer.train()(normal(1, 3, 8))
    assert seen[1][-1] == 0.5


@pytest.mark.parametrize(("name", "make"), [("buckets", lambda: RelativeBuckets(2)), ("alibi", lambda: ALiBi(2))])
def test_a_bias_of_positions_is_used_and_may_be_passed_down(name, make):
    layer, x = build(8, 2, positions=make()), normal(1, 4, 8)
    if name == "buckets":
        torch.nn.init.normal_(layer.positions.weight)
    bias = layer.positions(4, 4)
    plain = copy.deepcopy(layer)
    plain.positions = None
    torch.testing.assert_close(layer(x), plain(x, bias=bias))
    torch.testing.assert_close(layer(x), plain(x, bias=bias.tensor(4, 4)))
    assert not torch.allclose(layer(x), plain(x))


def test_a_rotation_may_be_passed_down():
    layer, x = build(8, 2, positions=Rotary(4)), normal(1, 4, 8)
    rotation = layer.positions(torch.arange(4), torch.float64)
    own = layer(x)
    layer.positions = None
    assert torch.equal(layer(x, rotation=rotation), own)
    assert not torch.allclose(layer(x), own)


def test_norms_stand_between_projection_and_attention():
    norms = {name: torch.nn.RMSNorm(4, dtype=torch.float64) for name in ("query_norm", "key_norm")}
    layer, x = build(8, 2, **norms, scale=0.7), normal(1, 3, 8)

    def heads(linear):
        return linear(x).view(1, 3, 2, 4).transpose(1, 2)

    query, key = norms["query_norm"](heads(layer.query)), norms["key_norm"](heads(layer.key))
    mixed = attention_steps(query, key, heads(layer.value), scale=0.7).mixed
    torch.testing.assert_close(layer(x), layer.output(mixed.transpose(1, 2).reshape(1, 3, 8)))


def test_dropout_acts_in_training_only():
    layer, x = build(8, 2, dropout=0.5), normal(1, 6, 8)
    assert torch.equal(layer.eval()(x), layer.eval()(x))
    assert not torch.equal(layer.train()(x), layer.train()(x))


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_dtype(kind):
    layer = MultiHeadAttention(8, 2, key_value_heads=1, positions=Rotary(4)).to(kind)
    mixed = layer(normal(2, 3, 8, dtype=kind), mask=Mask(causal=True))
    assert mixed.dtype == kind
    mixed.sum().backward()
    assert layer.query.weight.grad.dtype == kind


@pytest.mark.parametrize("shape", [(0, 3, 8), (2, 0, 8)])
@pytest.mark.parametrize("kernel", ["equation", "sdpa", "blocks", "auto"])
def test_nothing_in_nothing_out(shape, kernel):
    layer = build(8, 4, key_value_heads=2, positions=Rotary(2), kernel=kernel)
    x = normal(*shape).requires_grad_()
    mixed = layer(x, mask=Mask(causal=True), cache=KeyValueCache())
    assert mixed.shape == shape
    mixed.sum().backward()
    assert layer(x, normal(shape[0], 4, 8)).shape == shape
    assert layer(normal(shape[0], 4, 8), x[:, :0]).shape == (shape[0], 4, 8)


def test_compiles_whole_and_once_for_fresh_masks():
    layer, x = build(8, 4, key_value_heads=2, positions=Rotary(2)), normal(2, 6, 8)
    counter = CompileCounterWithBackend("aot_eager")
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, backend=counter)
    for _ in range(3):
        torch.testing.assert_close(compiled(x, mask=Mask(causal=True)), layer(x, mask=Mask(causal=True)))
    assert counter.frame_count == 1
    for length in (7, 8, 9, 10):
        other = normal(2, length, 8)
        torch.testing.assert_close(compiled(other, mask=Mask(causal=True)), layer(other, mask=Mask(causal=True)))
    assert counter.frame_count <= 2


def test_compiles_with_padding_memory_and_a_cache():
    layer, x, memory = build(8, 4), normal(2, 3, 8), normal(2, 5, 8, seed=1)
    padding = torch.tensor([[True] * 5, [False] * 5])
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    got, wanted = compiled(x, memory, mask=Mask(padding=padding)), layer(x, memory, mask=Mask(padding=padding))
    torch.testing.assert_close(got, wanted)
    with torch.no_grad():
        one, other = KeyValueCache(capacity=8), KeyValueCache(capacity=8)
        for part in x.split(1, dim=1):
            got = compiled(part, mask=Mask(causal=True), cache=one)
            torch.testing.assert_close(got, layer(part, mask=Mask(causal=True), cache=other))


@pytest.mark.filterwarnings("ignore:There is a performance drop because we have not yet implemented the batching")
@pytest.mark.parametrize("positions", [None, Rotary(2), ALiBi(4)], ids=["plain", "rotary", "alibi"])
def test_maps_over_a_batch_and_over_its_weights(positions):
    layer, x = build(8, 4, positions=positions), normal(3, 5, 8)
    one_row = torch.func.vmap(lambda row: layer(row[None], mask=Mask(causal=True))[0])
    torch.testing.assert_close(one_row(x), layer(x, mask=Mask(causal=True)))
    ensemble = [build(8, 4, positions=positions), build(8, 4, positions=positions)]
    torch.nn.init.normal_(ensemble[1].query.weight)
    weights, buffers = torch.func.stack_module_state(ensemble)
    both = torch.func.vmap(lambda w, b: torch.func.functional_call(layer, (w, b), (x,)))(weights, buffers)
    torch.testing.assert_close(both, torch.stack([member(x) for member in ensemble]))


def test_meta_tensors_know_their_shape():
    with torch.device("meta"):
        layer = MultiHeadAttention(32, 4, key_value_heads=2, positions=Rotary(8))
        mixed = layer(torch.empty(2, 3000, 32), mask=Mask(causal=True, window=64), cache=KeyValueCache(window=64))
    assert mixed.shape == (2, 3000, 32)
    assert mixed.device.type == "meta"


def test_is_a_plain_module():
    layer = build(8, 4, key_value_heads=2, bias=False, output_bias=True)
    assert list(layer.state_dict()) == ["query.weight", "key.weight", "value.weight", "output.weight", "output.bias"]
    assert layer.key.weight.shape == (4, 8)
    assert "dim=8, heads=4, key_value_heads=2, head_dim=2" in repr(layer)
    twin = copy.deepcopy(layer)
    with torch.no_grad():
        twin.query.weight.zero_()
    assert not torch.equal(twin(normal(1, 2, 8)), layer(normal(1, 2, 8)))


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: MultiHeadAttention(10, 4), "heads: got 4, wanted a number that divides dim=10"),
        (
            lambda: MultiHeadAttention(8, 4, key_value_heads=3),
            "key_value_heads: got 3, wanted a number that divides heads=4",
        ),
        (lambda: MultiHeadAttention(0, 1), "dim: got 0"),
        (lambda: MultiHeadAttention(8, 0), "heads: got 0"),
        (lambda: MultiHeadAttention(8, 2, head_dim=-1), "head_dim: got -1"),
        (lambda: MultiHeadAttention(8, 2, dropout=1.0), "dropout: got 1.0"),
        (lambda: MultiHeadAttention(8, 2, scale=float("nan")), "scale: got nan"),
        (lambda: MultiHeadAttention(8, 2, kernel="flash"), "kernel: got 'flash'"),
        (lambda: build(8, 2)(normal(3, 8)), r"x: got shape \[3, 8\], wanted \[batch, token, 8\]"),
        (lambda: build(8, 2)(normal(1, 3, 7)), r"x: got shape \[1, 3, 7\]"),
        (lambda: build(8, 2)(normal(1, 3, 8), normal(1, 3, 7)), r"memory: got shape \[1, 3, 7\]"),
        (lambda: build(8, 2)(normal(2, 3, 8), normal(1, 3, 8)), "memory: got batch 1, wanted x's 2"),
        (lambda: build(8, 2)(normal(1, 3, 8), mask=[[True]]), "mask: got list"),
        (lambda: build(8, 2)(normal(1, 3, 8), mask=torch.ones(3, 3)), "mask.allowed: got .* float32"),
        (
            lambda: build(8, 2)(normal(1, 3, 8), mask=Mask(padding=torch.ones(1, 4).bool())),
            r"mask.padding: got shape \[1, 4\]",
        ),
        (lambda: build(8, 2)(normal(1, 3, 8), bias=torch.zeros(4, 3)), r"bias: got shape \[4, 3\]"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(use, message):
    with pytest.raises(ValueError, match=message):
        use()
