"""The protocol: for each relation and direction the best head, its controls, their intervals and a verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from headwise.analysis.atlas.cases import CONTROLS, OFFSETS
from headwise.analysis.atlas.counts import Row, RowCounts, Total
from headwise.analysis.atlas.halves import Halves, correct, interval, luck, resample
from headwise.analysis.atlas.reader import LENSES
from headwise.analysis.atlas.relations import Relation
from headwise.tracing.arrays import Array, Whole

ALPHA = 0.05
"""The rate of false discoveries: in so many atlases of models that read nothing, some relation is said to be read."""


@dataclass(frozen=True)
class Settings:
    """How sure is sure."""

    seed: int = 0
    repeats: int = 20
    """How often the documents are cut in two."""
    draws: int = 1000
    """Of documents, for the intervals."""
    permutations: int = 4000
    fewest_pairs: int = 30
    fewest_documents: int = 10


@dataclass(frozen=True)
class Scored:
    """A share of right answers with its 95 % interval."""

    accuracy: float
    low: float
    high: float


@dataclass(frozen=True)
class Finding:
    """What the atlas says of one relation in one direction."""

    relation: str
    way: int
    direction: str
    pairs: int
    documents: int
    verdict: str
    """reads, position, no, or few."""
    layer: int | None = None
    head: int | None = None
    lens: str | None = None
    stability: float | None = None
    """How often the halves chose this head."""
    held_out: Scored | None = None
    """Of the heads chosen on the other half."""
    controls: Mapping[str, Scored] | None = None
    """offset, nearest, random, shuffled: each chosen on the same half."""
    rules: Mapping[str, str] | None = None
    """Which offset and which nearest word were chosen most often."""
    best_control: str | None = None
    gain: Scored | None = None
    """Over the best control of the same half."""
    chance: float | None = None
    """That the best of so many heads wins by luck, corrected for the rows tried."""
    gain_over_position: Scored | None = None
    """Over the best of the controls that know nothing of parts of speech."""
    chance_over_position: float | None = None


VERDICTS = {
    "reads": "reads it: better than every control",
    "position": "more than position; not better than the nearest word of the right kind",
    "no": "not better than the controls",
    "few": "too few pairs",
}


def find(total: Total, relations: Mapping[str, Relation], heads: int, settings: Settings) -> list[Finding]:
    """All rows of the table, with chances corrected for how many were tried."""
    found: list[Finding] = []
    for name, relation in relations.items():
        for way in (0, 1):
            counts = total.rows.get((name, way))
            found.append(_row((name, way), relation, counts, heads, settings))
    chances = {f"{one.relation} {one.way}": one.chance for one in found if one.chance is not None}
    beyond = {
        f"{one.relation} {one.way}": one.chance_over_position for one in found if one.chance_over_position is not None
    }
    chances, beyond = correct(chances), correct(beyond)
    return [_judged(one, chances, beyond) for one in found]


def _judged(one: Finding, chances: Mapping[str, float], beyond: Mapping[str, float]) -> Finding:
    """With corrected chances, and the verdict that follows from them."""
    name = f"{one.relation} {one.way}"
    if name not in chances or one.gain is None or one.gain_over_position is None:
        return one
    verdict = "no"
    if beyond[name] < ALPHA and one.gain_over_position.low > 0:
        verdict = "position"
    if chances[name] < ALPHA and one.gain.low > 0:
        verdict = "reads"
    return replace(one, verdict=verdict, chance=chances[name], chance_over_position=beyond[name])


def _row(row: Row, relation: Relation, counts: RowCounts | None, heads: int, settings: Settings) -> Finding:
    """One relation in one direction, its chances not yet corrected."""
    direction = relation.direction(row[1])
    if counts is None:
        return Finding(*row, direction, 0, 0, "few")
    used = np.flatnonzero(counts.pairs)
    pairs = counts.pairs[used].astype(np.float64)
    few = pairs.sum() < settings.fewest_pairs or len(used) < settings.fewest_documents
    if few:
        return Finding(*row, direction, int(pairs.sum()), len(used), "few")
    random = np.random.default_rng([settings.seed, row[1], *row[0].encode()])
    scorer = _Scorer(
        pairs, Halves.draw(len(used), settings.repeats, random), resample(len(used), settings.draws, random)
    )
    flat = {kind: numbers[used].reshape(len(used), -1).astype(np.float64) for kind, numbers in counts.heads.items()}
    rules = counts.controls[used].astype(np.float64)
    parts = {"offset": rules[:, : len(OFFSETS)], "nearest": rules[:, len(OFFSETS) :]}
    parts |= {kind: flat[kind] for kind in ("random", "shuffled") if kind in flat}
    chosen = {kind: scorer.contest(part) for kind, part in parts.items()}
    best = scorer.contest(flat["right"])
    control, kind = scorer.best_of({name: chosen[name] for name in chosen if name != "shuffled"})
    position, _ = scorer.best_of({name: chosen[name] for name in chosen if name not in ("shuffled", "nearest")})
    head = int(np.bincount(best.choice).argmax())
    place, lens = divmod(head, len(LENSES))
    names = {"offset": CONTROLS[: len(OFFSETS)], "nearest": CONTROLS[len(OFFSETS) :]}
    return Finding(
        *row,
        direction,
        int(pairs.sum()),
        len(used),
        "no",
        layer=place // heads,
        head=place % heads,
        lens=LENSES[lens],
        stability=float((best.choice // len(LENSES) == place).mean()),
        held_out=scorer.scored(best.series),
        controls={name: scorer.scored(own.series) for name, own in chosen.items()},
        rules={name: names[name][int(np.bincount(chosen[name].choice).argmax())] for name in names},
        best_control=kind,
        gain=scorer.scored(best.series - control),
        chance=luck(flat["right"], control, settings.permutations, random),
        gain_over_position=scorer.scored(best.series - position),
        chance_over_position=luck(flat["right"], position, settings.permutations, random),
    )


@dataclass(frozen=True, eq=False)
class _Contest:
    """Contenders of one kind: who was chosen by each fold, with what success there, and the score elsewhere."""

    choice: Whole
    won: Array
    right: Array
    series: Array


@dataclass(frozen=True, eq=False)
class _Scorer:
    pairs: Array
    halves: Halves
    draws: Whole

    def contest(self, right: Array) -> _Contest:
        choice = self.halves.choose(right)
        return _Contest(choice, self.halves.chosen(right, choice), right, self.halves.score(right, choice))

    def scored(self, series: Array) -> Scored:
        """The accuracy, or a difference of two."""
        return Scored(float(series.sum() / self.pairs.sum()), *interval(series, self.pairs, self.draws))

    def best_of(self, kinds: Mapping[str, _Contest]) -> tuple[Array, str]:
        """[block] the score of whichever control was best on the half that chose, and which it was most often."""
        names = list(kinds)
        best = np.stack([kinds[name].won for name in names]).argmax(axis=0)
        right = np.concatenate([kinds[name].right for name in names], axis=1)
        starts = np.cumsum([0, *(kinds[name].right.shape[1] for name in names)])[:-1]
        choices = np.stack([start + kinds[name].choice for start, name in zip(starts, names, strict=True)])
        choice = choices[best, np.arange(len(best))]
        return self.halves.score(right, choice), names[int(np.bincount(best).argmax())]


def each_head(counts: RowCounts, settings: Settings) -> tuple[Array, Array, Array]:
    """[head, lens]: the accuracy over all documents, and its 95 % interval."""
    used = np.flatnonzero(counts.pairs)
    pairs = counts.pairs[used].astype(np.float64)
    right = counts.heads["right"][used].astype(np.float64)
    draws = resample(len(used), settings.draws, np.random.default_rng(settings.seed)).astype(np.float32)
    flat = right.reshape(len(used), -1)
    ratios = (draws @ flat.astype(np.float32)) / np.maximum(draws @ pairs.astype(np.float32), 1)[:, None]
    low, high = np.quantile(ratios, [0.025, 0.975], axis=0)
    shape = right.shape[1:]
    return right.sum(axis=0) / pairs.sum(), low.reshape(shape), high.reshape(shape)
