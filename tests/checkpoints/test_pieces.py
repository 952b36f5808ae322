"""Pieces of text: where bytes stand in characters, and which tokens make up a word."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as draw

from headwise.checkpoints.pieces import (
    byte_of,
    byte_spans,
    find_spans,
    known_byte_spans,
    show_bytes,
    to_bytes,
    widen,
    words,
)


@given(parts=draw.lists(draw.binary(max_size=5) | draw.text(max_size=3).map(str.encode), max_size=12))
def test_spans_of_bytes_cover_the_decoded_text(parts: list[bytes]) -> None:
    text = b"".join(parts).decode("utf-8", "replace")
    spans = byte_spans(parts)
    assert len(spans) == len(parts)
    covered: set[int] = set()
    reached = 0
    for part, (start, end) in zip(parts, spans, strict=True):
        assert 0 <= start <= end <= len(text)
        assert (start == end) == (not part)
        assert start >= reached - 1  # a cut character belongs to both of its parts
        reached = max(reached, end)
        covered |= set(range(start, end))
    assert covered == set(range(len(text)))


@given(texts=draw.lists(draw.text(max_size=4), max_size=8))
def test_whole_characters_stand_where_they_are(texts: list[str]) -> None:
    joined = "".join(texts)
    spans = byte_spans([text.encode() for text in texts])
    assert [joined[start:end] for start, end in spans] == texts


def test_a_cut_character_belongs_to_all_its_parts() -> None:
    raw = "aé🛸".encode()
    assert byte_spans([raw[:2], raw[2:3], raw[3:4], raw[4:6], raw[6:]]) == [(0, 2), (1, 2), (2, 3), (2, 3), (2, 3)]


def test_unknown_bytes_are_passed_over() -> None:
    known = set(b"ab c")
    assert known_byte_spans("aéb\x04 c", [b"a", b"b ", b"", b"c"], known) == [(0, 1), (2, 5), (5, 5), (5, 6)]
    assert known_byte_spans("aéb", [b"a"], known) is None


def test_every_byte_has_one_sign() -> None:
    table = byte_of()
    assert sorted(table.values()) == list(range(256))
    assert (table["a"], table["Ġ"], table["Ċ"]) == (97, 32, 10)
    assert to_bytes("Ġé") == b" \xe9"
    assert to_bytes("<|日|>") == "<|日|>".encode()


def test_broken_bytes_are_shown() -> None:
    assert show_bytes("é".encode() + b"\xf0\x9f") == "é<0xF0><0x9F>"


@pytest.mark.parametrize(
    ("text", "offsets", "expected"),
    [
        ("the fox", [(0, 3), (3, 7)], [("the", (0,)), ("fox", (1,))]),
        ("unaffable!", [(0, 2), (2, 6), (6, 9), (9, 10)], [("unaffable", (0, 1, 2)), ("!", (3,))]),
        ("don't", [(0, 3), (3, 5)], [("don't", (0, 1))]),
        ("a b", [(0, 3)], [("a b", (0,))]),
        ("[CLS] x", [(0, 0), (0, 0), (6, 7)], [("x", (2,))]),
        ("a  b", [(0, 1), (1, 2), (2, 4)], [("a", (0,)), ("b", (2,))]),
        ("日本", [(0, 1), (0, 1), (1, 2)], [("日本", (0, 1, 2))]),
        ("x", [], []),
        ("", [(0, 0)], []),
    ],
)  # fmt: skip
def test_words(text: str, offsets: list[tuple[int, int]], expected: list[tuple[str, tuple[int, ...]]]) -> None:
    found = words(text, offsets)
    assert [(word.text, word.tokens) for word in found] == expected
    assert all(text[word.start : word.end] == word.text for word in found)


@given(text=draw.text(alphabet="ab 'c.\n!é", max_size=20), cuts=draw.lists(draw.integers(0, 20), max_size=8))
def test_each_visible_token_is_in_one_word(text: str, cuts: list[int]) -> None:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    offsets = list(pairwise(places))
    found = words(text, offsets)
    belonging = [token for word in found for token in word.tokens]
    assert belonging == sorted(belonging)
    assert len(set(belonging)) == len(belonging)
    assert set(belonging) == {i for i, (start, end) in enumerate(offsets) if text[start:end].strip()}
    for before, after in pairwise(found):
        assert before.end <= after.start


def test_pieces_are_found_in_order() -> None:
    assert find_spans("the dog the", ["the", "dog", "the", "x"]) == [(0, 3), (4, 7), (8, 11), (11, 11)]


@pytest.mark.parametrize(
    ("span", "piece", "reached", "expected"),
    [((4, 7), " fox", 3, (3, 7)), ((4, 7), "fox", 3, (4, 7)), ((4, 7), " fox", 4, (4, 7)), ((8, 8), " ", 7, (7, 8))],
)
def test_spans_are_widened_by_the_space_of_their_piece(
    span: tuple[int, int], piece: str, reached: int, expected: tuple[int, int]
) -> None:
    assert widen("the fox jumps", span, piece, reached) == expected
