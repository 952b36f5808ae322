"""Each task's exact positions: what is read, what is learned, and who may see whom."""

import numpy as np
import pytest
import torch
from tiny_runs import changed

from headwise.errors import RecipeError
from headwise.training.layouts import IGNORED, Cuts, Layout, make_layout
from headwise.training.learner import Learner
from headwise.training.model import make_model
from headwise.training.plan import bucket, make_plan, pack, share
from headwise.training.recipe import Recipe
from headwise.training.recipe_file import make_recipe
from headwise.training.vocabulary import train_tokenizer

BASE = {"task": "summarize", "run": {"steps": 1}, "tokenizer": {"vocabulary": 261}, "precision": "float32"}
PAD, BEGIN, END, SEPARATOR, MASK = range(5)
ROWS = [{"source": "abc", "target": "x"}, {"source": "de", "target": "yz"}, {"source": "fghij", "target": "w"}]


class Column(list[list[int]]):
    """Tokens in memory, as those on the disk."""

    def __getitem__(self, row: int) -> np.ndarray:  # type: ignore[override]
        return np.array(super().__getitem__(row))

    @property
    def lengths(self) -> np.ndarray:
        return np.array([len(row) for row in self])


def laid_out(tmp_path, rows=ROWS, **tables) -> tuple[Recipe, Layout, dict[str, Column], Cuts]:
    recipe = make_recipe(changed(BASE, **tables))
    tokenizer = train_tokenizer([text for row in rows for text in row.values()], recipe, tmp_path / "tokenizer")
    layout, cuts = make_layout(recipe, tokenizer), Cuts()
    columns = {name: Column(ids) for name, ids in layout.encode(rows, cuts).items()}
    return recipe, layout, columns, cuts


def ids(layout, text: str) -> list[int]:
    return layout.tokenizer.encode(text, special=False)


def test_a_summary_is_learned_after_the_separator_and_nothing_before(tmp_path) -> None:
    """`article <sep> summary <eos>`: the separator predicts the summary's first token, its last one the end."""
    _, layout, columns, _ = laid_out(tmp_path, data={"length": 600})
    batch = layout.collate([[0, 1], [2]], columns, 0)
    abc, de, fghij, x, yz, w = (ids(layout, text) for text in ("abc", "de", "fghij", "x", "yz", "w"))
    first = [*abc, SEPARATOR, *x, *de, SEPARATOR, *yz]
    second = [*fghij, SEPARATOR, *w]
    fill = len(first) - len(second)
    assert batch.inputs["ids"].tolist() == [first, second + [PAD] * fill]
    no = IGNORED
    assert batch.labels.tolist() == [
        [no, no, no, *x, END, no, no, *yz, END],
        [no, no, no, no, no, *w, END] + [no] * fill,
    ]
    assert batch.inputs["documents"].tolist() == [[0] * 5 + [1] * 5, [0] * len(second) + [-1] * fill]


def test_texts_in_one_row_do_not_see_each_other(tmp_path) -> None:
    recipe, layout, columns, _ = laid_out(
        tmp_path,
        data={"longest_source": 20, "longest_target": 10, "length": 40},
        model={"layers": 2, "dim": 16, "heads": 2, "context": 64, "dropout": 0.0},
    )
    learner = Learner(make_model(recipe, layout.tokenizer))
    together = layout.collate([[0, 1, 2]], columns, 0)
    apart = [layout.collate([[row]], columns, 0) for row in range(3)]
    whole = learner(together.inputs, together.labels)
    parts = [learner(one.inputs, one.labels) for one in apart]
    torch.testing.assert_close(whole, sum(parts), rtol=1e-5, atol=1e-5)
    (gradient,) = torch.autograd.grad(whole, [learner.model.embedding.weight])
    (wanted,) = torch.autograd.grad(sum(parts), [learner.model.embedding.weight])
    torch.testing.assert_close(gradient, wanted, rtol=1e-4, atol=1e-6)


def test_a_translation_is_read_whole_and_learned_from_its_start(tmp_path) -> None:
    _, layout, columns, _ = laid_out(tmp_path, task="translate")
    batch = layout.collate([[0], [1]], columns, 0)
    abc, de, x, yz = (ids(layout, text) for text in ("abc", "de", "x", "yz"))
    assert batch.inputs["source"].tolist() == [[*abc, END], [*de, END, PAD]]
    assert batch.inputs["source_padding"].tolist() == [[True] * 4, [True] * 3 + [False]]
    assert batch.inputs["target"].tolist() == [[BEGIN, *x, PAD], [BEGIN, *yz]]
    assert batch.labels.tolist() == [[*x, END, IGNORED], [*yz, END]]


def test_a_language_model_learns_every_token_and_long_texts_are_divided(tmp_path) -> None:
    rows = [{"text": "abcdefg"}, {"text": "h"}]
    recipe, layout, columns, cuts = laid_out(tmp_path, rows, task="language-model", data={"length": 4})
    letters = [BEGIN, *ids(layout, "abcdefg"), END]
    assert list.__getitem__(columns["text"], 0) == letters[:5]
    batch = layout.collate([[0], [1], [2]], columns, 0)
    assert batch.inputs["ids"].tolist() == [letters[:4], letters[4:8], [BEGIN, *ids(layout, "h"), PAD, PAD]]
    assert batch.labels.tolist() == [letters[1:5], letters[5:9], [*ids(layout, "h"), END, IGNORED, IGNORED]]
    assert cuts.divided == 1
    assert [row for rows in make_plan(recipe, columns, None) for row in rows] == [[0], [1], [2]]


def test_masked_words_are_learned_and_drawn_anew_each_epoch(tmp_path) -> None:
    rows = [{"text": "the quick brown fox jumps over the lazy dog"}] * 40
    _, layout, columns, _ = laid_out(tmp_path, rows, task="masked-words", data={"masked": 0.3})
    every = [[row] for row in range(40)]
    batch = layout.collate(every, columns, 0)
    real = torch.tensor(list(columns["text"]))
    learned = batch.labels != IGNORED
    assert torch.equal(batch.labels[learned], real[learned])
    assert torch.equal(batch.inputs["ids"][~learned], real[~learned])
    assert not learned[:, 0].any()
    assert not learned[:, -1].any()
    assert learned.float().mean(1).sub(0.3 * 43 / 45).abs().max() < 0.02
    masked = (batch.inputs["ids"][learned] == MASK).float().mean()
    assert 0.72 < masked < 0.88
    assert torch.equal(layout.collate(every, columns, 0).labels, batch.labels)
    assert not torch.equal(layout.collate(every, columns, 1).labels, batch.labels)


def test_long_texts_lose_their_ends_and_are_counted(tmp_path) -> None:
    short = {"longest_source": 4, "longest_target": 1}
    _, layout, columns, cuts = laid_out(tmp_path, task="translate", data=short)
    assert [[*ids(layout, "fgh"), END], [*ids(layout, "y"), END]] == [
        list(columns["source"][2]),
        list(columns["target"][1]),
    ]
    assert cuts.cut == 2


def test_rows_are_filled_and_never_too_full() -> None:
    lengths = np.random.default_rng(0).integers(1, 60, 500)
    rows = pack(range(500), lengths, 64)
    assert sorted(one for row in rows for one in row) == list(range(500))
    used = [int(lengths[row].sum()) for row in rows]
    assert max(used) <= 64
    assert sum(used) / (64 * len(rows)) > 0.93


def test_buckets_hold_like_lengths_within_the_room() -> None:
    lengths = np.random.default_rng(0).integers(1, 40, (900, 2))
    batches = bucket(np.arange(900), lengths, 300)
    chosen = [[one for row in batch for one in row] for batch in batches]
    assert sorted(one for batch in chosen for one in batch) == list(range(900))
    assert all(len(batch) * lengths[batch].max(0).sum() <= 300 for batch in chosen)


def test_the_parts_of_a_batch_are_the_batch() -> None:
    rows = [[number] for number in range(5)]
    parts = [share(rows, part, 3) for part in range(3)]
    assert sorted(row[0] for part, counts in parts for row in part if counts) == [0, 1, 2, 3, 4]
    assert share(rows[:1], 2, 3) == ([[0]], False)


def test_a_separator_of_nothing_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"data.separator: is empty"):
        make_recipe(BASE | {"data": {"length": 600, "separator": " "}})
