"""Tokens merged to words: which tokens make one, its weights (mean over queries, sum over keys), how to find one."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headwise.checkpoints.pieces import words as find_words
from headwise.errors import HeadwiseError
from headwise.tracing.arrays import Array, Stream

MERGED = "a word of several tokens: the mean over its tokens where it looks, the sum over them where it is looked at"

_PRONOUNS = """
i me my mine we us our ours you your yours he him his she her hers it its they them their theirs
himself herself itself themselves this that these those who whom whose which
"""
_OTHERS = """
a an the and or but nor so yet if then than as because while although though until unless since
of in on at by for with about against between into through during before after above below to from up down
out off over under again am is are was were be been being have has had having do does did doing done will would
shall should can could may might must not no only own same too very just also there here when where why how what
all any both each few more most other some such every either neither s t d ll m re ve
"""
PRONOUNS = frozenset(_PRONOUNS.split())
FUNCTION_WORDS = PRONOUNS | frozenset(_OTHERS.split())


@dataclass(frozen=True)
class Word:
    """A word, or a token that is none, and the positions of its tokens."""

    text: str
    tokens: tuple[int, ...]
    special: bool = False

    @property
    def content(self) -> bool:
        """Whether it says something by itself: letters or digits, and no function word of English."""
        return not self.special and any(map(str.isalnum, self.text)) and self.text.lower() not in FUNCTION_WORDS

    @property
    def pronoun(self) -> bool:
        """Whether it stands for another word."""
        return self.text.lower() in PRONOUNS


def words_of(stream: Stream) -> list[Word]:
    """The words of a stream in order; every token belongs to exactly one, and each word's tokens stand together."""
    special = [False] * len(stream.tokens) if stream.special is None else stream.special.tolist()
    names: dict[int, tuple[int, str]] = {}
    if stream.text is not None and stream.offsets is not None:
        offsets = zip(stream.offsets.tolist(), special, strict=True)
        spans = [(start, start) if added else (start, end) for (start, end), added in offsets]
        for number, word in enumerate(find_words(stream.text, spans)):
            names |= dict.fromkeys(word.tokens, (number, word.text))
    result: list[Word] = []
    last: tuple[int, str] | None = None
    for token, (piece, added) in enumerate(zip(stream.tokens, special, strict=True)):
        name = None if added else names.get(token)
        if name is not None and name == last:
            result[-1] = Word(name[1], (*result[-1].tokens, token))
        else:
            result.append(Word(name[1] if name else _visible(piece), (token,), added))
        last = name
    return result


def _visible(piece: str) -> str:
    """A token that is no word, so that it can be seen."""
    return piece.strip() or {"\n": "↵", "\t": "⇥"}.get(piece[:1], "␣")


def find_word(words: Sequence[Word], wanted: str | int) -> int:
    """The place of a word, named by its text or its number; an error suggests the nearest."""
    text = str(wanted).strip()
    for same in (str.__eq__, lambda a, b: a.lower() == b.lower()):
        for number, word in enumerate(words):
            if same(word.text, text):
                return number
    if text.removeprefix("-").isdecimal():
        number = int(text)
        if not 0 <= number < len(words):
            raise HeadwiseError(f"word: got number {number}, the text has the words 0 to {len(words) - 1}")
        return number
    folded = {word.text.lower(): word.text for word in words}
    near = difflib.get_close_matches(text.lower(), list(folded), 1, 0)
    hint = f"; the nearest is {folded[near[0]]!r}" if near else ""
    raise HeadwiseError(f"word: {text[:40]!r} is not in the text{hint}")


def merge(weights: Array, queries: Sequence[Word], keys: Sequence[Word]) -> Array:
    """[query word, key word] of token weights [query, key] whose rows are the tokens of `queries` in order."""
    by_key = np.add.reduceat(weights, [word.tokens[0] for word in keys], axis=-1)
    counts = np.array([len(word.tokens) for word in queries])
    starts = np.concatenate([[0], counts.cumsum()[:-1]])
    return np.add.reduceat(by_key, starts, axis=-2) / counts[:, None].astype(weights.dtype)


def vectors_of(words: Sequence[Word], vectors: Array) -> Array:
    """[word, dim]: the mean of each word's token vectors."""
    return np.stack([vectors[list(word.tokens)].mean(axis=0) for word in words])
