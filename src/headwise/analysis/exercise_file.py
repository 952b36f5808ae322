"""The teacher's own numbers for a worksheet, from a TOML file that is checked field by field."""

import difflib
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from headwise.analysis.exercise import MOST_DIM, MOST_WORDS, Exercise, Numbers, draw, printable
from headwise.errors import HeadwiseError

_MATRICES = ("query", "key", "value", "output")
_FIELDS = ("words", "heads", "causal", "embeddings", *_MATRICES)
_MOST_BYTES = 1 << 20
_LARGEST = 1000.0


def read_exercise(path: Path, seed: int) -> Exercise:
    """The exercise of this file; matrices that it leaves out are drawn."""
    fields = _parse(path)
    for name in fields:
        if name not in _FIELDS:
            near = difflib.get_close_matches(name, _FIELDS, 1)
            raise _refused(path, name, f"unknown field, {f'did you mean {near[0]}?' if near else _known()}")
    words = _words(path, fields.get("words"))
    if "embeddings" not in fields:
        raise _refused(path, "embeddings", "missing, wanted one list of numbers per word")
    embeddings = _matrix(path, "embeddings", fields["embeddings"], len(words), None)
    dim = embeddings.shape[1]
    given = {name: _matrix(path, name, fields[name], dim, dim) for name in _MATRICES if name in fields}
    heads = fields.get("heads", 1)
    if type(heads) is not int or heads < 1 or dim % heads:
        raise _refused(path, "heads", f"got {_short(heads)}, wanted a whole number that divides the dimension {dim}")
    causal = fields.get("causal", False)
    if not isinstance(causal, bool):
        raise _refused(path, "causal", f"got {_short(causal)}, wanted true or false")
    return draw(words, dim, heads, causal, seed, embeddings=embeddings, **given)


def _parse(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise HeadwiseError(f"{path}: cannot be read: {error.strerror}") from None
    if len(content) > _MOST_BYTES:
        raise HeadwiseError(f"{path}: more than {_MOST_BYTES} bytes, wanted a small TOML file")
    try:
        return tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise HeadwiseError(f"{path}: not a TOML file: {error}") from None


def _words(path: Path, words: object) -> tuple[str, ...]:
    if not isinstance(words, list) or not 1 <= len(words) <= MOST_WORDS:
        raise _refused(path, "words", f"got {_short(words)}, wanted a list of 1 to {MOST_WORDS} words")
    for word in words:
        if not isinstance(word, str) or not printable(word):
            raise _refused(path, "words", f"got {_short(word)}, wanted a printable word")
    return tuple(words)


def _matrix(path: Path, name: str, rows: object, height: int, width: int | None) -> Numbers:
    """The rows as numbers; `width` None takes that of the first row."""
    if not isinstance(rows, list) or len(rows) != height:
        got = f"{len(rows)} rows" if isinstance(rows, list) else _short(rows)
        raise _refused(path, name, f"got {got}, wanted {height} rows of numbers")
    for index, row in enumerate(rows, start=1):
        if not isinstance(row, list) or not 1 <= len(row) <= MOST_DIM:
            raise _refused(path, f"{name}, row {index}", f"got {_short(row)}, wanted 1 to {MOST_DIM} numbers")
        width = len(row) if width is None else width
        if len(row) != width:
            raise _refused(path, f"{name}, row {index}", f"got {len(row)} numbers, wanted {width}")
        for number in row:
            if type(number) not in (int, float) or not abs(number) <= _LARGEST:  # nan compares false
                raise _refused(path, f"{name}, row {index}", f"got {_short(number)}, wanted numbers up to {_LARGEST:g}")
    return np.array(rows, dtype=np.float64)


def _refused(path: Path, field: str, problem: str) -> HeadwiseError:
    return HeadwiseError(f"{path}: {field}: {problem}")


def _known() -> str:
    return f"known are {', '.join(_FIELDS)}"


def _short(value: object) -> str:
    """A value as TOML's reader saw it, cut so that the error stays one line."""
    if value is None:
        return "nothing"
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write out integers of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= 60 else text[:57] + "..."
