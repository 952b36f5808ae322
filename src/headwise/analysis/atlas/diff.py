"""Two atlases side by side: which relation is read better in which, beyond what their intervals allow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwise.analysis.atlas.protocol import Finding
from headwise.analysis.atlas.results import Atlas


@dataclass(frozen=True)
class Change:
    """One relation in one direction, in both."""

    relation: str
    direction: str
    before: Finding | None
    after: Finding | None

    @property
    def difference(self) -> float | None:
        """By how much the accuracy of the best head grew."""
        if self.before is None or self.after is None:
            return None
        if self.before.held_out is None or self.after.held_out is None:
            return None
        return self.after.held_out.accuracy - self.before.held_out.accuracy

    @property
    def beyond_chance(self) -> bool:
        """Whether the 95 % intervals lie apart."""
        if self.difference is None:
            return False
        one, other = (self.before, self.after) if self.difference > 0 else (self.after, self.before)
        assert one is not None
        assert other is not None
        assert one.held_out is not None
        assert other.held_out is not None
        return one.held_out.high < other.held_out.low


def compare(before: Atlas, after: Atlas) -> list[Change]:
    """Every relation and direction that either has, in the order of the first."""
    sides: list[Mapping[tuple[str, int], Finding]] = [
        {(one.relation, one.way): one for one in side.findings} for side in (before, after)
    ]
    names = dict.fromkeys([*sides[0], *sides[1]])
    changes: list[Change] = []
    for name in names:
        one, other = sides[0].get(name), sides[1].get(name)
        known = one or other
        assert known is not None
        changes.append(Change(known.relation, known.direction, one, other))
    return changes


def differences(before: Atlas, after: Atlas) -> Sequence[str]:
    """What makes them hard to compare: other corpora, other rules, another seed."""
    found: list[str] = []
    for name in ("corpora", "relations"):
        if before.about.get(name) != after.about.get(name):
            found.append(name)
    seeds: list[Any] = [side.about.get("settings", {}).get("seed") for side in (before, after)]
    return [*found, "seed"] if seeds[0] != seeds[1] else found
