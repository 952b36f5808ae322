"""TorchStep: one more token for each text of a batch without a C compiler, in few operations of torch."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu, relu, scaled_dot_product_attention, silu

from headwise.packed.fallback import TorchProduct
from headwise.packed.linear import FEW, PackedLinear, fast_dtype
from headwise.packed.plan import CannotPlan, check_block, check_kinds

ACTIVATIONS: dict[str, Any] = {
    "silu": silu,
    "gelu": gelu,
    "gelu_tanh": lambda x: gelu(x, approximate="tanh"),  # pyright: ignore[reportUnknownLambdaType]
    "relu": relu,
}


class TorchStep:
    """The modules' numbers with query, key and value as one product, gate and up as one, and no module calls."""

    def __init__(self, model: Any) -> None:
        config = model.decoder.config
        check_kinds(config)
        self._layers = [_Layer(config, block, config.window(layer)) for layer, block in enumerate(model.decoder.blocks)]
        self._norm = _norm(config.norm, model.decoder.norm)
        self._head, self._scale = _Product([model.head.words]), model.head.scale

    def suits(self, batch: int) -> bool:
        """More rows than these are faster through the widened weights."""
        return batch <= FEW

    def __call__(self, x: Tensor, cosine: Tensor, sine: Tensor, caches: list[Any]) -> Tensor:
        """x [batch, dim], the tokens' vectors; cos and sin [1 or batch, dims] -> logits [batch, vocabulary]."""
        half = sine.shape[1] // 2
        # x·cos + swap(x)·sin, where the first half of swap(x) is taken away.
        turn = cosine[:, None], torch.cat([-sine[:, :half], sine[:, half:]], dim=1)[:, None]
        for layer, cache in zip(self._layers, caches, strict=True):
            x = layer(x, turn, cache)
        x = self._norm(x)
        return self._head(x if self._scale == 1 else x * self._scale)


def _norm(kind: str, norm: Any) -> Callable[[Tensor], Tensor]:
    """The norm as a function of [..., dim]; for one row torch's own root mean square takes three times as long."""
    if norm is None or kind != "rms":
        return norm or (lambda x: x)
    weight, share, epsilon = norm.weight.detach(), 1 / len(norm.weight), torch.tensor(norm.epsilon)

    def root_mean_square(x: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return (x * torch.addcmul(epsilon, length, length, value=share).rsqrt_()).mul_(weight)

    return root_mean_square


class _Product:
    """Packed linear layers that meet the same vector, as one."""

    def __init__(self, linears: list[Any]) -> None:
        for linear in linears:
            if not isinstance(linear, PackedLinear):
                raise CannotPlan(f"a {type(linear).__name__} stands where a packed layer should")
        self._product = _joined(linears)
        if not self._product.in_place or len({linear.packed.form.bits for linear in linears}) > 1:
            raise CannotPlan("torch has no product for its blocks here")
        biases = [linear.bias for linear in linears]
        if any(bias is not None for bias in biases):
            zeros = [torch.zeros(linear.out_features) for linear in linears]
            self._bias = torch.cat([zero if bias is None else bias for bias, zero in zip(biases, zeros, strict=True)])
        else:
            self._bias = None

    def __call__(self, x: Tensor) -> Tensor:
        y = self._product.few(x)
        return y if self._bias is None else y.add_(self._bias)


def _joined(linears: list[Any]) -> TorchProduct:
    """The product of all, made once: turning the blocks into torch's layout takes as long as fifty steps."""
    if len(linears) == 1:
        return linears[0].torch_product
    weights = [linear.packed for linear in linears]
    known = vars(linears[0]).get("_joined")
    if (
        known is None
        or len(known[0]) != len(weights)
        or any(a is not b for a, b in zip(known[0], weights, strict=True))
    ):
        known = weights, TorchProduct(weights, fast_dtype())
        vars(linears[0])["_joined"] = known
    return known[1]


class _Layer:
    """One block."""

    def __init__(self, config: Any, block: Any, window: int | None) -> None:
        check_block(block)
        attention, wide = block.attention, block.feedforward
        self._heads, self._key_heads, self._size = config.heads, config.shared_heads, config.size_of_head
        self._turned = self._heads + self._key_heads
        self._window, self._scale = window, attention.scale
        self._norms = _norm(config.norm, block.attention_norm), _norm(config.norm, block.feedforward_norm)
        self._own_norms = None
        if attention.query_norm is not None:
            self._own_norms = _norm("rms", attention.query_norm), _norm("rms", attention.key_norm)
        self._projections = _Product([attention.query, attention.key, attention.value])
        self._output = _Product([attention.output])
        self._gated, self._hidden = wide.gate is not None, config.hidden
        self._wide = _Product([wide.gate, wide.up] if self._gated else [wide.up])
        self._down = _Product([wide.down])
        self._activate = ACTIVATIONS[config.activation]

    def __call__(self, x: Tensor, turn: tuple[Tensor, Tensor], cache: Any) -> Tensor:
        x = self._output(self._look(self._projections(self._norms[0](x)), turn, cache)).add_(x)
        wide = self._wide(self._norms[1](x))
        if self._gated:
            wide = self._activate(wide[:, : self._hidden]).mul_(wide[:, self._hidden :])
        else:
            wide = self._activate(wide)
        return self._down(wide).add_(x)

    def _look(self, projected: Tensor, turn: tuple[Tensor, Tensor], cache: Any) -> Tensor:
        """[batch, (heads + 2 key heads) · size] -> the heads' results side by side."""
        split = projected.view(len(projected), -1, self._size)
        turned = split[:, : self._turned]
        if self._own_norms is not None:
            of_query, of_key = self._own_norms
            turned = torch.cat([of_query(turned[:, : self._heads]), of_key(turned[:, self._heads :])], dim=1)
        if turn[0].shape[2]:
            turned = _rotated(turned, *turn)
        keys, values = cache.open(1)
        end = cache.length
        keys[:, :, end - 1], values[:, :, end - 1] = turned[:, self._heads :], split[:, self._turned :]
        begin = 0 if self._window is None else max(0, end - self._window)
        mixed = scaled_dot_product_attention(
            turned[:, : self._heads, None],
            keys[:, :, begin:end],
            values[:, :, begin:end],
            attn_mask=None if cache.padding is None else cache.padding[:, None, None, begin:],
            scale=self._scale,
            enable_gqa=self._key_heads < self._heads,
        )
        return mixed.view(len(projected), -1)


def _rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """x [batch, head, size] turned; what is beyond the angles stays."""
    dims = cosine.shape[2]
    part = x if dims == x.shape[2] else x[..., :dims]
    swapped = part.unflatten(2, (2, dims // 2)).flip(2).flatten(2)
    turned = torch.addcmul(part * cosine, swapped, sine)
    return turned if part is x else torch.cat([turned, x[..., dims:]], dim=2)
