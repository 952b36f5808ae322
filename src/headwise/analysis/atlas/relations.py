"""Relations are data: rules over the columns of a corpus, read from TOML; an unknown field is refused with its line."""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from headwise.analysis.atlas.sentence import CorpusError
from headwise.errors import HeadwiseError

COLUMNS = ("form", "lemma", "upos", "xpos", "deprel", "supersense", "function", "lexcat")
"""What a condition may speak of; any of them with not_ before it is the opposite."""
LINKS = ("to hangs on from", "from hangs on to")
_OF_RELATION = {"about", "names", "labelled", "rules"}
_OF_RULE = {"link", "from", "to", "needs", "lacks", "nearest"}
_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")


@dataclass(frozen=True)
class Condition:
    """What a word must be; everything that is given must hold."""

    wanted: Mapping[str, frozenset[str]]
    """By column, what it may say."""
    unwanted: Mapping[str, frozenset[str]]
    features: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    child: "Condition | None" = None
    """What some word that hangs on it must be."""


@dataclass(frozen=True)
class Rule:
    """Pairs of words of which one hangs on the other."""

    source: Condition
    target: Condition
    to_hangs: bool
    """Whether `to` hangs on `from`, and not the other way round."""
    needs: str | None = None
    lacks: str | None = None


@dataclass(frozen=True)
class Relation:
    """A name, its rules, and the parts of speech that the control "nearest" looks for."""

    name: str
    about: str
    names: tuple[str, str]
    """What its two words are called."""
    rules: tuple[Rule, ...]
    labelled: bool
    nearest: tuple[frozenset[str], frozenset[str]]
    """Of from and of to; empty: any word."""

    def direction(self, way: int) -> str:
        """From which word to which: 0 looks from `from` at `to`, 1 the other way."""
        first, second = self.names if way == 0 else self.names[::-1]
        return f"{first}→{second}"


@cache
def shipped() -> dict[str, Relation]:
    """The relations that come with headwise."""
    path = files("headwise.analysis.atlas") / "relations.toml"
    return parse_relations(path.read_text(encoding="utf-8"), "relations.toml")


def choose_relations(wanted: str | Path | Iterable[str | Path] | None) -> dict[str, Relation]:
    """All that are shipped, or those named, or those of TOML files, in the order given."""
    known = dict(shipped())
    if wanted is None:
        return known
    chosen: dict[str, Relation] = {}
    for one in [wanted] if isinstance(wanted, str | Path) else wanted:
        if isinstance(one, Path) or str(one).endswith(".toml"):
            chosen |= read_relations(Path(one))
        elif str(one) in known:
            chosen[str(one)] = known[str(one)]
        else:
            raise HeadwiseError(f"relations: got {str(one)[:40]!r}, wanted a .toml file or one of {', '.join(known)}")
    if not chosen:
        raise HeadwiseError("relations: got none, wanted at least one")
    return chosen


def read_relations(path: Path) -> dict[str, Relation]:
    """The relations of a file."""
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise CorpusError(path, line, "is not UTF-8") from None
    return parse_relations(text, str(path))


def parse_relations(text: str, file: str) -> dict[str, Relation]:
    """The relations of a TOML text."""
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        raise CorpusError(file, int(found[1]) if found else text.count("\n") + 1, f"is not TOML: {error}") from None
    if not value:
        raise CorpusError(file, 1, "holds no relation")
    reader = _Reader(text, file)
    return {name: reader.relation(name, table) for name, table in value.items()}


class _Reader:
    """Reads the tables; errors name the line that the word stands on."""

    def __init__(self, text: str, file: str) -> None:
        self.lines, self.file = text.split("\n"), file

    def relation(self, name: str, table: Any) -> Relation:
        self._table(name, table, name, _OF_RELATION)
        if not _NAME.fullmatch(name):
            self.fail(name, name, "wanted a name of letters, digits, - and _")
        about = table.get("about", name)
        names = table.get("names", ["from", "to"])
        if not isinstance(about, str):
            self.fail(name, "about", "wanted a text")
        if not (isinstance(names, list) and len(names) == 2 and all(isinstance(one, str) and one for one in names)):
            self.fail(name, "names", "wanted two texts")
        labelled = table.get("labelled", False)
        if not isinstance(labelled, bool):
            self.fail(name, "labelled", "wanted true or false")
        given = table.get("rules", [])
        if not isinstance(given, list) or bool(given) == labelled:
            self.fail(name, "rules", "wanted [[" + name + ".rules]], or labelled = true and no rules")
        rules = tuple(self._rule(name, rule) for rule in given)
        nearest = self._nearest(name, given, rules)
        return Relation(name, about, (names[0], names[1]), rules, labelled, nearest)

    def _rule(self, name: str, rule: Any) -> Rule:
        self._table(name, rule, "rules", _OF_RULE)
        for needed in ("from", "to", "link"):
            if needed not in rule:
                self.fail(name, "rules", f"a rule lacks {needed!r}")
        if rule["link"] not in LINKS:
            self.fail(name, "link", f"got {rule['link']!r}, wanted {LINKS[0]!r} or {LINKS[1]!r}")
        for when in ("needs", "lacks"):
            if when in rule and rule[when] not in COLUMNS:
                self.fail(name, when, f"unknown field {rule[when]!r}, wanted one of {', '.join(COLUMNS)}")
        source, target = self._condition(name, "from", rule["from"]), self._condition(name, "to", rule["to"])
        return Rule(source, target, rule["link"] == LINKS[0], rule.get("needs"), rule.get("lacks"))

    def _condition(self, name: str, where: str, table: Any) -> Condition:
        opposite = {f"not_{column}" for column in COLUMNS}
        self._table(name, table, where, {*COLUMNS, *opposite, "features", "child"})
        columns = {
            key: self._texts(name, key, value) for key, value in table.items() if key not in ("features", "child")
        }
        features = table.get("features", {})
        self._table(name, features, "features", None)
        return Condition(
            {key: value for key, value in columns.items() if not key.startswith("not_")},
            {key.removeprefix("not_"): value for key, value in columns.items() if key.startswith("not_")},
            {key: self._texts(name, key, value) for key, value in features.items()},
            self._condition(name, "child", table["child"]) if "child" in table else None,
        )

    def _nearest(
        self, name: str, given: Sequence[Mapping[str, Any]], rules: Sequence[Rule]
    ) -> tuple[frozenset[str], frozenset[str]]:
        """The parts of speech as given, otherwise those that the conditions name."""
        both: list[frozenset[str]] = []
        for side in ("from", "to"):
            tags: set[str] = set()
            free = not rules
            for raw, rule in zip(given, rules, strict=True):
                chosen = raw.get("nearest", {})
                self._table(name, chosen, "nearest", {"from", "to"})
                condition = rule.source if side == "from" else rule.target
                own = self._texts(name, side, chosen[side]) if side in chosen else condition.wanted.get("upos")
                free = free or not own
                tags |= own or set()
            both.append(frozenset() if free else frozenset(tags))
        return both[0], both[1]

    def _texts(self, name: str, key: str, value: Any) -> frozenset[str]:
        if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
            self.fail(name, key, "wanted a list of texts")
        folded = key.removeprefix("not_") in ("form", "lemma")
        return frozenset(one.lower() if folded else one for one in value)

    def _table(self, name: str, value: Any, where: str, known: set[str] | None) -> None:
        if not isinstance(value, dict):
            self.fail(name, where, "wanted a table")
        for key in () if known is None else value:
            if known is not None and key not in known:
                self.fail(name, key, f"unknown field {key!r}, wanted one of {', '.join(sorted(known))}")

    def fail(self, name: str, word: str, problem: str) -> Any:
        """Raise an error at the first line after the relation's own that has this word."""
        own = re.compile(r"^\s*\[+\s*[\"']?" + re.escape(name) + r"\b")
        begun = next((at for at, line in enumerate(self.lines) if own.match(line)), 0)
        told = re.compile(r"(?<![\w-])" + re.escape(word) + r"(?![\w-])")
        at = next((at for at in range(begun, len(self.lines)) if told.search(self.lines[at])), begun)
        raise CorpusError(self.file, at + 1, f"{name}: {word}: {problem}" if word != name else f"{name}: {problem}")
