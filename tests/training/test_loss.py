"""The blocked loss is torch's cross-entropy, forward and backward."""

import pytest
import torch

from headwise.training import loss as module
from headwise.training.loss import cross_entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [True, False])
def test_blocks_give_the_loss_and_gradients_of_the_whole(
    monkeypatch: pytest.MonkeyPatch, smoothing: float, bias: bool
) -> None:
    monkeypatch.setattr(module, "BLOCK", 100)  # three positions of a vocabulary of 29
    torch.manual_seed(0)
    given = [torch.randn(11, 7), torch.randn(29, 7), torch.randn(29) if bias else None]
    labels = torch.randint(0, 29, (11,))

    def gradients(blocked: bool) -> list[torch.Tensor]:
        kind = torch.float32 if blocked else torch.float64
        parts = [None if one is None else one.detach().to(kind).requires_grad_() for one in given]
        hidden, weight, shift = parts
        if blocked:
            total = cross_entropy(hidden, weight, shift, labels, smoothing)
        else:
            logits = torch.nn.functional.linear(hidden, weight, shift)
            total = torch.nn.functional.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
        (total * 0.25).backward()
        return [total.detach().double(), *(one.grad.double() for one in parts if one is not None)]

    for ours, theirs in zip(gradients(True), gradients(False), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_huge_scores_stay_finite() -> None:
    hidden = torch.tensor([[1e4, -1e4]], requires_grad=True)
    weight = torch.eye(2).requires_grad_()
    total = cross_entropy(hidden, weight, None, torch.tensor([1]))
    total.backward()
    assert total.item() == pytest.approx(2e4)
    assert hidden.grad is not None
    torch.testing.assert_close(hidden.grad, torch.tensor([[1.0, -1.0]]))


def test_what_does_not_learn_gets_no_gradient() -> None:
    weight = torch.randn(5, 3)
    hidden = torch.randn(4, 3, requires_grad=True)
    cross_entropy(hidden, weight, None, torch.tensor([0, 1, 2, 3])).backward()
    assert hidden.grad is not None
    assert weight.grad is None
