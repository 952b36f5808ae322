"""Damage for fuzzing: bytes flipped, cut, repeated and overwritten, and fields of JSON replaced by other things."""

import copy
import json
import struct
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as draw

NUMBERS = [0, 1, 2, 7, 8, 9, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 3, 10**6, 2**31, 2**63, 10**30, 0.5, -0.0, 1e308, float("inf"), float("nan"),
    "", "a", "x" * 1000, "../..", "\0", "🛸", [], [[]], [0], ["a", None], {}, {"a": {}}, {"type": "BPE"},
]  # fmt: skip

_Change = Callable[[bytearray], None]


def _flip(at: int, bit: int) -> _Change:
    def change(data: bytearray) -> None:
        data[at % len(data)] ^= 1 << bit

    return change


def _cut(at: int, length: int) -> _Change:
    def change(data: bytearray) -> None:
        start = at % len(data)
        del data[start : start + length]

    return change


def _repeat(at: int, length: int, to: int) -> _Change:
    def change(data: bytearray) -> None:
        start, place = at % len(data), to % len(data)
        data[place:place] = data[start : start + length]

    return change


def _overwrite(at: int, value: int, form: str) -> _Change:
    def change(data: bytearray) -> None:
        size = struct.calcsize(form)
        start = at % max(1, len(data) - size)
        data[start : start + size] = struct.pack(form, value % 2 ** (8 * size))

    return change


def _end(at: int) -> _Change:
    def change(data: bytearray) -> None:
        del data[at % len(data) :]

    return change


def damaged(whole: bytes, busy: int | None = None) -> draw.SearchStrategy[bytes]:
    """The bytes with one to six damages, all in the first `busy` bytes when it is given."""
    place = draw.integers(0, (busy or len(whole)) - 1)
    length = draw.integers(1, 64)
    change = draw.one_of(
        draw.builds(_flip, place, draw.integers(0, 7)),
        draw.builds(_cut, place, length),
        draw.builds(_repeat, place, length, place),
        draw.builds(_overwrite, place, draw.sampled_from(NUMBERS), draw.sampled_from(["<B", "<I", "<Q"])),
        draw.builds(_end, draw.integers(0, len(whole) - 1)),
    )

    def apply(changes: list[_Change]) -> bytes:
        data = bytearray(whole)
        for one in changes:
            if data:
                one(data)
        return bytes(data)

    return draw.lists(change, min_size=1, max_size=6).map(apply)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where every value stands; of long lists and tables only the first few."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())[:40]
    elif isinstance(value, list):
        inner = list(enumerate(value))[:5]
    return [path, *(found for key, item in inner for found in _paths(item, (*path, key)))]


def damaged_json(whole: dict[str, Any]) -> draw.SearchStrategy[bytes]:
    """The object with one to three of its values replaced, removed or put elsewhere."""
    paths = [path for path in _paths(whole) if path]
    edit = draw.tuples(draw.sampled_from(paths), draw.sampled_from(["set", "drop", "add"]), draw.sampled_from(ODD))

    def apply(edits: list[tuple[tuple[Any, ...], str, Any]]) -> bytes:
        value = copy.deepcopy(whole)
        for path, how, odd in edits:
            _edit(value, path, how, copy.deepcopy(odd))
        return json.dumps(value).encode()

    return draw.lists(edit, min_size=1, max_size=3).map(apply)


def _edit(value: Any, path: tuple[Any, ...], how: str, odd: Any) -> None:
    try:
        for key in path[:-1]:
            value = value[key]
        if how == "set":
            value[path[-1]] = odd
        elif how == "drop":
            del value[path[-1]]
        elif isinstance(value, dict):
            value[str(odd)] = value[path[-1]]
        else:
            value.append(odd)
    except (KeyError, IndexError, TypeError, AttributeError):  # an earlier edit took it away
        return
