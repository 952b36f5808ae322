"""Beam search: of all continuations of the best few beginnings, the best few are kept; the reference's conventions.

A hypothesis ends at an end token, a stop string or the last allowed token. Its score is the sum of its tokens' log
probabilities, divided by length ** length_penalty. At each step twice as many continuations as beams are looked at
(more where there are several end tokens), so that enough of them go on; only the first `beams` of them may end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from headwise.generation.engine import Engine
from headwise.generation.rules import Rule, Written, apply, make_rules
from headwise.generation.settings import Settings

HOPELESS = -1e9
"""The score of a beam that is not there."""


@dataclass(frozen=True)
class Hypothesis:
    """A text that ended: its new tokens and its score."""

    ids: list[int]
    score: float


@dataclass
class Search:
    """The beams of one source: those that go on, best first, and the best that ended."""

    settings: Settings
    given: list[int]
    most: int
    running: list[list[int]] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    finished: list[Hypothesis] = field(default_factory=list)
    """Best first."""
    done: bool = False

    def __post_init__(self) -> None:
        beams = self.settings.beams
        self.running = [[] for _ in range(beams)]
        # At first all beams are equal: only one of them counts.
        self.scores = [0.0] + [HOPELESS] * (beams - 1)

    def written(self) -> list[Written]:
        """What each beam has so far."""
        return [Written([*self.given, *ids], len(self.given), self.most) for ids in self.running]

    def advance(
        self, scores: list[float], places: list[int], vocabulary: int, over: Callable[[list[int]], bool]
    ) -> list[int]:
        """Take the best continuations, best first; returns which beam each new beam goes on from."""
        going: list[tuple[float, int, list[int]]] = []
        ended: list[Hypothesis] = []
        beams = self.settings.beams
        for rank, (score, place) in enumerate(zip(scores, places, strict=True)):
            parent, id = divmod(place, vocabulary)
            ids = [*self.running[parent], id]
            if not over(ids):
                going.append((score, parent, ids))
            elif rank < beams:
                ended.append(Hypothesis(ids, score / len(ids) ** self.settings.length_penalty))
        self._collect(ended)
        self.done = not going
        # Where too few go on, dead beams fill the rows.
        going += [(2 * HOPELESS, 0, [*self.running[0], 0])] * (beams - len(going))
        self.scores, parents, self.running = (list(part) for part in zip(*going[:beams], strict=True))
        self.done = self.done or not self._may_improve()
        return parents

    def _collect(self, ended: list[Hypothesis]) -> None:
        """Keep the best that ended; with early stopping a full list is closed."""
        if self.settings.early_stopping is True and len(self.finished) == self.settings.beams:
            return
        # Sorting is stable: an earlier one wins a tie.
        ranked = sorted([*self.finished, *ended], key=lambda hypothesis: -hypothesis.score)
        self.finished = ranked[: self.settings.beams]

    def _may_improve(self) -> bool:
        """Whether the best beam that goes on could still beat the worst that ended."""
        if len(self.finished) < self.settings.beams:
            return True
        if self.settings.early_stopping is True:
            return False
        penalty, length = self.settings.length_penalty, len(self.running[0])
        if self.settings.early_stopping == "never" and penalty > 0:
            length = self.most
        return self.scores[0] / length**penalty > self.finished[-1].score


def search(
    engine: Engine,
    given: Sequence[list[int]],
    most: Sequence[int],
    settings: Settings,
    stopped: Callable[[list[int]], bool] | None = None,
) -> list[list[Hypothesis]]:
    """The best hypotheses of each row of the engine, best first; `stopped` looks for stop strings in new tokens."""
    searches = [Search(settings, list(row), count) for row, count in zip(given, most, strict=True)]
    rules = make_rules(settings)
    beams = settings.beams
    scores = engine.start()
    engine.keep(torch.arange(len(searches), device=scores.device).repeat_interleave(beams))
    scores = scores.repeat_interleave(beams, 0)
    going = list(searches)
    while going:
        best, places, vocabulary = _continuations(scores, going, rules, settings)
        rows: list[int] = []
        for number, (one, row_best, row_places) in enumerate(zip(going, best.tolist(), places.tolist(), strict=True)):
            over = _over(one, settings, stopped)
            parents = one.advance(row_best, row_places, vocabulary, over)
            rows += [] if one.done else [number * beams + parent for parent in parents]
        going = [one for one in going if not one.done]
        if going:
            engine.keep(torch.tensor(rows, device=scores.device))
            ids = [running[-1] for one in going for running in one.running]
            scores = engine.step(torch.tensor(ids, device=scores.device))
    return [one.finished for one in searches]


@torch.inference_mode()
def _continuations(
    scores: Tensor, going: list[Search], rules: Sequence[Rule], settings: Settings
) -> tuple[Tensor, Tensor, int]:
    """Of each search the best continuations of all its beams: scores, places (beam · vocabulary + id), vocabulary."""
    logs = apply(rules, scores.float().log_softmax(-1), [written for one in going for written in one.written()])
    logs = logs.log_softmax(-1) if settings.own.renormalize else logs
    before = torch.tensor([one.scores for one in going], dtype=torch.float32, device=logs.device)
    vocabulary = logs.shape[-1]
    joined = (logs.unflatten(0, before.shape) + before.unsqueeze(-1)).flatten(1)
    looked_at = max(2, 1 + len(settings.ends)) * settings.beams
    best = joined.topk(min(looked_at, joined.shape[-1]))
    return best.values, best.indices, vocabulary


def _over(one: Search, settings: Settings, stopped: Callable[[list[int]], bool] | None) -> Callable[[list[int]], bool]:
    """Whether a text with these new tokens ends here."""

    def over(ids: list[int]) -> bool:
        return ids[-1] in settings.ends or len(ids) >= one.most or (stopped is not None and stopped(ids))

    return over
