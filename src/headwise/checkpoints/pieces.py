"""Readable pieces of a text, where each stands in it, and the words they make up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import cache

Span = tuple[int, int]
_WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]+")


class Pieces(list[str]):
    """Readable pieces; `offsets` are their (start, end) in the text they came from."""

    def __init__(self, pieces: Iterable[str], offsets: Sequence[Span]) -> None:
        super().__init__(pieces)
        self.offsets = list(offsets)


@dataclass(frozen=True)
class Encoded:
    """A text as the model sees it: ids, readable pieces with offsets into the text, and which ids were added."""

    text: str
    ids: list[int]
    pieces: Pieces
    special: list[bool]

    @property
    def offsets(self) -> list[Span]:
        return self.pieces.offsets


@dataclass(frozen=True)
class Word:
    """A word or a run of punctuation, and the tokens (by position) that it was cut into."""

    text: str
    start: int
    end: int
    tokens: tuple[int, ...]


def words(text: str, offsets: Sequence[Span]) -> list[Word]:
    """Words in order; each visible token belongs to exactly one, and words that share a token are one word."""
    spans = [match.span() for match in _WORD.finditer(text)]
    result: list[Word] = []
    current = 0
    for token, (start, end) in enumerate(offsets):
        while current < len(spans) and spans[current][1] <= start:
            current += 1
        if current == len(spans):
            break
        if spans[current][0] >= end:  # empty, or white space
            continue
        if result and result[-1].end > start:
            last = result.pop()
            first, tokens = last.start, (*last.tokens, token)
            stop = last.end
        else:
            (first, stop), tokens = spans[current], (token,)
        reached = current
        while reached + 1 < len(spans) and spans[reached + 1][0] < end:
            reached += 1
        stop = max(stop, spans[reached][1])
        result.append(Word(text[first:stop], first, stop, tokens))
    return result


@cache
def byte_of() -> dict[str, int]:
    """Byte-level alphabets write each byte as one visible character: printable ones as they are, others from 256 on."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + i): byte for i, byte in enumerate(hidden)}


def to_bytes(token: str) -> bytes:
    """The bytes that a byte-level token stands for; a token outside the alphabet stands for its own text."""
    table = byte_of()
    if all(character in table for character in token):
        return bytes(table[character] for character in token)
    return token.encode("utf-8", "replace")


def show_bytes(raw: bytes) -> str:
    """Text, with bytes that are only part of a character written as <0xF0>."""
    text = raw.decode("utf-8", "surrogateescape")
    return re.sub("[\udc80-\udcff]", lambda match: f"<0x{ord(match[0]) - 0xDC00:02X}>", text)


def byte_spans(parts: Sequence[bytes]) -> list[Span]:
    """Where each part stands, in characters, in the text of all parts; a cut character belongs to all its parts."""
    raw = b"".join(parts)
    starts: list[int] = []  # for every byte, the character it belongs to
    character = -1
    for kept in re.split("([\udc80-\udcff]+)", raw.decode("utf-8", "surrogateescape")):
        if kept and "\udc80" <= kept[0] <= "\udcff":
            # Broken bytes: one replacement character for each run that the decoder takes together.
            rest = bytes(ord(sign) - 0xDC00 for sign in kept)
            for length in _broken_runs(rest):
                character += 1
                starts += [character] * length
        else:
            for sign in kept:
                character += 1
                starts += [character] * len(sign.encode())
    spans: list[Span] = []
    at = 0
    for part in parts:
        if part:
            spans.append((starts[at], starts[at + len(part) - 1] + 1))
        else:
            here = starts[at] if at < len(starts) else character + 1
            spans.append((here, here))
        at += len(part)
    return spans


def known_byte_spans(text: str, parts: Sequence[bytes], known: Set[int]) -> list[Span] | None:
    """Where each part stands in a text of which only the known bytes became parts; None when they do not add up."""
    places = [place for place, sign in enumerate(text) for byte in sign.encode() if byte in known]
    if sum(map(len, parts)) != len(places):
        return None
    spans: list[Span] = []
    at = reached = 0
    for part in parts:
        spans.append((places[at], places[at + len(part) - 1] + 1) if part else (reached, reached))
        reached = spans[-1][1]
        at += len(part)
    return spans


def _broken_runs(rest: bytes) -> list[int]:
    """Lengths of the runs of broken bytes that decoding replaces by one character each."""
    runs: list[int] = []
    while rest:
        try:
            rest.decode("utf-8")
        except UnicodeDecodeError as error:
            runs.append(error.end)
            rest = rest[error.end :]
    return runs


def find_spans(text: str, pieces: Sequence[str]) -> list[Span]:
    """Where each piece stands in a decoded text, in order; a piece that decoding dropped has an empty span."""
    spans: list[Span] = []
    at = 0
    for piece in pieces:
        visible = piece.strip()
        found = text.find(visible, at, at + len(visible) + 4) if visible else -1
        if found < 0:
            spans.append((at, at))
        else:
            at = found + len(visible)
            spans.append((found, at))
    return spans


def widen(text: str, span: Span, piece: str, reached: int) -> Span:
    """The span with the white space of its piece: some tokenizers leave it out of their offsets."""
    start, end = span
    before = start - (len(piece) - len(piece.lstrip()))
    if text[start:end] != piece and before >= reached and text.startswith(piece, before):
        return before, before + len(piece)
    return span
