"""BART (Lewis et al. 2020), Marian (Junczys-Dowmunt et al. 2018) and Pegasus (Zhang et al. 2020)."""

from __future__ import annotations

import math
from typing import Any, Literal

from headwise.families.fields import Fields
from headwise.families.names import Names, Row, Rule, Sinusoids, same
from headwise.families.shared import ACTIVATION_NAMES, ACTIVATIONS, About
from headwise.transformer.config import ModelConfig, Positions, StackConfig

STACKS = {"encoder", "decoder"}
CLASSES = {
    "bart": {"BartForConditionalGeneration": "language", "BartModel": "body"},
    "marian": {"MarianMTModel": "language", "MarianModel": "body"},
    "pegasus": {"PegasusForConditionalGeneration": "language", "PegasusModel": "body"},
}

# What older files say of their architecture, where the reference library has long fixed it.
_FIXED: dict[str, dict[str, object]] = {
    "bart": {"normalize_before": False, "normalize_embedding": True, "add_final_layer_norm": False},
    "marian": {"normalize_before": False, "normalize_embedding": False, "add_final_layer_norm": False},
    "pegasus": {"normalize_before": True, "normalize_embedding": False, "add_final_layer_norm": True},
}
_TIES = (
    "lm_head.weight",
    *(f"{at}{name}.embed_tokens.weight" for at in ("", "model.") for name in ("encoder", "decoder")),
)


def read(fields: Fields, about: About) -> ModelConfig:
    """The configuration of a file."""
    architecture = about.architecture
    for name, value in _FIXED[architecture].items():
        fields.must_be(name, value)
    fields.must_be("static_position_embeddings", architecture != "bart")
    fields.must_be("is_encoder_decoder", True)
    # The rows of the table of positions that are left out, counted anew by the tensor's own shape; and what is said
    # of the encoder a second time.
    for name in ("extra_pos_embeddings", "num_hidden_layers"):
        fields.get(name)
    fields.must_be("is_decoder", False)
    fields.must_be("share_encoder_decoder_embeddings", True)
    vocabulary = fields.size("vocab_size")
    fields.must_be("decoder_vocab_size", vocabulary)
    count = fields.size("max_position_embeddings", 1024)
    fields.must_be("tie_word_embeddings", True)
    return ModelConfig(
        vocabulary=vocabulary,
        encoder=_stack(fields, architecture, "encoder", count),
        decoder=_stack(fields, architecture, "decoder", count),
        head_bias=True,
        context=count,
        deviation=fields.number("init_std", 0.02),
        pad_id=fields.token("pad_token_id", vocabulary),
        begin_id=fields.token("bos_token_id", vocabulary),
        end_ids=fields.tokens("eos_token_id", vocabulary),
        start_id=_start(fields, vocabulary, architecture),
    )


def _start(fields: Fields, vocabulary: int, architecture: str) -> int | None:
    start = fields.token("decoder_start_token_id", vocabulary)
    if start is not None:
        return start
    return fields.token("eos_token_id" if architecture == "bart" else "pad_token_id", vocabulary)


def _stack(fields: Fields, architecture: str, name: Literal["encoder", "decoder"], count: int) -> StackConfig:
    dim = fields.size("d_model")
    positions = Positions(kind="sinusoidal", count=count, layout="halves")
    if architecture == "bart":
        # The first two rows of the table were left for padding.
        positions = Positions(kind="learned", count=count, offset=2)
    return StackConfig(
        layers=fields.layers(f"{name}_layers"),
        dim=dim,
        heads=fields.size(f"{name}_attention_heads"),
        hidden=fields.size(f"{name}_ffn_dim"),
        causal=name == "decoder",
        cross=name == "decoder",
        positions=positions,
        norm_place="pre" if architecture == "pegasus" else "post",
        embedding_norm=architecture == "bart",
        final_norm=architecture == "pegasus",
        embedding_scale=math.sqrt(dim) if fields.flag("scale_embedding", False) else 1.0,
        activation=fields.choice("activation_function", ACTIVATIONS, "gelu"),
        dropout=fields.number("dropout", 0.1, high=0.99),
        activation_dropout=fields.number("activation_dropout", 0.0, high=0.99),
        attention_dropout=fields.number("attention_dropout", 0.0, high=0.99),
    )


def write(config: ModelConfig) -> dict[str, Any]:
    """The fields of the reference library."""
    fields: dict[str, Any] = {"is_encoder_decoder": True}
    for name, stack in config.stacks.items():
        fields |= {
            f"{name}_layers": stack.layers,
            f"{name}_attention_heads": stack.heads,
            f"{name}_ffn_dim": stack.hidden,
        }
    stack = config.stacks["decoder"]
    return {
        **fields,
        "d_model": stack.dim,
        "max_position_embeddings": stack.positions.count or config.context or 1024,
        "scale_embedding": stack.embedding_scale != 1.0,
        "activation_function": ACTIVATION_NAMES[stack.activation],
        "dropout": stack.dropout,
        "activation_dropout": stack.activation_dropout,
        "attention_dropout": stack.attention_dropout,
        "init_std": config.deviation,
    }


def names(config: ModelConfig) -> Names:
    """The table for this configuration."""
    base = same("shared", "embedding")
    for name, stack in config.stacks.items():
        if stack.positions.kind == "learned":
            base += same(f"{name}.embed_positions", f"{name}.positions")
        if stack.positions.kind == "sinusoidal":
            table, written = f"{name}.embed_positions.weight", config.architecture == "pegasus"
            base.append(Sinusoids(table, stack.positions.count, stack.dim, written))
        if stack.embedding_norm:
            base += same(f"{name}.layernorm_embedding", f"{name}.embedding_norm", bias=True)
        if stack.final_norm:
            base += same(f"{name}.layer_norm", f"{name}.norm", bias=True)
        for i in range(stack.layers):
            base += _layer(stack, f"{name}.layers.{i}", f"{name}.blocks.{i}")
    return Names(
        base=base,
        head=[Row("final_logits_bias", "head.words.bias", optional=True)],
        prefix="model.",
        ties=dict.fromkeys(_TIES, "embedding.weight"),
        ignored=["*.version"],
    )


def _layer(stack: StackConfig, theirs: str, ours: str) -> list[Rule]:
    rules: list[Rule] = []
    for part, their in _LAYER.items():
        if stack.cross or not part.startswith("cross"):
            rules += same(f"{theirs}.{their}", f"{ours}.{part}", bias=True)
    return rules


_LAYER = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.out_proj",
    "attention_norm": "self_attn_layer_norm",
    "cross.query": "encoder_attn.q_proj",
    "cross.key": "encoder_attn.k_proj",
    "cross.value": "encoder_attn.v_proj",
    "cross.output": "encoder_attn.out_proj",
    "cross_norm": "encoder_attn_layer_norm",
    "feedforward.up": "fc1",
    "feedforward.down": "fc2",
    "feedforward_norm": "final_layer_norm",
}
