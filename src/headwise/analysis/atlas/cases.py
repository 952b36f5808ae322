"""What one sentence asks of a model: its questions over units, and how each control answers them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headwise.analysis.atlas.align import Aligned
from headwise.analysis.atlas.match import Question
from headwise.analysis.atlas.relations import Relation
from headwise.analysis.atlas.sentence import Sentence
from headwise.tracing.arrays import Truth

OFFSETS = tuple(offset for offset in range(-10, 11) if offset)
NEAREST = ("left", "right", "either")
CONTROLS = (*(f"offset {offset:+d}" for offset in OFFSETS), *(f"nearest, {side}" for side in NEAREST))
"""Rules that look at no weights: the word that stands so far away, and the nearest one of the right part of speech."""


@dataclass(frozen=True)
class Case:
    """One question over the units of a sentence."""

    relation: str
    way: int
    source: int
    right: frozenset[int]
    candidates: frozenset[int]
    """Units that may be the answer; empty for all but the source."""
    looked_at: bool
    """Whether candidates are asked which of them looks most at the source."""
    controls: tuple[int, ...]
    """The numbers of the controls that answer rightly."""
    shuffled: int
    """A unit drawn from those that may be the answer."""


def cases_of(
    sentence: Sentence,
    aligned: Aligned,
    asked: Sequence[Question],
    relations: Mapping[str, Relation],
    causal: bool,
    random: np.random.Generator,
) -> list[Case]:
    """The questions that this model could answer: where a word sees no later one, some it cannot."""
    found: list[Case] = []
    tags = _tags(sentence, aligned)
    for question in asked:
        source = aligned.unit_of[question.source]
        looked_at = bool(question.candidates) and question.way == 1
        seen = _seen(source, len(aligned.units), causal, looked_at)
        right = frozenset(aligned.unit_of[word] for word in question.right) & seen
        among = frozenset(aligned.unit_of[word] for word in question.candidates) & seen
        if not right or (question.candidates and len(among) < 2):
            continue
        allowed = among or seen
        drawn = sorted(allowed)[int(random.integers(len(allowed)))]
        wanted = relations[question.relation].nearest[1 - question.way]
        near = among or (seen if not wanted else frozenset(at for at in seen if tags[at] & wanted))
        answers = _controls(source, right, among, near)
        found.append(Case(question.relation, question.way, source, right, among, looked_at, answers, drawn))
    return found


def _tags(sentence: Sentence, aligned: Aligned) -> list[set[str]]:
    """The parts of speech in each unit."""
    tags: list[set[str]] = [set() for _ in aligned.units]
    for word, unit in zip(sentence.words, aligned.unit_of, strict=True):
        tags[unit].add(word.columns.get("upos", ""))
    return tags


def _seen(source: int, units: int, causal: bool, looked_at: bool) -> frozenset[int]:
    """The units that may be the answer."""
    if not causal:
        return frozenset(range(units)) - {source}
    return frozenset(range(source + 1, units) if looked_at else range(source))


def _controls(source: int, right: frozenset[int], candidates: frozenset[int], near: frozenset[int]) -> tuple[int, ...]:
    """Which controls are right; among candidates an offset means the one that stands closest to it."""
    if candidates:
        ordered = sorted(candidates)
        answers = [min(ordered, key=lambda at, goal=source + offset: abs(at - goal)) for offset in OFFSETS]
    else:
        answers = [source + offset for offset in OFFSETS]
    left = max((at for at in near if at < source), default=-1)
    after = min((at for at in near if at > source), default=-1)
    either = after if left < 0 or (after >= 0 and after - source < source - left) else left
    answers += [left, after, either]
    return tuple(number for number, answer in enumerate(answers) if answer in right)


def masks_of(cases: Sequence[Case], widest: int, units: Sequence[int], causal: bool) -> tuple[Truth, Truth]:
    """[case, unit] as bool: which units may be the answer, and which are right."""
    allowed = np.zeros((len(cases), widest), dtype=np.bool_)
    right = np.zeros_like(allowed)
    for at, (case, count) in enumerate(zip(cases, units, strict=True)):
        if case.candidates:
            allowed[at, list(case.candidates)] = True
        elif causal:
            allowed[at, : case.source] = True
        else:
            allowed[at, :count] = True
            allowed[at, case.source] = False
        right[at, list(case.right)] = True
    return allowed, right
