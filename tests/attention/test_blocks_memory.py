"""The kernel "blocks" never makes a tensor that grows with the square of the length, forward or backward."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from headwise import Mask, attention
from headwise.attention.positions import ALiBi, RelativeBuckets

LONG = 4096


class Largest(TorchDispatchMode):
    """Remembers how many numbers the largest tensor has that any operation returned."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        result = function(*arguments, **(named or {}))
        sizes = [x.untyped_storage().nbytes() // x.element_size() for x in tree_leaves(result) if torch.is_tensor(x)]
        self.numbers = max([self.numbers, *sizes])
        return result


KEPT = torch.arange(LONG).unsqueeze(0) < LONG - 50
DOCUMENTS = (torch.arange(LONG) // 700).unsqueeze(0)
CASES = {
    "no": (Mask(), None),
    "causal": (Mask(causal=True), None),
    "window": (Mask(window=100), None),
    "padding": (Mask(padding=KEPT), None),
    "documents": (Mask(causal=True, documents=DOCUMENTS), None),
    "all of them": (Mask(causal=True, window=100, padding=KEPT, documents=DOCUMENTS), None),
    "alibi": (Mask(causal=True), ALiBi(1)(LONG, LONG)),
    "buckets": (Mask(), RelativeBuckets(1)(LONG, LONG)),
    "alibi in a window": (Mask(causal=True, window=100), ALiBi(1)(LONG, LONG)),
}


@pytest.mark.parametrize("name", CASES)
def test_no_tensor_is_as_large_as_the_square(name):
    query, key, value = (torch.randn(1, 1, LONG, 4, requires_grad=True) for _ in range(3))
    mask, bias = CASES[name]
    with Largest() as seen:
        mixed = attention(query, key, value, mask, bias, kernel="blocks")
        torch.autograd.grad(mixed.sum(), (query, key, value), retain_graph=True)
    assert 4 * LONG <= seen.numbers <= LONG * LONG // 32


def test_the_square_would_be_noticed():
    query = torch.randn(1, 1, 256, 4)
    with Largest() as seen:
        attention(query, query, query, kernel="equation")
    assert seen.numbers >= 256 * 256
