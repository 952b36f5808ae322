"""Recipe files: TOML in, checked field by field; and the recipe as it was run, written out whole."""

from __future__ import annotations

import json
import tomllib
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from headwise.errors import RecipeError
from headwise.training.recipe import MATRICES, Recipe

LARGEST = 1_000_000
_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", tuple: "a list of texts"}


def read_recipe(path: str | Path) -> Recipe:
    """The recipe in a TOML file."""
    path = Path(path)
    try:
        if path.stat().st_size > LARGEST:
            raise RecipeError(path, "file", f"is larger than {LARGEST} bytes")
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecipeError(path, "file", f"cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise RecipeError(path, "file", f"is not valid TOML: {str(error)[:120]}") from error
    return make_recipe(raw, path)


def make_recipe(raw: Mapping[str, Any], where: object = "recipe") -> Recipe:
    """The recipe of nested tables, every field checked."""
    recipe: Recipe = _table(Recipe, raw, where, "")
    check_recipe(recipe, where)
    return recipe


def check_recipe(recipe: Recipe, where: object = "recipe") -> None:
    """Refuse fields that do not fit together."""

    def refuse(wrong: bool, name: str, problem: str) -> None:
        if wrong:
            raise RecipeError(where, name, problem)

    model, data, run = recipe.model, recipe.data, recipe.run
    refuse(bool(run.steps) == bool(run.epochs), "run.steps", "wanted either run.steps or run.epochs")
    refuse(model.preset is not None and model.checkpoint is not None, "model.preset", "stands beside model.checkpoint")
    for name in ("layers", "dim", "heads", "hidden", "dropout", "context") if model.checkpoint is not None else ():
        refuse(getattr(model, name) is not None, f"model.{name}", "the checkpoint has a shape of its own")
    refuse(model.adapters is not None and model.checkpoint is None, "model.adapters", "wanted model.checkpoint as well")
    wrong = [name for name in (model.adapters.on if model.adapters else ()) if name not in MATRICES]
    refuse(bool(wrong), "model.adapters.on", f"got {wrong[:1]}, wanted some of {', '.join(MATRICES)}")
    refuse(model.adapters is not None and recipe.sharded, "sharded", "adapters are small; leave sharded out")
    refuse(data.shortest > data.longest, "data.shortest", f"is more than data.longest = {data.longest}")
    refuse(data.validation + data.test > 0.9, "data.validation", "and data.test leave too little to train on")
    refuse(not data.separator.strip() and recipe.task == "summarize", "data.separator", "is empty")
    refuse(data.made is not None and recipe.task not in ("translate", "summarize"), "data.made", "makes pairs")
    whole = data.longest_source + data.longest_target + 2
    refuse(
        recipe.task == "summarize" and data.length < whole,
        "data.length",
        f"got {data.length}, wanted room for longest_source, separator, longest_target and end: {whole} or more",
    )


def write_recipe(recipe: Recipe) -> str:
    """The recipe as TOML, every field said."""
    return "\n".join(_lines(recipe, ())) + "\n"


def flat(recipe: Any, above: str = "") -> dict[str, Any]:
    """Every field under its dotted name."""
    result: dict[str, Any] = {}
    for part in fields(recipe):
        value = getattr(recipe, part.name)
        result |= flat(value, f"{above}{part.name}.") if is_dataclass(value) else {above + part.name: value}
    return result


def _lines(table: Any, above: tuple[str, ...]) -> list[str]:
    plain, tables = [], []
    for part in fields(table):
        value = getattr(table, part.name)
        if is_dataclass(value):
            name = (*above, part.name)
            tables += ["", f"[{'.'.join(name)}]", *_lines(value, name)]
        elif value is not None:
            # JSON's way of writing texts, numbers, lists and booleans is TOML's too.
            plain.append(f"{part.name} = {json.dumps(value)}")
    return plain + tables


def _table(kind: type[Any], raw: Mapping[str, Any], where: object, above: str) -> Any:
    hints = get_type_hints(kind)
    known = {part.name: part for part in fields(kind)}
    for name in raw:
        if name not in known:
            near = get_close_matches(name, known, 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise RecipeError(where, above + name, f"unknown field; {hint}")
    values: dict[str, Any] = {}
    for name, part in known.items():
        if name in raw:
            values[name] = _value(hints[name], raw[name], where, above + name)
            _check_range(values[name], part.metadata, where, above + name)
    missing = [name for name in ("task",) if kind is Recipe and name not in values]
    if missing:
        raise RecipeError(where, missing[0], f"is missing; wanted {_told(hints[missing[0]])}")
    return kind(**values)


def _value(hint: Any, value: Any, where: object, name: str) -> Any:
    options = [one for one in _options(hint) if one is not type(None)]
    for option in options:
        if is_dataclass(option) and isinstance(value, Mapping):
            return _table(option, value, where, name + ".")  # type: ignore[arg-type]
        if get_origin(option) is Literal and isinstance(value, str) and value in get_args(option):
            return value
        if get_origin(option) is tuple and isinstance(value, list) and all(isinstance(one, str) for one in value):
            return tuple(value)
        if option is float and type(value) in (int, float):
            return float(cast(float, value))
        if option in (int, str, bool) and type(value) is option:
            return value
    raise RecipeError(where, name, f"got {value!r:.60}, wanted {' or '.join(map(_told, options))}")


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _told(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(f'"{one}"' for one in get_args(hint))
    return "a table" if is_dataclass(hint) else _WORDS[get_origin(hint) or hint]


def _check_range(value: Any, limits: Mapping[str, Any], where: object, name: str) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and limits and not limits["low"] <= value <= limits["high"]:
        raise RecipeError(where, name, f"got {value}, wanted {limits['low']:g} to {limits['high']:g}")
