"""Where sentences end, also while they are being written, and parts that lose nothing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.generation.sentences import cut, end_of, parts, sentences


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("One. Two! Three? Four…", ["One.", "Two!", "Three?", "Four…"]),
        ("Dr. A. Po et al. found 3.5 % in Fig. 2. It holds.", ["Dr. A. Po et al. found 3.5 % in Fig. 2.", "It holds."]),
        ('He said "Go." Then he went (at last.) Home.', ['He said "Go."', "Then he went (at last.)", "Home."]),
        ("A heading\n\nA line\nbroken here. Next", ["A heading", "A line broken here.", "Next"]),
        ("List:\n- one thing\n- another", ["List:", "- one thing", "- another"]),
        ("It costs e.g. 3 euros, i.e. little.", ["It costs e.g. 3 euros, i.e. little."]),
        ("東京です。 雨です。次", ["東京です。", "雨です。", "次"]),
        ("  \n ", []),
    ],
)  # fmt: skip
def test_sentences(text: str, found: list[str]) -> None:
    assert sentences(text) == found


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_text_in_the_making_ends_with_its_sentences(count: int) -> None:
    text = "The price is 3.50 euros. Dr. Who paid it! Was it much? No. Never"
    whole = "The price is 3.50 euros. Dr. Who paid it! Was it much?"
    wanted = [whole[:24], whole[:41], whole][count - 1]
    ends = [end_of(text[:length], count) for length in range(len(text) + 1)]
    known = [end for end in ends if end is not None]
    assert {text[:end] for end in known} == {wanted}
    # It is known as soon as the full stop is there, and not forgotten.
    first = ends.index(known[0])
    assert first == len(wanted)
    assert None not in ends[first:]


WORDS = st.lists(st.text("abc.!é京", min_size=1, max_size=12), max_size=60).map(" ".join)


@settings(deadline=None, max_examples=150)
@given(WORDS, st.integers(3, 40))
def test_parts_lose_nothing_and_are_never_too_large(text: str, most: int) -> None:
    found = parts(sentences(text), len, most)
    assert "".join("".join(found).split()) == "".join(text.split())
    # White space that joins sentences is what the caller allows for.
    assert all(len(part.replace(" ", "")) <= most for part in found)


@settings(deadline=None, max_examples=100)
@given(WORDS, st.integers(2, 30))
def test_a_cut_sentence_is_whole(text: str, most: int) -> None:
    pieces = cut(text, len, most)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(len(piece) <= most or len(piece) < 2 for piece in pieces)


def test_parts_are_of_like_size() -> None:
    found = parts(["x" * 10] * 9, len, 40)
    assert [len(part.replace(" ", "")) for part in found] == [30, 30, 30]
