"""Where heads look, told of heads that look exactly there."""

import numpy as np
import pytest
from plain_traces import looking, stream_of

from headwise.analysis import survey as module
from headwise.analysis.survey import KINDS, survey

TEXT = "kids saw big lions and kids ran from them quickly home"
COUNT = len(TEXT.split()) + 2


def eye(shift: int) -> list[list[float]]:
    """A head that looks so many tokens ahead, and stays in the text."""
    return [[float(k == min(max(q + shift, 0), COUNT - 1)) for k in range(COUNT)] for q in range(COUNT)]


def only(key: int) -> list[list[float]]:
    return [[float(k == key) for k in range(COUNT)] for _ in range(COUNT)]


def test_each_kind_is_counted_under_its_name() -> None:
    same = np.eye(COUNT)
    same[6], same[1] = same[1].copy(), same[6].copy()  # kids and kids
    heads = [only(0), eye(0), eye(-1), eye(1), same.tolist(), eye(6), eye(2)]
    found = survey(looking(heads, stream_of(TEXT, special=True)), "encoder")
    shares = {kind: found.shares[0, :, number].round(3).tolist() for number, kind in enumerate(KINDS)}
    rows = COUNT - 2
    assert len(found.rows) == rows
    assert shares["first or special"][0] == 1
    assert shares["itself"][1] == 1
    assert shares["previous"][2] == pytest.approx(1 - 1 / rows, abs=1e-3)  # the first word's previous is [CLS]
    assert shares["next"][3] == pytest.approx(1 - 1 / rows, abs=1e-3)
    assert shares["same word"][4] == pytest.approx(2 / rows, abs=1e-3)
    assert shares["far"][5] == pytest.approx((rows - 6) / rows, abs=1e-3)
    assert shares["near"][6] == pytest.approx((rows - 2) / rows, abs=1e-3)
    np.testing.assert_allclose(found.shares.sum(-1), 1)


def test_the_telling_look_goes_beyond_habit() -> None:
    """Both heads look from them (9) at lions (4); one from everywhere, the other from there and from lions itself."""
    everywhere, there = only(4), eye(0)
    there[9] = only(4)[9]
    found = survey(looking([everywhere, there], stream_of(TEXT, special=True)), "encoder")
    row = int(np.flatnonzero(found.rows == 9)[0])
    assert found.key[0, :, row].tolist() == [4, 4]
    assert found.weight[0, :, row].round(6).tolist() == [1, 1]
    assert found.habit[0, :, row].round(6).tolist() == [1, 0.1]  # lions is one of the ten other words
    assert found.telling[0, :, row].round(6).tolist() == [0, 0.9]


def test_function_words_and_the_word_itself_are_no_candidates() -> None:
    found = survey(looking([only(5), eye(0)], stream_of(TEXT, special=True)), "encoder")
    assert (found.key[0, 0] != 5).all()  # and
    assert (found.key[0, 1] != found.rows).all()


def test_of_a_long_text_a_sample_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 5)
    monkeypatch.setattr(module, "SAMPLE", 4)
    trace = looking([eye(1)], stream_of(TEXT, special=True))
    found = survey(trace, "encoder", always=8)
    assert 8 in found.rows
    assert 4 <= len(found.rows) <= 5
    assert found.rows[[0, -1]].tolist() == [1, COUNT - 2]
