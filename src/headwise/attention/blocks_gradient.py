"""The way back through attention by blocks: one block of queries meets one piece of the keys at a time, in two buffers.

With weights W = exp(scores - log Σ exp(scores)) and the gradient G of the output O (Dao et al. 2022, appendix B.4):
dV = Wᵀ·G,  dS = W ∘ (G·Vᵀ - rowsum(G ∘ O)),  dQ = dS·K·scale,  dK = dSᵀ·Q·scale.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from headwise.attention.masks import Mask
from headwise.attention.positions import DistanceBias, bias_tensor


class Terms(NamedTuple):
    """What attention depends on beside query, key and value, and the sizes of a block."""

    mask: Mask
    bias: Tensor | DistanceBias | None
    scale: float
    block: tuple[int, int]
    """Queries in a block, keys in a piece."""


def gradients(
    query: Tensor, key: Tensor, value: Tensor, mixed: Tensor, logs: Tensor, pulled: Tensor, terms: Terms
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of query, key and value; `logs` [batch, head, query, 1] are the logarithms of the rows' sums."""
    exact = logs.dtype
    key, value = (_one_axis(x.to(exact)) for x in (key, value))
    of_query = torch.zeros(query.shape, dtype=exact, device=query.device)
    of_key, of_value = torch.zeros_like(key), torch.zeros_like(value)
    room = query.shape[0] * query.shape[1] * min(terms.block[0], query.shape[2])
    buffers = [key.new_empty(room * min(terms.block[1], key.shape[1])) for _ in range(2)]
    for first in range(0, query.shape[2], terms.block[0]):
        rows = (first, min(first + terms.block[0], query.shape[2]))
        here = slice(*rows)
        asked = _stacked(query[:, :, here].to(exact) * terms.scale, key)
        pull = _stacked(pulled[:, :, here].to(exact), key)
        level = _stacked(logs[:, :, here], key)
        drift = (pull * _stacked(mixed[:, :, here].to(exact), key)).sum(dim=-1, keepdim=True)
        start, stop = terms.mask.reach(*rows, query.shape[2], key.shape[1])
        back = torch.zeros_like(asked)
        for begin in range(start, stop, terms.block[1]):
            columns = (begin, min(begin + terms.block[1], stop))
            near = slice(*columns)
            weights = _weights(asked, key[:, near], level, buffers[0], terms, (query, key), rows, columns)
            of_value[:, near].baddbmm_(weights.mT, pull)
            change = _product(pull, value[:, near].mT, buffers[1])
            change.sub_(drift).mul_(weights)
            back.baddbmm_(change, key[:, near])
            of_key[:, near].baddbmm_(change.mT, asked)
        of_query[:, :, here] = (back * terms.scale).view(of_query[:, :, here].shape)
    shape = (query.shape[0], -1, *key.shape[1:2])
    return of_query, of_key.view(*shape, key.shape[2]), of_value.view(*shape, value.shape[2])


def _weights(
    asked: Tensor,
    key: Tensor,
    level: Tensor,
    buffer: Tensor,
    terms: Terms,
    whole: tuple[Tensor, Tensor],
    rows: tuple[int, int],
    columns: tuple[int, int],
) -> Tensor:
    """The weights of one block and one piece, computed again from the products."""
    query, keys = whole
    sizes = query.shape[2], keys.shape[1]
    scores = _product(asked, key.mT, buffer)
    by_head = scores.view(query.shape[0], query.shape[1], rows[1] - rows[0], key.shape[1])
    if terms.bias is not None:
        by_head += bias_tensor(terms.bias, *sizes, rows, columns)
    allowed = terms.mask.tensor(*sizes, query.device, rows, columns)
    weights = scores.sub_(level).exp_()
    if allowed is not None:
        by_head.masked_fill_(~allowed, 0)
    return weights


def _product(one: Tensor, other: Tensor, buffer: Tensor) -> Tensor:
    """A batch of matrix products, written into the beginning of a buffer."""
    shape = (one.shape[0], one.shape[1], other.shape[2])
    return torch.bmm(one, other, out=buffer[: shape[0] * shape[1] * shape[2]].view(shape))


def _one_axis(x: Tensor) -> Tensor:
    """[batch, head, token, dim] -> [batch·head, token, dim]."""
    return x.reshape(-1, *x.shape[2:])


def _stacked(x: Tensor, key: Tensor) -> Tensor:
    """The rows of the heads that share a key head, below one another: [batch·key head, row, dim]."""
    return x.reshape(key.shape[0], -1, x.shape[-1])
