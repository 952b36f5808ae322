"""The tasks ask what they say: the answer stands where the distance points."""

from collections import Counter
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import Generator

from headwise.errors import HeadwiseError
from headwise.training.compare_tasks import IGNORED, NOUNS, Agreement, Copying, Recall
from headwise.training.compare_text import LITTLE, SHORTEST, ordinary_text, text_tasks


def asked(batch):
    """Row, place and distance of every answer, and the words of its row up to it."""
    for row, place in (batch.targets != IGNORED).nonzero().tolist():
        words = [*batch.ids[row, : place + 1].tolist(), int(batch.targets[row, place])]
        yield words, place + 1 - int(batch.distances[row, place])


@pytest.mark.parametrize("distance", [4, 8, 16, 64])
def test_recall_asks_for_the_digit_that_was_told_with_the_letter(distance: int) -> None:
    answers = list(asked(Recall().draw(distance, 40, Generator().manual_seed(0))))
    assert len(answers) == 40 * min(4, distance // 2)
    for words, place in answers:
        assert words[place - 1] == words[-2] < 16 <= words[place] == words[-1] < 26
    apart = [len(words) - 1 - place for words, place in answers]
    assert sum(apart) / len(apart) == pytest.approx(distance, rel=0.1)


def test_the_best_guess_of_recall_is_the_digit_told_most_often() -> None:
    best = [Counter(digits).most_common(1)[0][1] / 4 for digits in product(range(10), repeat=4)]
    assert Recall().chance == pytest.approx(sum(best) / len(best), abs=1e-6)


@pytest.mark.parametrize("distance", [4, 8, 64])
def test_copying_repeats_what_stood_so_far_before(distance: int) -> None:
    for words, place in asked(Copying().draw(distance, 10, Generator().manual_seed(0))):
        assert words[place] == words[-1]
        assert len(words) - 1 - place == distance


def test_agreement_follows_the_first_noun() -> None:
    task, seen = Agreement(), set()
    for words, place in asked(task.draw(32, 60, Generator().manual_seed(0))):
        sentence = [task.words[word] for word in words]
        assert place == 1
        assert sentence[-1] == ("it" if sentence[1] in NOUNS else "they")
        assert sentence[2::3][-1] == ","
        assert 27 <= len(words) - 2 <= 32
        last = sentence[-3] in NOUNS
        seen.add((sentence[-1], last))
    assert len(seen) == 4, "the noun before the answer must tell nothing"


def test_the_same_seed_draws_the_same() -> None:
    for task in (Recall(), Copying(), Agreement()):
        one, two, other = (task.draw(16, 4, Generator().manual_seed(seed)) for seed in (3, 3, 4))
        assert torch.equal(one.ids, two.ids)
        assert not torch.equal(one.ids, other.ids)


def test_text_asks_for_each_next_sign() -> None:
    text = "".join(chr(97 + at * at % 23) for at in range(3000))
    texts = text_tasks(text)
    batch = texts.whole.draw(16, 5, Generator().manual_seed(0))
    for ids, targets in zip(batch.ids, batch.targets, strict=True):
        piece = "".join(texts.whole.words[at] for at in [*ids.tolist(), int(targets[-1])])
        assert piece in text[:2700]
        assert torch.equal(ids[1:], targets[:-1])
    assert batch.distances[0].tolist() == list(range(1, 17))
    held = "".join(texts.held_out.words[at] for at in texts.held_out.ids.tolist())
    assert held == text[2700:]
    assert len(text_tasks("ab " * 9000).little.ids) == LITTLE


def test_the_text_of_python_is_there_and_is_text() -> None:
    text = ordinary_text(None)
    assert len(text) > 300_000
    assert text.count(" the ") > 1000


def test_a_text_of_the_users_own(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text("word " * SHORTEST)
    assert ordinary_text(path) == "word " * SHORTEST
    path.write_text("word")
    with pytest.raises(HeadwiseError, match=r"book\.txt: got 4 characters, wanted at least 20,000"):
        ordinary_text(path)
    path.write_bytes(b"ab\xff")
    with pytest.raises(HeadwiseError, match=r"book\.txt: is not UTF-8"):
        ordinary_text(path)
