"""What an atlas says, as plain values: the findings, every cell, every head's profile, and how to make it again."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headwise.analysis.atlas.counts import Row
from headwise.analysis.atlas.protocol import Finding, Scored
from headwise.analysis.atlas.reader import LENSES
from headwise.errors import HeadwiseError
from headwise.tracing.arrays import Array
from headwise.written import write_text

SCHEMA = "headwise-atlas/1"
_COLUMNS = ("relation", "direction", "way", "layer", "head", "lens", "pairs", "accuracy", "low", "high")


@dataclass(frozen=True, eq=False)
class Cells:
    """Every head in one relation and direction, over all documents."""

    pairs: int
    accuracy: Array
    """[layer · head, lens]."""
    low: Array
    high: Array


@dataclass(frozen=True, eq=False)
class Atlas:
    """Which relation each head of a model reads."""

    about: Mapping[str, Any]
    """The model, the corpora, the settings, what was counted, and the command."""
    relations: Mapping[str, Mapping[str, Any]]
    """Each with `about` and the names of its two words."""
    findings: Sequence[Finding]
    profiles: Sequence[Mapping[str, Any]]
    """By head: layer, head, and what it does without labels."""
    cells: Mapping[Row, Cells] = field(default_factory=dict[Row, Cells])
    unaligned: Sequence[str] = ()

    @property
    def heads(self) -> int:
        """Heads in a layer."""
        return int(self.about["heads"])

    def __str__(self) -> str:
        lines = [f"{one.relation} {one.direction}: {summary(one)}" for one in self.findings]
        return "\n".join(lines)

    def to_json(self) -> str:
        """Everything but the cells."""
        value = {
            "schema": SCHEMA,
            "about": self.about,
            "relations": self.relations,
            "findings": [asdict(one) for one in self.findings],
            "profiles": self.profiles,
            "unaligned": list(self.unaligned),
        }
        return json.dumps(value, ensure_ascii=False, indent=1) + "\n"

    def save(self, out: Path) -> None:
        """Write atlas.json and atlas.parquet, each under a temporary name until it is whole."""
        out.mkdir(parents=True, exist_ok=True)
        write_text(out / "atlas.json", self.to_json())
        part = out / ".atlas.parquet.part"
        try:
            self._write_parquet(part)
            part.replace(out / "atlas.parquet")
        finally:
            part.unlink(missing_ok=True)

    def _write_parquet(self, path: Path) -> None:
        pyarrow, parquet = need_parquet()
        columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
        directions = {(one.relation, one.way): one.direction for one in self.findings}
        for row, cells in self.cells.items():
            for place in range(len(cells.accuracy)):
                for lens, name in enumerate(LENSES):
                    at = place, lens
                    scores = (float(cells.accuracy[at]), float(cells.low[at]), float(cells.high[at]))
                    head = (*divmod(place, self.heads), name, cells.pairs)
                    values = (row[0], directions[row], row[1], *head, *scores)
                    for column, value in zip(_COLUMNS, values, strict=True):
                        columns[column].append(value)
        parquet.write_table(pyarrow.table(columns), path)

    @staticmethod
    def load(out: Path) -> "Atlas":
        """Read what `save` wrote; the cells stay in atlas.parquet."""
        path = out / "atlas.json" if out.is_dir() else out
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
            if value["schema"] != SCHEMA:
                raise HeadwiseError(f"{path}: schema: got {value['schema']!r}, wanted {SCHEMA}")
            findings = [_finding(one) for one in value["findings"]]
            return Atlas(value["about"], value["relations"], findings, value["profiles"], unaligned=value["unaligned"])
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise HeadwiseError(f"{path}: is no atlas.json of headwise ({type(error).__name__}: {error})") from None


def summary(one: Finding) -> str:
    """The finding in a line."""
    if one.held_out is None or one.gain is None:
        return f"{one.pairs} pairs in {one.documents} documents are too few"
    head = f"layer {one.layer}, head {one.head}, by {one.lens}"
    return f"{head}: {one.held_out.accuracy:.1%}, {one.gain.accuracy:+.1%} over {one.best_control}; {one.verdict}"


def need_parquet() -> tuple[Any, Any]:
    """pyarrow, or an error that says where it comes from."""
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise HeadwiseError("atlas.parquet is written with pyarrow: pip install 'headwise[parquet]'") from None
    return pyarrow, parquet


def _finding(value: dict[str, Any]) -> Finding:
    for name in ("held_out", "gain", "gain_over_position"):
        value[name] = None if value[name] is None else Scored(**value[name])
    if value["controls"] is not None:
        value["controls"] = {name: Scored(**one) for name, one in value["controls"].items()}
    return Finding(**value)
