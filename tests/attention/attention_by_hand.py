"""Attention written a second time, one number at a time, and the inputs that hypothesis draws."""

import math
from collections.abc import Callable

import torch
from hypothesis import strategies as st
from torch import Tensor

from headwise import Mask


def attention_by_hand(
    query: Tensor, key: Tensor, value: Tensor, may_see: Callable[[int, int, int, int], bool], scale: float
) -> Tensor:
    """Loops and Python numbers: for every row, head and query the softmax over the keys it may see."""
    batch, heads, queries, _ = query.shape
    group = heads // key.shape[1]
    mixed = torch.zeros(batch, heads, queries, value.shape[3], dtype=torch.float64)
    for b in range(batch):
        for h in range(heads):
            for q in range(queries):
                seen = [k for k in range(key.shape[2]) if may_see(b, h, q, k)]
                if not seen:
                    continue
                pairs = zip(seen, (key[b, h // group, k] for k in seen), strict=True)
                scores = {k: scale * math.fsum((query[b, h, q] * vector).tolist()) for k, vector in pairs}
                largest = max(scores.values())
                shares = {k: math.exp(score - largest) for k, score in scores.items()}
                for k in seen:
                    mixed[b, h, q] += shares[k] / math.fsum(shares.values()) * value[b, h // group, k]
    return mixed


def permission(mask: Mask, queries: int, keys: int) -> Callable[[int, int, int, int], bool]:
    """The mask's meaning, for one pair at a time: the last query stands at the last key."""

    def may_see(b: int, h: int, q: int, k: int) -> bool:
        place = keys - queries + q
        allowed = mask.allowed
        return (
            not (mask.causal and k > place)
            and (mask.window is None or abs(k - place) < mask.window)
            and (mask.padding is None or bool(mask.padding[b, k]))
            and (mask.documents is None or bool(mask.documents[b, k] == mask.documents[b, place]))
            and (allowed is None or bool(allowed[b, h % allowed.shape[1], q, k]))
        )

    return may_see


@st.composite
def masks(draw: st.DrawFn, batch: int, heads: int, queries: int, keys: int) -> Mask:
    """A mask made of any of its parts; rows that see nothing are likely."""
    bits = st.integers(0, 2**31)
    random = torch.Generator().manual_seed(draw(bits))

    def coin(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=random) < 0.6

    padding = coin(batch, keys) if draw(st.booleans()) else None
    with_documents = queries <= keys and draw(st.booleans())
    documents = torch.randint(3, (batch, keys), generator=random).sort(dim=1).values if with_documents else None
    allowed = None
    if draw(st.booleans()):
        allowed = coin(batch, draw(st.sampled_from((1, heads))), queries, keys)
        if queries:
            allowed[:, :, draw(st.integers(0, queries - 1))] = False
    return Mask(
        causal=draw(st.booleans()),
        window=draw(st.none() | st.integers(1, max(keys, 1))),
        padding=padding,
        documents=documents,
        allowed=allowed,
    )


@st.composite
def problems(draw: st.DrawFn, most: int = 9) -> tuple[Tensor, Tensor, Tensor, Mask]:
    """Query, key, value in float64, heads grouped or not, and a mask."""
    batch, shared, group = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    queries, keys = draw(st.integers(1, most)), draw(st.integers(1, most))
    dim, width = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    query, key = normal(batch, shared * group, queries, dim), normal(batch, shared, keys, dim)
    return query, key, normal(batch, shared, keys, width), draw(masks(batch, shared * group, queries, keys))
