"""An annotated sentence as every reader of corpora gives it: its text, its words with their columns, labelled pairs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headwise.errors import HeadwiseError


class CorpusError(HeadwiseError):
    """A corpus that cannot be believed: names the file and the line."""

    def __init__(self, file: object, line: int, problem: str) -> None:
        super().__init__(f"{file}:{line}: {problem}")
        self.file, self.line, self.problem = str(file), line, problem

    def __reduce__(self) -> tuple[type["CorpusError"], tuple[str, int, str]]:
        """Whole again on the other side, where another process raised it."""
        return CorpusError, (self.file, self.line, self.problem)


@dataclass(frozen=True)
class Word:
    """One word: where it stands in the text, and what its columns say."""

    form: str
    start: int
    end: int
    head: int = -1
    """The number of the word that it hangs on; -1 for none."""
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    """lemma, upos, xpos, deprel, supersense, role, function, lexcat: those that the corpus has."""
    features: Mapping[str, str] = field(default_factory=dict[str, str])
    """Morphology, such as Number=Sing."""


class Labelled(NamedTuple):
    """A pair that the corpus itself names."""

    relation: str
    source: int
    targets: tuple[int, ...]
    candidates: tuple[int, ...] = ()
    """The words among which the answer must be; empty for all."""


@dataclass(frozen=True)
class Sentence:
    """A text, its words in order, and where it came from."""

    file: str
    line: int
    name: str
    text: str
    words: tuple[Word, ...]
    labelled: tuple[Labelled, ...] = ()
    problem: str | None = None
    """Why its words could not be found in its text, where that is so."""
