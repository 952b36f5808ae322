"""Tokens merged to words, words found by text or number."""

import numpy as np
import pytest
from plain_traces import stream_of

from headwise.analysis.words import find_word, merge, vectors_of, words_of
from headwise.errors import HeadwiseError
from headwise.tracing.arrays import Stream

TEXT = "The un+believ+able kids left , they+'re scared ."


def test_the_tokens_of_a_word_are_one_word_and_special_tokens_are_their_own() -> None:
    words = words_of(stream_of(TEXT, special=True))
    assert [(word.text, word.tokens) for word in words] == [
        ("[CLS]", (0,)),
        ("The", (1,)),
        ("unbelievable", (2, 3, 4)),
        ("kids", (5,)),
        ("left", (6,)),
        (",", (7,)),
        ("they're", (8, 9)),
        ("scared", (10,)),
        (".", (11,)),
        ("[SEP]", (12,)),
    ]
    assert [word.special for word in words] == [True, *[False] * 8, True]
    assert [word.text for word in words if word.content] == ["unbelievable", "kids", "left", "they're", "scared"]


def test_a_special_token_written_in_the_text_is_one_word() -> None:
    stream = Stream(
        ("[CLS]", "hi"), text="[CLS] hi", offsets=np.array([[0, 5], [6, 8]]), special=np.array([True, False])
    )
    assert [word.text for word in words_of(stream)] == ["[CLS]", "hi"]


def test_tokens_without_a_text_are_words_by_themselves() -> None:
    assert [word.text for word in words_of(Stream((" a", "b", "\n", " ")))] == ["a", "b", "↵", "␣"]


def test_every_token_belongs_to_one_word_in_order() -> None:
    for text in (TEXT, "a+b+c", "日本 語 です", "e+e e e+e", "1 + 2"):
        stream = stream_of(text)
        tokens = [token for word in words_of(stream) for token in word.tokens]
        assert tokens == list(range(len(stream.tokens)))


def test_merged_weights_are_the_mean_of_queries_and_the_sum_of_keys() -> None:
    words = words_of(stream_of(TEXT))
    weights = np.random.default_rng(0).dirichlet(np.ones(11), 11)
    merged = merge(weights, words, words)
    for at, query in enumerate(words):
        for to, key in enumerate(words):
            expected = np.mean([sum(weights[q, k] for k in key.tokens) for q in query.tokens])
            assert merged[at, to] == pytest.approx(expected, abs=1e-15)
    np.testing.assert_allclose(merged.sum(1), 1)


def test_the_vector_of_a_word_is_the_mean_of_its_tokens() -> None:
    vectors = np.arange(22.0).reshape(11, 2)
    np.testing.assert_array_equal(vectors_of(words_of(stream_of(TEXT)), vectors)[1], vectors[1:4].mean(0))


@pytest.mark.parametrize(
    ("wanted", "found"), [("kids", 3), ("KIDS", 3), ("3", 3), (3, 3), (" left ", 4), ("they're", 6), ("the", 1)]
)
def test_a_word_is_found_by_text_or_number(wanted: str | int, found: int) -> None:
    assert find_word(words_of(stream_of(TEXT, special=True)), wanted) == found


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("kid", "word: 'kid' is not in the text; the nearest is 'kids'"),
        ("unbeleivable", "the nearest is 'unbelievable'"),
        ("10", "word: got number 10, the text has the words 0 to 9"),
        ("-1", "word: got number -1"),
    ],
)
def test_a_word_that_is_not_there_is_said(wanted: str, message: str) -> None:
    with pytest.raises(HeadwiseError, match=message):
        find_word(words_of(stream_of(TEXT, special=True)), wanted)
