"""Whole runs, small: what they leave behind opens everywhere, and says what it is."""

import json
from pathlib import Path

import pytest
import torch
import transformers
from tiny_runs import REVERSE, changed, pairs

import headwise
from headwise.errors import DataError, RecipeError
from headwise.generation.own import read_own
from headwise.training.adapters import Adapted
from headwise.training.attend import written_out
from headwise.training.evaluate import evaluate
from headwise.training.loop import Loop
from headwise.training.prepare import Source, prepare
from headwise.training.recipe_file import make_recipe

SHORT = {"steps": 3, "epochs": 0, "evaluate_every": 2, "checkpoint_every": 2, "log_every": 1, "samples": 2}
SUMMARIES = {
    "task": "summarize",
    "precision": "float32",
    "model": {"layers": 2, "dim": 32, "heads": 2, "context": 128, "dropout": 0.1},
    "tokenizer": {"vocabulary": 300},
    "data": {"longest_source": 60, "longest_target": 12, "length": 96, "validation": 0.2},
    "batch": {"tokens": 512},
    "run": SHORT,
}
TEXTS = {
    "precision": "float32",
    "model": {"layers": 1, "dim": 32, "heads": 2, "context": 64},
    "tokenizer": {"vocabulary": 300},
    "data": {"text": "source", "length": 48, "validation": 0.2},
    "batch": {"tokens": 256},
    "run": SHORT,
}


@pytest.fixture(scope="module")
def summarizer(tmp_path_factory: pytest.TempPathFactory) -> headwise.Trained:
    """A decoder that was trained for three steps."""
    path = tmp_path_factory.mktemp("summarizer")
    return headwise.train(SUMMARIES, pairs(path / "pairs.jsonl"), path / "run", quiet=True)


def library_logits(model: torch.nn.Module, **inputs: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(**inputs).logits


def test_a_run_leaves_everything_behind(summarizer: headwise.Trained) -> None:
    names = {path.name for path in summarizer.directory.iterdir()}
    assert names >= {"last", "best", "recipe.toml", "metrics.jsonl", "samples.jsonl", "loss.svg", "loss.png", "tokens"}
    assert summarizer.finished
    assert summarizer.steps == 3
    lines = [json.loads(line) for line in (summarizer.directory / "samples.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [2, 2, 3, 3]
    assert all(line["wanted"] in {"ada", "bo", "cy", "dot", "eve", "fay", "gus", "hal"} for line in lines)
    assert "<svg" in (summarizer.directory / "loss.svg").read_text()
    assert [line["step"] for line in summarizer.metrics if "loss" in line] == [1, 2, 3]


def test_a_summarizer_opens_here_and_in_the_reference_library(summarizer: headwise.Trained) -> None:
    model = headwise.load(summarizer.last)
    own = read_own(model)
    assert (own.task, own.separator) == ("summarize", "<sep>")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(summarizer.last)
    ids = transformers.AutoTokenizer.from_pretrained(summarizer.last)("ada bo<sep>", return_tensors="pt").input_ids
    assert ids[0].tolist() == model.tokenizer.encode("ada bo<sep>")
    with torch.no_grad():
        torch.testing.assert_close(model(ids), library_logits(theirs, input_ids=ids), rtol=0, atol=1e-5)
    assert isinstance(headwise.summarize("ada bo cy", model, "short", check=False).text, str)


def test_a_translator_opens_here_and_in_the_reference_library(tmp_path: Path) -> None:
    done = headwise.train(changed(REVERSE, run=SHORT), out=tmp_path / "run", quiet=True)
    model = headwise.load(done.best)
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(done.best)
    ids = torch.tensor([model.tokenizer.encode("abc")])
    target = torch.tensor([[1, 70, 71]])
    assert ids[0, -1] == model.tokenizer.end_id
    with torch.no_grad():
        found = library_logits(theirs, input_ids=ids, decoder_input_ids=target)
        torch.testing.assert_close(model(ids, target), found, rtol=0, atol=1e-5)
    written = theirs.generate(ids, max_new_tokens=5, num_beams=1, do_sample=False)[0].tolist()[1:]
    assert headwise.generate(model, "abc", max_tokens=5) == model.tokenizer.decode(written)


@pytest.mark.parametrize("task", ["language-model", "masked-words"])
def test_other_tasks_run_and_open(tmp_path: Path, task: str) -> None:
    done = headwise.train({**TEXTS, "task": task}, pairs(tmp_path / "pairs.jsonl"), tmp_path / "run", quiet=True)
    model = headwise.load(done.best)
    assert isinstance(model, headwise.Decoder if task == "language-model" else headwise.Encoder)
    kind = transformers.AutoModelForCausalLM if task == "language-model" else transformers.AutoModelForMaskedLM
    theirs = kind.from_pretrained(done.best)
    ids = torch.tensor([model.tokenizer.encode("ada bo")])
    with torch.no_grad():
        ours = model(ids) if task == "language-model" else model.masked_logits(model(ids))
        torch.testing.assert_close(ours, library_logits(theirs, input_ids=ids), rtol=0, atol=1e-5)


def test_adapters_learn_alone_and_are_merged_when_saved(tmp_path: Path, summarizer: headwise.Trained) -> None:
    recipe = {
        **{name: value for name, value in SUMMARIES.items() if name not in ("model", "tokenizer")},
        "model": {"checkpoint": str(summarizer.last), "adapters": {"rank": 4, "on": ["query", "down"]}},
        "optimiser": {"learning_rate": 0.05, "warmup": 0},
    }
    file = pairs(tmp_path / "pairs.jsonl")
    done = headwise.train(recipe, file, tmp_path / "run", quiet=True)
    before, after = headwise.load(summarizer.last), headwise.load(done.last)
    changes = {name for name, one in before.named_parameters() if not torch.equal(one, after.get_parameter(name))}
    wanted = {f"decoder.blocks.{i}.{part}.weight" for i in range(2) for part in ("attention.query", "feedforward.down")}
    assert changes == wanted
    # What was saved computes what the adapters computed beside their matrices.
    read = make_recipe(recipe)
    prepared = prepare(read, Source(file), tmp_path / "run", lambda text: None)
    from headwise.training.distributed import Processes

    loop = Loop(read, prepared, tmp_path / "run", Processes(), shown=False)
    assert sum(isinstance(module, Adapted) for module in loop.model.modules()) == 4
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        torch.testing.assert_close(loop.model.eval()(ids), after(ids), rtol=0, atol=1e-4)


def test_what_is_judged_is_what_is_learned(tmp_path: Path) -> None:
    """The validation loss is the loss of the same rows without dropout; `exact` is what greedy writing gives."""
    recipe = make_recipe(
        changed(REVERSE, data={"rows": 60, "longest": 3, "validation": 0.3}, run={"evaluate_rows": 50})
    )
    prepared = prepare(recipe, Source(None), tmp_path, lambda text: None)
    from headwise.training.distributed import Processes

    loop = Loop(recipe, prepared, tmp_path, Processes(), shown=False)
    for rows in [rows for _ in range(60) for rows in [next(loop._batches())]]:
        loop._learn(rows, False)
    found = evaluate(loop.learner, recipe, prepared, loop.processes)
    loop.model.eval()
    every = [[row] for row in range(len(prepared.validation["source"]))]
    batch = prepared.layout.collate(every, prepared.validation, 0)
    with torch.no_grad():
        total = loop.learner.eval()(batch.inputs, batch.labels)
    count = int((batch.labels >= 0).sum())
    assert found["validation_loss"] == pytest.approx(float(total) / count, rel=1e-5)
    words = [prepared.tokenizer.decode(prepared.validation["source"][row].tolist()) for row in range(len(every))]
    written = headwise.generate(loop.model, words, max_tokens=8)
    right = [text == word[::-1] for text, word in zip(written, words, strict=True)]
    assert found["exact"] == pytest.approx(sum(right) / len(right))


def test_rows_kept_for_a_test_are_nowhere_in_the_tokens(tmp_path: Path) -> None:
    recipe = make_recipe(changed(REVERSE, data={"test": 0.3}))
    prepared = prepare(recipe, Source(None), tmp_path, lambda text: None)
    from headwise.training.prepare import part_rows

    kept = {row.texts["source"] for row in part_rows(recipe, Source(None), "test")}
    assert 60 < len(kept) < 120
    assert prepared.about["rows"]["test"] == len(kept)
    for part in (prepared.train, prepared.validation):
        texts = {prepared.tokenizer.decode(part["source"][row].tolist()) for row in range(len(part["source"]))}
        assert not texts & kept


def test_the_kernel_for_bfloat16_is_the_equation() -> None:
    from headwise import Mask, attention

    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, 5, 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
    documents = torch.tensor([[0, 0, 1, 1, 1], [0, 0, 0, 2, 2]])
    nobody = torch.tensor([[True] * 5, [False] * 5])
    for mask in (Mask(), Mask(causal=True), Mask(causal=True, documents=documents), Mask(padding=nobody)):
        results = []
        for kernel in (written_out, "equation"):
            mixed = attention(query.float(), key.float(), value.float(), mask, kernel=kernel)
            results.append([mixed, *torch.autograd.grad(mixed.square().sum(), [query, key, value])])
        for ours, theirs in zip(*results, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("recipe", "error", "told"),
    [
        ({**REVERSE, "model": {"preset": "gpt2"}}, RecipeError, "task: translate wants decoder and encoder, and gpt2"),
        ({**REVERSE, "model": {"preset": "x"}}, RecipeError, "model.preset: got 'x', wanted one of"),
        (
            {**REVERSE, "model": {"dim": 30, "heads": 4}},
            RecipeError,
            "model.heads: got 4, wanted a number that divides",
        ),
        (changed(REVERSE, data={"longest_source": 2000}), RecipeError, "data.longest_source: makes texts of 2000"),
        ({**REVERSE, "data": {}}, DataError, "data: wanted a file, or a recipe that makes its rows"),
    ],
)
def test_recipes_that_cannot_be_followed_are_refused(tmp_path: Path, recipe, error, told: str) -> None:
    with pytest.raises(error, match=told):
        headwise.train(recipe, out=tmp_path / "run", quiet=True)


def test_bad_rows_end_the_command_in_one_line(tmp_path: Path, command) -> None:
    (tmp_path / "pairs.jsonl").write_text('{"source": "a"}\n')
    (tmp_path / "recipe.toml").write_text('task = "translate"\n[run]\nsteps = 1\n')
    told = command("train", tmp_path / "recipe.toml", "--data", tmp_path / "pairs.jsonl", "--out", tmp_path / "run")
    assert told.code == 2
    assert "pairs.jsonl: 1 bad rows: line 1: has no 'target'" in told.err.splitlines()[-1]


def test_a_run_ends_when_the_validation_loss_does_not_fall(tmp_path: Path) -> None:
    still = changed(REVERSE, run={**SHORT, "steps": 100, "patience": 2}, optimiser={"learning_rate": 1e-12})
    done = headwise.train(still, out=tmp_path / "run", quiet=True)
    assert (done.finished, done.steps) == (True, 6)
    assert [line["best"] for line in done.metrics if "best" in line] == [True, False, False]
    assert headwise.load(done.last).config == headwise.load(done.best).config
    again = headwise.train(still, out=tmp_path / "run", quiet=True)
    assert (again.finished, again.steps) == (True, 6)
