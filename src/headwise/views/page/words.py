"""Which tokens make one word, told from the text and from where each token stands in it."""

import re
from collections.abc import Sequence

_WORD = re.compile(r"\w+(?:['’]\w+)*")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
"""Scripts that write no space between words: there each token stands for itself."""


def words_of(
    text: str | None, tokens: Sequence[str], offsets: Sequence[tuple[int, int]] | None, special: Sequence[bool]
) -> list[list[int]]:
    """The positions of the tokens of each word, in order; every token belongs to exactly one."""
    marks = _marks_of_pieces(tokens) if text is None or offsets is None else _marks_of_spans(text, offsets)
    groups: list[list[int]] = []
    for token, mark in enumerate(marks):
        joined = token > 0 and mark is not None and mark == marks[token - 1] and not special[token]
        if joined and not special[token - 1]:
            groups[-1].append(token)
        else:
            groups.append([token])
    return groups


def _marks_of_spans(text: str, offsets: Sequence[tuple[int, int]]) -> list[int | None]:
    """For each token the start of the word that it is a part of."""
    word_at: dict[int, int] = {}
    for word in _WORD.finditer(text):
        word_at.update(dict.fromkeys(range(*word.span()), word.start()))
    marks: list[int | None] = []
    for start, end in offsets:
        piece = text[start:end]
        first = start + len(piece) - len(piece.lstrip())
        marks.append(None if _UNSPACED.search(piece) else word_at.get(first))
    for at in range(1, len(marks)):
        # Tokens that are bytes of one and the same sign, such as an emoji, make one word.
        if offsets[at][0] < offsets[at - 1][1]:
            marks[at - 1] = marks[at] = marks[at - 1] if marks[at - 1] is not None else -1 - at
    return marks


def _marks_of_pieces(tokens: Sequence[str]) -> list[int | None]:
    """The same where only the pieces are known: ## marks a part of a word, or a space marks its beginning."""
    marks: list[int | None] = []
    spaced = any(token.startswith(" ") for token in tokens)
    for at, token in enumerate(tokens):
        goes_on = token.startswith("##") or (spaced and token[:1].isalnum())
        follows = at > 0 and tokens[at - 1][-1:].isalnum() and not _UNSPACED.search(token)
        marks.append(marks[at - 1] if goes_on and follows else at)
    return marks
