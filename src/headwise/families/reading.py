"""Which family reads a file: the configuration by the name of the architecture, the table of names by the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

from headwise.errors import CheckpointError, UnsupportedError
from headwise.families import bart, bert, gpt2, llama, t5
from headwise.families.fields import LARGEST, Fields
from headwise.families.names import Names
from headwise.families.shared import About, body_class
from headwise.transformer.config import ModelConfig

FAMILIES: dict[str, ModuleType] = {"bert": bert, "gpt2": gpt2, "llama": llama, "t5": t5, "bart": bart}


def architectures() -> dict[str, str]:
    """Every `model_type` that can be read, and its family."""
    return {name: family for family, module in FAMILIES.items() for name in module.CLASSES}


def read_config(raw: Mapping[str, Any], where: object, names: Collection[str] = ()) -> ModelConfig:
    """The configuration in a config.json; `names`, the tensors beside it, settle what the fields leave open."""
    architecture = raw.get("model_type")
    family = architectures().get(architecture) if isinstance(architecture, str) else None
    if family is None or not isinstance(architecture, str):
        found = f"model_type {str(architecture)[:60]!r}" if architecture else "no model_type"
        raise UnsupportedError(f"{where}: {found}; supported are {', '.join(architectures())}")
    module = FAMILIES[family]
    head = _head(raw, where, module.CLASSES[architecture])
    fields = Fields(where, raw)
    config: ModelConfig = module.read(fields, About(architecture, head, names))
    fields.done()
    _check(fields, config)
    if head == "body" and not config.tied:
        name = body_class(module.CLASSES[architecture])
        raise UnsupportedError(
            f"{where}: architectures: {name} is a body whose head is neither there nor its embedding"
        )
    return replace(config, family=family, architecture=architecture, raw=dict(raw))


def _head(raw: Mapping[str, Any], where: object, classes: Mapping[str, str]) -> str:
    """What stands on the body, by the class that the file names."""
    listed = raw.get("architectures")
    name = listed[0] if isinstance(listed, list) and listed else next(iter(classes))
    if not isinstance(name, str) or name not in classes:
        raise UnsupportedError(f"{where}: architectures: {str(name)[:60]!r} is not one of {', '.join(classes)}")
    return classes[name]


def read_gguf_config(metadata: Mapping[str, Any], where: object, shapes: Mapping[str, tuple[int, ...]]) -> ModelConfig:
    """The configuration in a GGUF file's metadata; `shapes` are those of its tensors."""
    architecture = metadata.get("general.architecture")
    readers = {name: (family, module) for family, module in FAMILIES.items() for name in getattr(module, "GGUF", ())}
    if architecture not in readers:
        found = f"general.architecture {str(architecture)[:60]!r}"
        raise UnsupportedError(f"{where}: {found}; supported in GGUF are {', '.join(readers)}")
    family, module = readers[architecture]
    fields = Fields(where, metadata)
    config: ModelConfig = module.read_gguf(fields, architecture, shapes)
    embedding = shapes.get("token_embd.weight", ())
    if len(embedding) != 2 or not 1 <= embedding[0] <= LARGEST or embedding[1] != config.dim:
        raise CheckpointError(where, "token_embd.weight", f"got the shape {list(embedding)}, wanted [?, {config.dim}]")
    fields.must_be(f"{architecture}.vocab_size", embedding[0])
    fields.done(prefix=f"{architecture}.")
    config = replace(config, vocabulary=embedding[0], **_gguf_ids(fields, embedding[0]))
    _check(fields, config)
    return replace(config, family=family, architecture=architecture)


def _gguf_ids(fields: Fields, vocabulary: int) -> dict[str, Any]:
    def one(name: str) -> int | None:
        return fields.token(f"tokenizer.ggml.{name}_token_id", vocabulary)

    ends = [one(name) for name in ("eos", "eot")]
    end_ids = tuple(dict.fromkeys(end for end in ends if end is not None))
    return {"pad_id": one("padding"), "begin_id": one("bos"), "end_ids": end_ids}


def _check(fields: Fields, config: ModelConfig) -> None:
    """Refuse sizes that do not fit together."""
    for name, stack in config.stacks.items():
        if stack.head_dim is None and stack.dim % stack.heads:
            raise fields.error(name, f"{stack.heads} heads do not divide the dimension {stack.dim}")
        if stack.heads % stack.shared_heads:
            raise fields.error(name, f"{stack.shared_heads} key-value heads do not divide {stack.heads} heads")
        if stack.positions.kind == "rotary" and (stack.positions.dims or stack.size_of_head) % 2:
            raise fields.error(name, f"heads of {stack.size_of_head} cannot be turned: wanted an even size")
        if stack.positions.kind == "rotary" and (stack.positions.dims or 0) > stack.size_of_head:
            raise fields.error(name, f"{stack.positions.dims} of {stack.size_of_head} dimensions cannot be turned")
        scaling = stack.positions.scaling
        if scaling is not None and scaling.kind == "dynamic" and (stack.positions.dims or stack.size_of_head) < 4:
            raise fields.error(name, f"dynamic scaling wants 4 dimensions to turn, and there are {stack.size_of_head}")


def names_of(config: ModelConfig) -> Names:
    """The table of a safetensors file of this configuration."""
    return FAMILIES[config.family].names(config)


def gguf_names_of(config: ModelConfig) -> Names:
    """The table of a GGUF file of this configuration."""
    return FAMILIES[config.family].gguf_names(config)
