"""The model a run begins with: a preset or the task's own shape with new weights, or a checkpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from headwise.checkpoints.load import load
from headwise.checkpoints.tokenizer import Tokenizer
from headwise.errors import RecipeError
from headwise.families.presets import presets
from headwise.training.adapters import add_adapters
from headwise.training.recipe import PAIRS, ModelRecipe, Recipe, Task
from headwise.transformer.config import ModelConfig, StackConfig
from headwise.transformer.model import Decoder, Encoder, EncoderDecoder, build

AnyModel = Encoder | Decoder | EncoderDecoder
_SHAPES: dict[Task, str] = {
    "language-model": "gpt2-tiny",
    "summarize": "gpt2-tiny",
    "translate": "transformer-small",
    "masked-words": "bert-tiny",
}
_STACKS: dict[Task, set[str]] = {
    "language-model": {"decoder"},
    "summarize": {"decoder"},
    "translate": {"encoder", "decoder"},
    "masked-words": {"encoder"},
}


def make_model(recipe: Recipe, tokenizer: Tokenizer) -> AnyModel:
    """The model, its weights drawn from the recipe's seed or read, with adapters where the recipe wants them."""
    torch.manual_seed(recipe.seed)
    wanted = recipe.model
    if wanted.checkpoint is None:
        model = build(_config(recipe, tokenizer))
    else:
        model = load(wanted.checkpoint)
        _check_task(recipe, model.config, wanted.checkpoint)
        if wanted.adapters is not None:
            add_adapters(model, wanted.adapters)
    model.tokenizer = tokenizer
    model.generation = _generation(recipe, model, tokenizer)
    _check_lengths(recipe, model.config)
    return model.train()


def _config(recipe: Recipe, tokenizer: Tokenizer) -> ModelConfig:
    """The preset's configuration with the recipe's changes and the tokenizer's vocabulary."""
    name = recipe.model.preset or _SHAPES[recipe.task]
    if name not in presets:
        raise RecipeError("recipe", "model.preset", f"got {name!r}, wanted one of {', '.join(presets)}")
    config = presets[name]
    _check_task(recipe, config, name)
    stacks = {kind: _shaped(stack, recipe.model) for kind, stack in config.stacks.items()}
    return replace(
        config,
        **stacks,
        vocabulary=tokenizer.vocabulary_size,
        context=recipe.model.context or config.context,
        pad_id=tokenizer.pad_id,
        begin_id=tokenizer.begin_id,
        end_ids=() if tokenizer.end_id is None else (tokenizer.end_id,),
        start_id=tokenizer.begin_id if "encoder" in stacks and "decoder" in stacks else None,
    )


def _shaped(stack: StackConfig, wanted: ModelRecipe) -> StackConfig:
    """The stack in the recipe's size; a new width keeps the ratio of the wide layer and of embeddings to positions."""
    dim, heads = wanted.dim or stack.dim, wanted.heads or stack.heads
    if dim % heads:
        raise RecipeError("recipe", "model.heads", f"got {heads}, wanted a number that divides model.dim = {dim}")
    positions = stack.positions
    if wanted.context is not None and positions.count:
        positions = replace(positions, count=wanted.context)
    dropout = wanted.dropout
    return replace(
        stack,
        layers=wanted.layers or stack.layers,
        dim=dim,
        heads=heads,
        hidden=wanted.hidden or stack.hidden * dim // stack.dim,
        positions=positions,
        embedding_scale=1.0 if stack.embedding_scale == 1 else dim**0.5,
        dropout=stack.dropout if dropout is None else dropout,
        attention_dropout=min(stack.attention_dropout, stack.dropout if dropout is None else dropout),
    )


def _check_task(recipe: Recipe, config: ModelConfig, name: str) -> None:
    if set(config.stacks) != _STACKS[recipe.task]:
        raise RecipeError(
            "recipe",
            "task",
            f"{recipe.task} wants {' and '.join(sorted(_STACKS[recipe.task]))}, and {name} has "
            f"{' and '.join(sorted(config.stacks))}",
        )
    if recipe.task == "masked-words" and config.head != "masked":
        raise RecipeError("recipe", "model", f"{name} came without a head for masked words")


def _check_lengths(recipe: Recipe, config: ModelConfig) -> None:
    data, room = recipe.data, config.context
    wanted = {"data.length": data.length}
    if recipe.task == "summarize":
        wanted = {"data.longest_source": data.longest_source + data.longest_target + 2}
    if recipe.task == "translate":
        wanted = {"data.longest_source": data.longest_source, "data.longest_target": data.longest_target + 1}
    for name, tokens in wanted.items():
        if room and tokens > room:
            raise RecipeError("recipe", name, f"makes texts of {tokens} tokens, and the model allows {room}")


def _generation(recipe: Recipe, model: AnyModel, tokenizer: Tokenizer) -> dict[str, Any]:
    """How the trained model writes: what generation_config.json will say."""
    config, pairs = model.config, recipe.task in PAIRS
    ours = {
        "task": recipe.task,
        "separator": recipe.data.separator if recipe.task == "summarize" else None,
        "prefix": recipe.data.prefix or None,
    }
    fields = {
        "bos_token_id": tokenizer.begin_id,
        "eos_token_id": tokenizer.end_id,
        "pad_token_id": tokenizer.pad_id,
        "decoder_start_token_id": config.start_id,
        "max_new_tokens": recipe.data.longest_target + 1 if pairs else None,
        "headwise": ours,
    }
    return {**model.generation, **{name: value for name, value in fields.items() if value is not None}}
