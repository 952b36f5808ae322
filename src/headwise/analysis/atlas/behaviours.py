"""What each head does without labels: on repeated random tokens, and what the model loses without it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headwise.analysis.atlas.align import opening_id
from headwise.attention.equation import attention_steps
from headwise.tracing.arrays import Array
from headwise.tracing.edit import Knockout, edit
from headwise.tracing.seam import places_of, tapped
from headwise.tracing.tap import Call, Tap
from headwise.transformer.model import pad

REPEATED = 25
"""Random tokens, which come twice; fewer where the model allows no longer text."""
SEQUENCES = 16


class _Repeats(Tap):
    """Sums what the second half gives to the same token, and to the one after it, in the first half."""

    def __init__(self, mode: str, layers: int, heads: int, first: int, count: int) -> None:
        super().__init__()
        self.mode, self.first, self.count = mode, first, count
        self.scores = np.zeros((layers, heads, 2))

    def wants(self, mode: str, layer: int) -> bool:
        """The attention of the stack to itself."""
        return mode == self.mode

    def finish(self, call: Call) -> None:
        """One layer."""
        seen = call.received
        assert seen is not None
        weights = attention_steps(seen.query, seen.key, seen.value, seen.mask, seen.bias, seen.scale).weights
        again = torch.arange(self.first + self.count, self.first + 2 * self.count - 1)
        same = weights[:, :, again, again - self.count]
        after = weights[:, :, again, again - self.count + 1]
        self.scores[call.layer] = torch.stack([same, after], dim=-1).float().mean(dim=(0, 2)).cpu().numpy()


@torch.inference_mode()
def repeated_tokens(model: Any, mode: str, seed: int) -> Array:
    """[layer, head, 2]: weight on the same token (duplicate) and on the one after it (induction), earlier on."""
    random = np.random.default_rng(seed)
    example = model.tokenizer.annotate("a")
    opening = opening_id(model, list(example.special))
    first = next((at for at, special in enumerate(example.special) if not special), 0)
    last = len(example.ids) - next((at for at, special in enumerate(example.special[::-1]) if not special), 0)
    before = [] if opening is None else [opening]
    before += example.ids[:first]
    known = np.setdiff1d(np.arange(model.config.vocabulary), list(model.tokenizer.special_ids))
    room = (model.config.context or 4 * REPEATED) - len(before) - len(example.ids[last:])
    count = max(2, min(REPEATED, room // 2))
    rows: list[list[int]] = []
    for _ in range(SEQUENCES):
        drawn = random.choice(known, count, replace=len(known) < count).tolist()
        rows.append([*before, *drawn, *drawn, *example.ids[last:]])
    stack = model.config.stacks[mode]
    repeats = _Repeats(mode, stack.layers, stack.heads, len(before), count)
    places = [place for place in places_of(model) if place.mode == mode]
    with tapped(places, repeats):
        _run(model, mode, torch.tensor(rows, device=model.device), None)
    return repeats.scores


@torch.inference_mode()
def knock_outs(
    model: Any, mode: str, rows: Sequence[Sequence[int]], seed: int, advance: Callable[[], None]
) -> tuple[str, Array]:
    """What is measured, and [layer, head]: by how much it grows when z of that head is put to zero."""
    ids, padding = pad(rows, model.config.pad_id or 0, model.device)
    name, measure = _measure(model, mode, ids, padding, seed)
    plain = measure()
    stack = model.config.stacks[mode]
    lost = np.zeros((stack.layers, stack.heads))
    for layer in range(stack.layers):
        for head in range(stack.heads):
            with edit(model, Knockout(layer, head, mode=mode)):
                lost[layer, head] = measure() - plain
            advance()
    return name, lost


def _measure(model: Any, mode: str, ids: Tensor, padding: Tensor, seed: int) -> tuple[str, Callable[[], float]]:
    """The loss of what the model was made for; where it was made for vectors, how far they move."""
    masked = getattr(model, "head", None) is not None and mode == "encoder" and model.config.decoder is None
    if mode == "decoder":
        return "next-word loss", lambda: _loss(
            model.head(model.hidden(ids, padding))[:, :-1], ids[:, 1:], padding[:, 1:]
        )
    if masked and model.tokenizer.mask_id is not None:
        random = torch.Generator().manual_seed(seed)
        hidden = (torch.rand(ids.shape, generator=random) < 0.15) & padding.cpu()
        hidden &= ~torch.isin(ids.cpu(), torch.tensor(sorted(model.tokenizer.special_ids)))
        hidden = hidden.to(ids.device)
        shown = torch.where(hidden, model.tokenizer.mask_id, ids)
        return "masked-word loss", lambda: _loss(model.masked_logits(model(shown, padding)), ids, hidden)
    before = _vectors(model, mode, ids, padding)
    return "movement of the sentence vector, 1 - cosine", lambda: float(
        (1 - torch.cosine_similarity(_vectors(model, mode, ids, padding), before, dim=-1)).mean()
    )


def _loss(scores: Tensor, goals: Tensor, counted: Tensor) -> float:
    return float(torch.nn.functional.cross_entropy(scores[counted].float(), goals[counted]))


def _vectors(model: Any, mode: str, ids: Tensor, padding: Tensor) -> Tensor:
    """The mean of the tokens' vectors."""
    kept = padding.unsqueeze(-1)
    return (_run(model, mode, ids, padding).double() * kept).sum(1) / kept.sum(1)


def _run(model: Any, mode: str, ids: Tensor, padding: Tensor | None) -> Tensor:
    """The stack's last vectors."""
    if mode == "decoder":
        return model.hidden(ids, padding)
    return model(ids, padding) if model.config.decoder is None else model.encode(ids, padding)
