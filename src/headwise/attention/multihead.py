"""MultiHeadAttention: project, split into heads, attend, join, project again (Vaswani et al. 2017, section 3.2.2)."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from headwise.attention.cache import KeyValueCache
from headwise.attention.kernels import check_bias, check_scale, find_kernel
from headwise.attention.masks import Mask, as_mask
from headwise.attention.positions import ALiBi, DistanceBias, RelativeBuckets, Rotary, Rotation


class MultiHeadAttention(nn.Module):
    """concat(head_1 ... head_h)·W_O, where head_i = attention(x·W_Q_i, x·W_K_i, x·W_V_i).

    `key_value_heads` fewer than `heads` share their keys and values among the heads (Ainslie et al. 2023). `positions`
    is a Rotary, RelativeBuckets or ALiBi, or None. `kernel` is a name or a callable, and may be exchanged at any time.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        key_value_heads: int | None = None,
        head_dim: int | None = None,
        bias: bool = True,
        output_bias: bool | None = None,
        dropout: float = 0.0,
        scale: float | None = None,
        positions: Rotary | RelativeBuckets | ALiBi | None = None,
        query_norm: nn.Module | None = None,
        key_norm: nn.Module | None = None,
        kernel: str | Callable[..., Tensor] = "auto",
    ) -> None:
        super().__init__()
        key_value_heads = heads if key_value_heads is None else key_value_heads
        _check_sizes(dim, heads, key_value_heads, head_dim, dropout)
        head_dim = dim // heads if head_dim is None else head_dim
        find_kernel(kernel)
        self.dim, self.heads, self.key_value_heads, self.head_dim = dim, heads, key_value_heads, head_dim
        self.dropout = dropout
        self.scale = check_scale(scale, head_dim)
        self.positions = positions
        self.kernel = kernel
        self.query = nn.Linear(dim, heads * head_dim, bias=bias)
        self.key = nn.Linear(dim, key_value_heads * head_dim, bias=bias)
        self.value = nn.Linear(dim, key_value_heads * head_dim, bias=bias)
        self.output = nn.Linear(heads * head_dim, dim, bias=bias if output_bias is None else output_bias)
        self.query_norm, self.key_norm = query_norm, key_norm
        for linear in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:  # pyright: ignore[reportUnnecessaryComparison]
                nn.init.zeros_(linear.bias)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Mask | Tensor | None = None,
        bias: Tensor | DistanceBias | None = None,
        rotation: Rotation | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """x [batch, token, dim] attends to itself, or to `memory`; with a cache also to the tokens before.

        A mask's padding may name all keys, or with a cache the new ones only. A cache given with `memory` holds the
        projected memory: it is filled at the first call and read at the next ones.
        """
        self._check_input("x", x)
        mask = as_mask(mask)
        query = self._split(self.query(x), self.heads)
        query = query if self.query_norm is None else self.query_norm(query)
        if memory is None:
            key, value = self._project(x)
            rotation = self._rotation(x, cache) if rotation is None else rotation
            if rotation is not None:
                query, key = rotation.apply(query), rotation.apply(key)
            if cache is not None:
                key, value, mask = self._continued(cache, key, value, mask)
        else:
            key, value = self._of_memory(memory, x.shape[0], cache)
        queries, keys = query.shape[2], key.shape[2]
        bias = self._own_bias(queries, keys, x.device) if bias is None else bias
        mask.check(x.shape[0], self.heads, queries, keys)
        check_bias(bias, x.shape[0], self.heads, queries, keys)
        dropout = self.dropout if self.training else 0.0
        mixed = find_kernel(self.kernel)(query, key, value, mask, bias, self.scale, dropout)
        return self.output(mixed.transpose(1, 2).flatten(2))

    def extra_repr(self) -> str:
        """The sizes, for print(layer)."""
        return f"dim={self.dim}, heads={self.heads}, key_value_heads={self.key_value_heads}, head_dim={self.head_dim}"

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor]:
        key = self._split(self.key(x), self.key_value_heads)
        key = key if self.key_norm is None else self.key_norm(key)
        return key, self._split(self.value(x), self.key_value_heads)

    def _of_memory(self, memory: Tensor, batch: int, cache: KeyValueCache | None) -> tuple[Tensor, Tensor]:
        """The keys and values of the memory: projected, or out of the cache that has held them since the first call."""
        if cache is not None and cache.length:
            key, value = cache.keys, cache.values
            wanted = (batch, self.key_value_heads, key.shape[2], self.head_dim)
            if key.shape != wanted:
                raise ValueError(f"cache: holds keys of shape {list(key.shape)}, wanted {list(wanted)}")
            return key, value
        self._check_input("memory", memory)
        if memory.shape[0] != batch:
            raise ValueError(f"memory: got batch {memory.shape[0]}, wanted x's {batch}")
        key, value = self._project(memory)
        return (key, value) if cache is None else cache.append(key, value)

    def _continued(self, cache: KeyValueCache, key: Tensor, value: Tensor, mask: Mask) -> tuple[Tensor, Tensor, Mask]:
        """The keys and values of all tokens held, and the mask over them; an error leaves the cache as it was."""
        new, total = key.shape[2], cache.length + key.shape[2]
        _check_window(cache, mask)
        mask = mask.last_keys(total, cache.seen + new)
        padding = mask.padding if mask.padding is not None and mask.padding.shape[1] == new else None
        if padding is not None:
            mask = replace(mask, padding=None)
        mask.check(key.shape[0], self.heads, new, total)
        key, value = cache.append(key, value, padding)
        mask = mask.last_keys(key.shape[2], total)
        if mask.padding is None and cache.padding is not None:
            mask = replace(mask, padding=cache.padding)
        return key, value, mask

    def _split(self, x: Tensor, heads: int) -> Tensor:
        """[batch, token, heads·head_dim] -> [batch, head, token, head_dim]."""
        return x.view(x.shape[0], x.shape[1], heads, self.head_dim).transpose(1, 2)

    def _rotation(self, x: Tensor, cache: KeyValueCache | None) -> Rotation | None:
        if not isinstance(self.positions, Rotary):
            return None
        seen = 0 if cache is None else cache.seen
        stop = seen + x.shape[1]
        return self.positions(torch.arange(seen, stop, device=x.device), x.dtype, stop)

    def _own_bias(self, queries: int, keys: int, device: torch.device) -> DistanceBias | None:
        if isinstance(self.positions, RelativeBuckets):
            return self.positions(queries, keys)
        if isinstance(self.positions, ALiBi):
            return self.positions(queries, keys, device)
        return None

    def _check_input(self, name: str, x: Tensor) -> None:
        if x.ndim != 3 or x.shape[-1] != self.dim:
            raise ValueError(f"{name}: got shape {list(x.shape)}, wanted [batch, token, {self.dim}]")


def _check_window(cache: KeyValueCache, mask: Mask) -> None:
    """What a cache forgets, no query may want to see."""
    if cache.window is not None and (mask.window is None or mask.window > cache.window):
        raise ValueError(
            f"cache: forgets beyond its window of {cache.window}, wanted mask.window within it, got {mask.window}"
        )


def _check_sizes(dim: int, heads: int, key_value_heads: int, head_dim: int | None, dropout: float) -> None:
    for name, size in (("dim", dim), ("heads", heads), ("key_value_heads", key_value_heads), ("head_dim", head_dim)):
        if size is not None and size < 1:
            raise ValueError(f"{name}: got {size}, wanted a positive number")
    if head_dim is None and dim % heads:
        raise ValueError(f"heads: got {heads}, wanted a number that divides dim={dim} (or give head_dim)")
    if heads % key_value_heads:
        raise ValueError(f"key_value_heads: got {key_value_heads}, wanted a number that divides heads={heads}")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout: got {dropout}, wanted a number from 0 to below 1")
