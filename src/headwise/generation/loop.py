"""The loop: scores, rules, a choice for each row, and the rows that are done leave the batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from headwise.generation.draft import Draft
from headwise.generation.engine import Engine
from headwise.generation.rules import Rule, apply, make_rules
from headwise.generation.sampling import choose
from headwise.generation.settings import Settings


def write(engine: Engine, drafts: Sequence[Draft], settings: Settings) -> Iterator[tuple[Draft, str]]:
    """Each draft and the piece that its next token made readable, until all are done; one row of the engine each."""
    going = list(range(len(drafts)))
    rules = make_rules(settings)
    scores = engine.start()
    while True:
        ids = _choose(scores, [drafts[row] for row in going], rules, settings)
        for row, id in zip(going, ids.tolist(), strict=True):
            yield drafts[row], drafts[row].push(id)
        left = [place for place, row in enumerate(going) if not drafts[row].done]
        if not left:
            return
        if len(left) < len(going):
            kept = torch.tensor(left, device=ids.device)
            engine.keep(kept)
            ids, going = ids[kept], [going[place] for place in left]
        scores = engine.step(ids)


@torch.inference_mode()
def _choose(scores: Tensor, drafts: list[Draft], rules: Sequence[Rule], settings: Settings) -> Tensor:
    scores = apply(rules, scores, [draft.written for draft in drafts])
    draws = [draft.draw() for draft in drafts] if settings.temperature else []
    return choose(scores, settings, draws)
