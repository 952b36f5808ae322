"""How the next token is drawn: pure functions on scores [row, vocabulary]; what is ruled out becomes -inf."""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.generation.settings import Settings


def choose(scores: Tensor, settings: Settings, draws: list[float]) -> Tensor:
    """The next token of each row: the best one, or one drawn with that row's number of `draws`, in [0, 1)."""
    if settings.temperature == 0:
        return best(scores)
    scores = scores.float() / settings.temperature
    if settings.top_k is not None:
        scores = keep_top_k(scores, settings.top_k)
    if settings.top_p is not None:
        scores = keep_top_p(scores, settings.top_p)
    if settings.min_p is not None:
        scores = keep_min_p(scores, settings.min_p)
    return draw(scores, draws)


def best(scores: Tensor) -> Tensor:
    """The number of the best token of each row."""
    if scores.device.type != "cpu" or scores.dtype != torch.float32:
        return scores.argmax(-1)
    # Torch would wake its threads for this, and they would hold the cores while the next step's are at work.
    return torch.from_numpy(scores.numpy().argmax(-1))


def keep_top_k(scores: Tensor, count: int) -> Tensor:
    """The `count` best, and those that tie with the last of them."""
    least = scores.topk(min(count, scores.shape[-1])).values[..., -1:]
    return scores.masked_fill(scores < least, -torch.inf)


def keep_top_p(scores: Tensor, mass: float) -> Tensor:
    """The fewest best tokens that hold so much of the probability together (Holtzman et al. 2020)."""
    ordered, places = scores.softmax(-1).sort(descending=True, stable=True)
    # A token stays while those before it hold too little.
    out = (ordered.cumsum(-1) - ordered) >= mass
    out[..., 0] = False
    return scores.masked_fill(torch.zeros_like(out).scatter(-1, places, out), -torch.inf)


def keep_min_p(scores: Tensor, share: float) -> Tensor:
    """Those with at least this share of the best one's probability (Nguyen et al. 2024)."""
    probabilities = scores.softmax(-1)
    return scores.masked_fill(probabilities < share * probabilities.amax(-1, keepdim=True), -torch.inf)


def draw(scores: Tensor, draws: list[float]) -> Tensor:
    """One token of each row: where the row's number falls when the probabilities are laid end to end."""
    ends = scores.double().softmax(-1).cumsum(-1)
    marks = torch.tensor(draws, dtype=torch.float64, device=scores.device).unsqueeze(-1) * ends[..., -1:]
    return torch.searchsorted(ends, marks, right=True).squeeze(-1).clamp(max=scores.shape[-1] - 1)
