"""Tokens on disk: rows of ids, one after another in a file that is mapped and never read whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from headwise.errors import DataError

Ids = np.ndarray


class Tokens:
    """Ragged rows of ids: `tokens[i]` is row i, `tokens.lengths[i]` its number of ids."""

    def __init__(self, directory: Path, name: str) -> None:
        self.path = directory / f"{name}.ids"
        starts = directory / f"{name}.starts"
        try:
            self._starts = np.fromfile(starts, dtype="<i8")
            self._ids = _mapped(self.path)
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read: {error.strerror}") from error
        if not len(self._starts) or self._starts[0] != 0 or self._starts[-1] != len(self._ids):
            raise DataError(f"{starts}: does not fit {self.path.name}; remove the directory to tokenise again")

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, row: int) -> Ids:
        return self._ids[self._starts[row] : self._starts[row + 1]].astype(np.int64)

    @property
    def lengths(self) -> Ids:
        """How many ids each row has."""
        return np.diff(self._starts)


class TokenWriter:
    """Adds rows to the files of one column."""

    def __init__(self, directory: Path, name: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._ids = (directory / f"{name}.ids").open("wb")
        self._starts = (directory / f"{name}.starts").open("wb")
        self._starts.write(np.zeros(1, dtype="<i8").tobytes())
        self._count = 0

    def add(self, rows: Iterable[Sequence[int]]) -> None:
        """Several rows of ids."""
        for ids in rows:
            self._ids.write(np.asarray(ids, dtype="<i4").tobytes())
            self._count += len(ids)
            self._starts.write(np.asarray([self._count], dtype="<i8").tobytes())

    def close(self) -> None:
        """All rows are written."""
        self._ids.close()
        self._starts.close()


def _mapped(path: Path) -> Ids:
    if not path.stat().st_size:
        return np.empty(0, dtype="<i4")
    return np.memmap(path, dtype="<i4", mode="r")


def read_about(directory: Path) -> dict[str, object] | None:
    """What was tokenised into this directory; None where it is not whole."""
    try:
        about = json.loads((directory / "about.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return about if isinstance(about, dict) else None
