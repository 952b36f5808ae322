"""Rules on the next token, from what was written so far: pure functions that change scores [row, vocabulary]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from headwise.generation.settings import Settings


class Written(NamedTuple):
    """One row's tokens so far; the first `given` were not written by the model."""

    ids: list[int]
    given: int
    most: int
    """How many the model may write."""

    @property
    def new(self) -> int:
        """How many the model wrote."""
        return len(self.ids) - self.given


Rule = Callable[[Tensor, Sequence[Written]], None]


def make_rules(settings: Settings) -> list[Rule]:
    """What holds for each step, in the reference library's order."""
    own = settings.own
    rules: list[Rule] = []
    if settings.repetition_penalty != 1:
        rules.append(partial(weaken_repeats, settings.repetition_penalty))
    if settings.no_repeat_ngram:
        rules.append(partial(forbid_repeated_ngrams, settings.no_repeat_ngram))
    if own.bad_words:
        rules.append(partial(forbid_words, own.bad_words))
    if settings.ends and (own.min_length or settings.min_tokens):
        rules.append(partial(forbid_early_ends, sorted(settings.ends), own.min_length, settings.min_tokens))
    if own.forced_begin is not None:
        rules.append(partial(force_first, own.forced_begin))
    if own.forced_ends and not settings.ignore_end:
        rules.append(partial(force_last, list(own.forced_ends)))
    if own.suppressed:
        rules.append(partial(forbid, list(own.suppressed)))
    if own.suppressed_first:
        rules.append(partial(forbid_at_first, list(own.suppressed_first), own.forced_begin is not None))
    return rules


def apply(rules: Sequence[Rule], scores: Tensor, rows: Sequence[Written]) -> Tensor:
    """The scores after all rules, in float32; without rules they come back as they are."""
    if not rules:
        return scores
    scores = scores.to(torch.float32, copy=True)
    for rule in rules:
        rule(scores, rows)
    return scores


def weaken_repeats(penalty: float, scores: Tensor, rows: Sequence[Written]) -> None:
    """Divide the scores of tokens that were there before; negative ones are multiplied (Keskar et al. 2019)."""
    for row, written in zip(scores, rows, strict=True):
        seen = torch.tensor(sorted(set(written.ids)), device=scores.device)
        before = row[seen]
        row[seen] = torch.where(before < 0, before * penalty, before / penalty)


def forbid_repeated_ngrams(length: int, scores: Tensor, rows: Sequence[Written]) -> None:
    """No run of `length` tokens comes twice (Paulus et al. 2018)."""
    for row, (ids, *_) in zip(scores, rows, strict=True):
        last = ids[len(ids) - length + 1 :]
        if len(ids) < length:
            continue
        row[
            [ids[at + length - 1] for at in range(len(ids) - length + 1) if ids[at : at + length - 1] == last]
        ] = -torch.inf


def forbid_words(words: Sequence[tuple[int, ...]], scores: Tensor, rows: Sequence[Written]) -> None:
    """A word of several tokens is ruled out when its last one comes."""
    for row, (ids, *_) in zip(scores, rows, strict=True):
        for *before, last in words:
            if not before or ids[-len(before) :] == before:
                row[last] = -torch.inf


def forbid_early_ends(
    ends: list[int], least_in_all: int, least_new: int, scores: Tensor, rows: Sequence[Written]
) -> None:
    """No end before so many tokens, in all or new."""
    for row, written in zip(scores, rows, strict=True):
        if len(written.ids) < least_in_all or written.new < least_new:
            row[ends] = -torch.inf


def force_first(id: int, scores: Tensor, rows: Sequence[Written]) -> None:
    """The first token written, where the text begins with one that was given."""
    for row, written in zip(scores, rows, strict=True):
        if len(written.ids) == 1:
            _only(row, [id])


def force_last(ids: list[int], scores: Tensor, rows: Sequence[Written]) -> None:
    """The last token that there is room for."""
    for row, written in zip(scores, rows, strict=True):
        if written.new == written.most - 1:
            _only(row, ids)


def forbid(ids: list[int], scores: Tensor, rows: Sequence[Written]) -> None:
    """Tokens that never come."""
    scores[:, ids] = -torch.inf


def forbid_at_first(ids: list[int], after_forced: bool, scores: Tensor, rows: Sequence[Written]) -> None:
    """Tokens that the model's own text does not begin with; a forced first token is not its own."""
    for row, written in zip(scores, rows, strict=True):
        forced = after_forced and written.given == 1
        if written.new == int(forced):
            row[ids] = -torch.inf


def _only(row: Tensor, ids: list[int]) -> None:
    row.fill_(-torch.inf)
    row[ids] = 0
