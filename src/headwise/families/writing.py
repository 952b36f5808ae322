"""From a model's configuration back to a config.json: what is written is read again, and must say the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from headwise.errors import HeadwiseError, UnsupportedError
from headwise.families.reading import FAMILIES, architectures, names_of, read_config
from headwise.families.shared import body_class
from headwise.transformer.config import ModelConfig, StackConfig

# What does not enter into the computation of a finished model.
_APART = ("raw", "family", "architecture", "context", "initialisation", "deviation")
_IDS = ("pad_id", "begin_id", "end_ids", "start_id")
_APART_IN_STACK = ("dropout", "embedding_dropout", "activation_dropout", "attention_dropout", "filter_width")


def settle(config: ModelConfig) -> ModelConfig:
    """The configuration under the architecture whose files can say it; raises where there is none."""
    for name, stack in config.stacks.items():
        if stack.mixer != "attention":
            problem = f"{name}.mixer is {stack.mixer!r}, and every architecture of the reference library has attention"
            raise UnsupportedError(f"{problem} there; its files cannot say it")
    if config.family in FAMILIES:
        difference = _difference(config)
        if difference is not None:
            raise UnsupportedError(f"{config.architecture}: files of this architecture cannot say that {difference}")
        return config
    found: dict[str, str] = {}
    for architecture, family in architectures().items():
        if set(config.stacks) != FAMILIES[family].STACKS:
            continue
        candidate = replace(config, family=family, architecture=architecture, raw={})
        difference = _difference(candidate)
        if difference is None:
            return candidate
        found[architecture] = difference
    why = "; ".join(f"{architecture}: not that {difference}" for architecture, difference in found.items())
    raise UnsupportedError(f"no architecture of the reference library computes this configuration ({why})")


def write_config(config: ModelConfig) -> dict[str, Any]:
    """The config.json that the reference library reads, with whatever else the file once held."""
    module = FAMILIES[config.family]
    ends = list(config.end_ids)
    ids = {
        "pad_token_id": config.pad_id,
        "bos_token_id": config.begin_id,
        "eos_token_id": ends[0] if len(ends) == 1 else ends or None,
    }
    if config.start_id is not None:
        ids["decoder_start_token_id"] = config.start_id
    own = {"vocab_size": config.vocabulary, "tie_word_embeddings": config.tied, **ids, **module.write(config)}
    # An id past the vocabulary stands for none here, and stays in the file as it was.
    kept = {name: config.raw[name] for name in ids if own[name] is None and config.raw.get(name) is not None}
    about = {"architectures": [_class(config)], "model_type": config.architecture}
    old = {name: value for name, value in config.raw.items() if name != "torch_dtype"}
    return {**old, **about, **own, **kept}


def _class(config: ModelConfig) -> str:
    """The reference library's class that has these parameters and no others."""
    classes: Mapping[str, str] = FAMILIES[config.family].CLASSES[config.architecture]
    if is_body(config):
        return body_class(classes)
    return next(name for name, head in classes.items() if head == config.head)


def is_body(config: ModelConfig) -> bool:
    """Whether its file holds the body alone, without a head and without a prefix before the names."""
    classes: Mapping[str, str] = FAMILIES[config.family].CLASSES[config.architecture]
    listed = config.raw.get("architectures")
    return config.head == "none" or (bool(listed) and classes.get(listed[0]) == "body")


def _difference(config: ModelConfig) -> str | None:
    """What the file would say differently, in words; None where nothing."""
    try:
        rules = names_of(config).rules(prefixed=not is_body(config))
        again = read_config(write_config(config), config.architecture, list(rules))
    except HeadwiseError as error:
        return str(error)
    for field in fields(ModelConfig):
        mine, theirs = getattr(config, field.name), getattr(again, field.name)
        if isinstance(mine, StackConfig):
            difference = _stack_difference(mine, theirs)
            if difference is not None:
                return f"{field.name}.{difference}"
        elif field.name not in (*_APART, *_IDS) and not _head_alone(config, field.name) and mine != theirs:
            return f"{field.name} is {mine!r} (but only {theirs!r})"
    return None


def _head_alone(config: ModelConfig, field: str) -> bool:
    """Whether the field speaks of a kind of head that this model does not have."""
    return config.head != "language" and field in ("head_bias", "head_scale")


def _stack_difference(mine: StackConfig, theirs: StackConfig) -> str | None:
    one, other = _plain(mine), _plain(theirs)
    for field in fields(StackConfig):
        here, there = getattr(one, field.name), getattr(other, field.name)
        if field.name not in _APART_IN_STACK and here != there:
            return f"{field.name} is {here!r} (but only {there!r})"
    return None


def _plain(stack: StackConfig) -> StackConfig:
    """The same stack with everything said that may be left open, and nothing that does not count."""
    positions = stack.positions
    if positions.kind != "learned":
        positions = replace(positions, count=0)
    if positions.dims == stack.size_of_head:
        positions = replace(positions, dims=None)
    return replace(
        stack,
        key_value_heads=stack.shared_heads,
        head_dim=stack.size_of_head,
        windows=stack.windows if any(stack.windows) else (),
        positions=positions,
    )
