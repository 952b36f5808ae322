"""Recipes: every field checked, nothing unknown accepted, all of them documented."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from headwise.errors import RecipeError
from headwise.training.recipe import AdapterRecipe, ModelRecipe, Recipe, RunRecipe
from headwise.training.recipe_file import flat, make_recipe, read_recipe, write_recipe

ROOT = Path(__file__).parent.parent.parent
SHORT = {"task": "translate", "run": {"steps": 3}}


@pytest.mark.parametrize("file", sorted((ROOT / "recipes").glob("*.toml")), ids=lambda file: file.stem)
def test_every_recipe_is_read_and_written_back(file: Path, tmp_path: Path) -> None:
    recipe = read_recipe(file)
    (tmp_path / "again.toml").write_text(write_recipe(recipe))
    assert read_recipe(tmp_path / "again.toml") == recipe


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ({**SHORT, "sede": 1}, "here.toml: sede: unknown field; did you mean seed?"),
        ({**SHORT, "optimiser": {"learning_rat": 1}}, "optimiser.learning_rat: .*did you mean learning_rate?"),
        ({**SHORT, "model": {"adapters": {"rang": 4}}}, "model.adapters.rang: .*did you mean rank?"),
        ({**SHORT, "zzz": 1}, "zzz: unknown field; known are task, seed"),
        ({**SHORT, "seed": "1"}, "seed: got '1', wanted a whole number"),
        ({**SHORT, "seed": True}, "seed: got True, wanted a whole number"),
        ({**SHORT, "sharded": 1}, "sharded: got 1, wanted true or false"),
        ({**SHORT, "optimiser": {"learning_rate": float("nan")}}, "learning_rate: got nan, wanted 1e-12 to 100"),
        ({**SHORT, "batch": {"tokens": 0}}, "batch.tokens: got 0, wanted 1 to"),
        ({**SHORT, "model": []}, r"model: got \[\], wanted a table"),
        ({**SHORT, "data": {"source": 1.5}}, "data.source: got 1.5, wanted a text or a whole number"),
        ({**SHORT, "task": "translation"}, "task: got 'translation', wanted \"language-model\" or"),
        ({"run": {"steps": 3}}, "task: is missing"),
        ({"task": "translate"}, "run.steps: wanted either run.steps or run.epochs"),
        ({**SHORT, "run": {"steps": 3, "epochs": 1}}, "run.steps: wanted either"),
        ({**SHORT, "model": {"adapters": {}}}, "model.adapters: wanted model.checkpoint as well"),
        ({**SHORT, "model": {"checkpoint": "a", "layers": 3}}, "model.layers: the checkpoint has a shape of its own"),
        ({**SHORT, "task": "summarize", "data": {"length": 100}}, "data.length: got 100, wanted room for .* 386"),
    ],
)
def test_what_is_wrong_is_named(raw: dict, told: str) -> None:
    with pytest.raises(RecipeError, match=told):
        make_recipe(raw, "here.toml")


def test_a_file_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "broken.toml"
    file.write_text("task = ")
    with pytest.raises(RecipeError, match=r"broken.toml: file: is not valid TOML"):
        read_recipe(file)
    with pytest.raises(RecipeError, match="cannot be read: No such file"):
        read_recipe(tmp_path / "none.toml")


def test_every_field_is_described() -> None:
    page = (ROOT / "docs" / "training.md").read_text().split("## Recipes, field by field")[1].split("\n## ")[0]
    told = set(re.findall(r"^\| `([a-z_0-9.]+)` \|", page, re.MULTILINE))
    every = Recipe("translate", model=ModelRecipe(adapters=AdapterRecipe()))
    assert told == set(flat(every))


def test_writing_keeps_every_value(tmp_path: Path) -> None:
    every = Recipe(
        "summarize",
        seed=7,
        model=ModelRecipe(checkpoint='a "b" \\ c', adapters=AdapterRecipe(rank=3, on=("query",))),
        run=RunRecipe(epochs=2),
    )
    every = replace(every, data=replace(every.data, length=999, source=3, separator="\n→\n"))
    file = tmp_path / "all.toml"
    file.write_text(write_recipe(every), encoding="utf-8")
    assert read_recipe(file) == every
