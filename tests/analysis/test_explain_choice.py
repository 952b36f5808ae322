"""Which word and head an explanation chooses, and what it says where no head goes beyond its habit."""

from dataclasses import replace

import numpy as np
from plain_traces import looking, stream_of

from headwise.analysis.explain import Wanted, explain_trace

TEXT = "kids saw big lions and they ran home quickly because lions roared"
COUNT = len(TEXT.split())
EVEN = np.full((COUNT, COUNT), 1 / COUNT)
THEY, LIONS = 5, 3


def to_lions() -> np.ndarray:
    """From they at the lions, from everywhere else at itself."""
    weights = np.eye(COUNT)
    weights[THEY] = np.eye(COUNT)[LIONS]
    return weights


def test_the_pronoun_and_the_head_that_tells_what_it_means() -> None:
    found = explain_trace(looking([EVEN, to_lions(), EVEN], stream_of(TEXT)), Wanted())
    assert (found.word, found.why_word) == (THEY, "a pronoun: which word does it stand for?")
    assert (found.table.layer, found.table.head, found.table.query) == (0, 1, THEY)
    assert [(look.head, look.word) for look in found.looks] == [(1, LIONS)]
    assert found.why_head.startswith("of all heads it goes furthest beyond its habit: weight 1.00 on “lions”")
    assert found.table.weights.round(6).tolist() == np.eye(COUNT)[LIONS].tolist()
    assert found.no_heads == "W_O was not found in this model's structure"


def test_where_no_head_goes_beyond_its_habit_it_says_so() -> None:
    found = explain_trace(looking([EVEN, EVEN], stream_of(TEXT)), Wanted(word="they"))
    assert found.looks == ()
    assert "none goes beyond its habit" in found.why_head


def test_what_is_asked_for_is_taken() -> None:
    trace = looking([EVEN, to_lions()], stream_of(TEXT))
    found = explain_trace(trace, Wanted(word="home", layer=0, head=0))
    assert (found.queries[found.word].text, found.why_word) == ("home", "you chose it")
    assert (found.table.head, found.why_head) == (0, "you chose it")
    assert explain_trace(trace, Wanted(head=0)).table.head == 0
    assert explain_trace(replace(trace, about={}), Wanted(layer=0)).why_head.startswith("of the heads of layer 0 ")
