"""How a word's vector moved: its similarity to the other words before the first layer and after the last."""

import numpy as np

from headwise.analysis.words import Word, find_word, vectors_of, words_of
from headwise.errors import HeadwiseError
from headwise.tracing.arrays import Array
from headwise.tracing.trace import Trace
from headwise.views.explanation import Moved, MovedText


def how_it_moved(first: Trace, second: Trace, mode: str, wanted: str | None) -> Moved:
    """The same word in two texts."""
    texts = [words_of(trace.query_stream(mode)) for trace in (first, second)]
    word = _shared_word(texts[0], texts[1]) if wanted is None else texts[0][find_word(texts[0], wanted)].text
    places = [find_word(words, word) for words in texts]
    traces = (first, second)
    sides = tuple(_side(trace, mode, words, place) for trace, words, place in zip(traces, texts, places, strict=True))
    vectors = [_vectors(trace, mode, words) for trace, words in zip(traces, texts, strict=True)]
    between = [float(_cosine(vectors[0][step][places[0]], vectors[1][step][places[1]])) for step in (0, 1)]
    return Moved(word, sides, between[0], between[1])


def _side(trace: Trace, mode: str, words: list[Word], place: int) -> MovedText:
    before, after = _vectors(trace, mode, words)
    others = [number for number, word in enumerate(words) if number != place and not word.special]
    return MovedText(
        text=trace.query_stream(mode).text or "",
        words=tuple(words[number].text for number in others),
        before=np.array([_cosine(before[place], before[other]) for other in others]),
        after=np.array([_cosine(after[place], after[other]) for other in others]),
    )


def _vectors(trace: Trace, mode: str, words: list[Word]) -> tuple[Array, Array]:
    stream = trace.query_stream(mode)
    if stream.before is None or stream.after is None:
        raise HeadwiseError("moved: this trace does not hold the vectors before the first and after the last layer")
    return vectors_of(words, stream.before.astype(np.float64)), vectors_of(words, stream.after.astype(np.float64))


def _shared_word(first: list[Word], second: list[Word]) -> str:
    """The first content word that stands in both texts."""
    known = {word.text.lower() for word in second if not word.special}
    for word in first:
        if word.content and word.text.lower() in known:
            return word.text
    raise HeadwiseError("moved: the two texts have no content word in common; choose one that both have with --word")


def _cosine(a: Array, b: Array) -> float:
    return float(a @ b / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-30))
