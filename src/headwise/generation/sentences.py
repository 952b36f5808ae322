"""Sentences: where a text may be cut without losing anything."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_END = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？]+[”’」』）]*|\n\s*\n|\n(?=\s*(?:[-*•#]|\d+[.)])\s)")
_SHORT = re.compile(
    r"(?:^|[\s(\[\"'“‘])(?:[A-Z]|[A-Za-z](?:\.[A-Za-z])+|e\.g|i\.e|cf|vs|al|etc|approx|ca|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|Gen|Col|"
    r"Sen|Rep|Gov|Lt|Capt|Rev|Inc|Ltd|Co|Corp|No|Nos|Fig|Figs|Eq|Eqs|Sec|Ch|Vol|Ed|eds|pp|p|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|"
    r"Sept|Oct|Nov|Dec)\.$"
)


def sentences(text: str) -> list[str]:
    """The sentences in order, without the white space around them; a blank line and a new list item end one too."""
    found: list[str] = []
    start = 0
    for match in _END.finditer(text):
        end = match.end()
        if match[0].isspace() or not _goes_on(text, start, end):
            found.append(text[start:end])
            start = end
    found.append(text[start:])
    return [" ".join(sentence.split()) for sentence in found if sentence.strip()]


def end_of(text: str, count: int) -> int | None:
    """Where the first `count` sentences of a text in the making end; None while the last may go on."""
    found = 0
    for match in _END.finditer(text):
        begun = text[match.end() :].strip()
        if not text[: match.end()].strip() or (not begun and not _closed(text[: match.end()])):
            continue
        if match[0].isspace() or not _goes_on(text, 0, match.end()):
            found += 1
            if found == count:
                return len(text[: match.end()].rstrip())
    # The last one may end without white space behind it, where the pattern does not see it.
    return len(text) if found == count - 1 and not text[-1:].isspace() and _closed(text) else None


def _closed(text: str) -> bool:
    """Whether the text ends with a full stop that is surely none of an abbreviation, a number or a list."""
    return re.search(r"[^\W\d]{2}[.!?][\"'”’)]*\s*$", text) is not None and _SHORT.search(text.rstrip()) is None


def _goes_on(text: str, start: int, end: int) -> bool:
    """Whether the full stop belongs to an abbreviation, or a small letter follows."""
    following = text[end:].lstrip()[:1]
    if following.islower():
        return True
    # "et al." and "etc." may well end a sentence; before a capital letter they are taken to.
    last = _SHORT.search(text, start, end)
    return last is not None and not (following.isupper() and last[0].strip(" (").rstrip(".") in ("al", "etc"))


def parts(pieces: Sequence[str], size: Callable[[str], int], most: int) -> list[str]:
    """Sentences joined to parts of like size, of at most `most` each; a longer sentence is cut between words."""
    short = [piece for sentence in pieces for piece in cut(sentence, size, most)]
    sizes = [size(piece) for piece in short]
    count = max(1, -(-sum(sizes) // most))
    while True:
        joined = _join(short, sizes, most, -(-sum(sizes) // count))
        if joined is not None:
            return joined
        count += 1


def _join(pieces: list[str], sizes: list[int], most: int, wanted: int) -> list[str] | None:
    """Parts that are full once they have the size wanted; None where one would have to be larger than allowed."""
    made: list[list[str]] = [[]]
    filled = 0
    for piece, cost in zip(pieces, sizes, strict=True):
        # The piece goes where its middle lies.
        if made[-1] and filled + cost / 2 > wanted:
            made.append([])
            filled = 0
        made[-1].append(piece)
        filled += cost
        if filled > most:
            return None
    return [" ".join(part) for part in made]


def cut(sentence: str, size: Callable[[str], int], most: int) -> list[str]:
    """The sentence, or halves of halves of it that are short enough."""
    if size(sentence) <= most or len(sentence) < 2:
        return [sentence]
    middle = len(sentence) // 2
    space = max(sentence.rfind(" ", 1, middle + 1), 0) or sentence.find(" ", middle, -1)
    at = space if space > 0 else middle
    return [*cut(sentence[:at].strip(), size, most), *cut(sentence[at:].strip(), size, most)]
