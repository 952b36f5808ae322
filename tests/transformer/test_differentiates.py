"""Gradients of whole models: every parameter has one, and it is the one that small steps measure."""

from collections.abc import Callable

import pytest
import torch
from kinds_of_models import STACKS, decoder, encoder, encoder_decoder, ids
from torch import Tensor, nn


def loss_of(logits: Tensor, seed: int = 3) -> Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1), ids(logits.shape[0] * logits.shape[1], seed=seed))


def check(model: nn.Module, loss: Callable[[], Tensor]) -> None:
    """Along a drawn direction the loss changes as the gradient says; no parameter is left out."""
    model.double()
    loss().backward()
    named = dict(model.named_parameters())
    for name, parameter in named.items():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        # A bias of all keys alike moves all scores of a query alike, which softmax does not see.
        assert "key.bias" in name or parameter.grad.abs().max() > 0, name
    generator = torch.Generator().manual_seed(5)
    steps = {name: torch.randn(p.shape, generator=generator, dtype=p.dtype) for name, p in named.items()}
    promised = sum((p.grad * steps[name]).sum() for name, p in named.items())
    values = []
    with torch.no_grad():
        for size in (1e-6, -2e-6):
            for name, parameter in named.items():
                parameter += size * steps[name]
            values.append(loss())
    torch.testing.assert_close((values[0] - values[1]) / 2e-6, promised, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", STACKS)
def test_a_decoder(kind: str) -> None:
    model = decoder(kind)
    padding = torch.ones(2, 9, dtype=torch.bool)
    padding[0, :3] = False
    check(model, lambda: loss_of(model(ids(2, 9), padding)))


def test_a_decoder_of_packed_documents() -> None:
    model = decoder("rotary")
    numbers = torch.tensor([[0] * 4 + [1] * 5, [0] * 7 + [1] * 2])
    check(model, lambda: loss_of(model(ids(2, 9), documents=numbers)))


def test_an_encoder_with_its_head_and_pooler() -> None:
    model = encoder()

    def loss() -> Tensor:
        hidden = model(ids(2, 9), token_types=ids(2, 9, seed=1) % 2)
        assert model.pooler is not None
        return loss_of(model.masked_logits(hidden)) + model.pooler(hidden).sum()

    check(model, loss)


@pytest.mark.parametrize("kind", ["sinusoidal", "buckets", "learned"])
def test_an_encoder_decoder(kind: str) -> None:
    model = encoder_decoder(kind)
    padding = torch.ones(2, 7, dtype=torch.bool)
    padding[1, 4:] = False
    check(model, lambda: loss_of(model(ids(2, 7), ids(2, 9, seed=1), padding)))


def test_through_a_cache() -> None:
    """The keys of earlier pieces keep their gradients."""
    whole, pieces = decoder("rotary"), decoder("rotary")
    loss_of(whole(ids(2, 9))).backward()
    cache = pieces.new_cache()
    loss_of(torch.cat([pieces(part, cache=cache) for part in ids(2, 9).split(4, dim=1)], dim=1)).backward()
    for one, other in zip(whole.parameters(), pieces.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-6)


def test_a_row_of_filling_alone_has_finite_gradients() -> None:
    model = decoder("learned")
    padding = torch.ones(2, 5, dtype=torch.bool)
    padding[0] = False
    logits = model(ids(2, 5), padding)
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
