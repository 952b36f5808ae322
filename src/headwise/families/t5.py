"""T5 (Raffel et al. 2020): version 1.0, and version 1.1 with Flan (gated, head of its own)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headwise.families.fields import Fields
from headwise.families.names import Names, Rule, Same, same
from headwise.families.shared import ACTIVATION_NAMES, ACTIVATIONS, About
from headwise.transformer.config import ModelConfig, Positions, StackConfig

STACKS = {"encoder", "decoder"}
CLASSES = {"t5": {"T5ForConditionalGeneration": "language", "T5Model": "body"}}
_TIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
_GATED = {"gated-gelu": "gelu_new", "gated-silu": "silu", "gated-relu": "relu", "gated-swish": "silu"}


def read(fields: Fields, about: About) -> ModelConfig:
    """The configuration of a file."""
    fields.must_be("is_decoder", False)
    fields.must_be("is_encoder_decoder", True)
    # What the distances make needless, and what follows from "feed_forward_proj".
    for name in ("n_positions", "dense_act_fn", "is_gated_act"):
        fields.get(name)
    vocabulary, dim, layers = fields.size("vocab_size"), fields.size("d_model"), fields.layers("num_layers")
    kind = fields.choice("feed_forward_proj", {**{name: name for name in ACTIVATIONS}, **_GATED}, "relu")
    stack = StackConfig(
        layers=layers,
        dim=dim,
        heads=fields.size("num_heads"),
        head_dim=fields.size("d_kv", 64),
        hidden=fields.size("d_ff"),
        positions=Positions(
            kind="buckets",
            buckets=fields.size("relative_attention_num_buckets", 32, 1 << 16),
            farthest=fields.size("relative_attention_max_distance", 128),
        ),
        norm="rms",
        epsilon=fields.number("layer_norm_epsilon", 1e-6),
        activation=ACTIVATIONS[kind],
        gated=str(fields.get("feed_forward_proj")).startswith("gated-"),
        attention_bias=False,
        output_bias=False,
        feedforward_bias=False,
        scale=1.0,
        dropout=fields.number("dropout_rate", 0.1, high=0.99),
        activation_dropout=fields.number("dropout_rate", 0.1, high=0.99),
        attention_dropout=fields.number("dropout_rate", 0.1, high=0.99),
    )
    if stack.positions.buckets < 4 or stack.positions.farthest <= stack.positions.buckets // 2:
        raise fields.error("relative_attention_num_buckets", "wanted 4 at least, and distances beyond half of them")
    # Version 1.1 has a head of its own; where it says so by "tie_word_embeddings": false, nothing is scaled either.
    scaled = fields.flag("scale_decoder_outputs", fields.flag("tie_word_embeddings", True))
    return ModelConfig(
        vocabulary=vocabulary,
        encoder=stack,
        decoder=replace(stack, layers=fields.layers("num_decoder_layers", layers), causal=True, cross=True),
        head_scale=dim**-0.5 if scaled else 1.0,
        tied="lm_head.weight" not in about.names,
        initialisation="fan_in",
        deviation=fields.number("initializer_factor", 1.0),
        pad_id=fields.token("pad_token_id", vocabulary),
        end_ids=fields.tokens("eos_token_id", vocabulary),
        start_id=fields.token("decoder_start_token_id", vocabulary) or 0,
    )


def write(config: ModelConfig) -> dict[str, Any]:
    """The fields of the reference library."""
    encoder, decoder = config.stacks["encoder"], config.stacks["decoder"]
    activation = ACTIVATION_NAMES[encoder.activation].removesuffix("_new" if encoder.gated else "")
    scaled = config.head_scale != 1.0
    return {
        "num_layers": encoder.layers,
        "num_decoder_layers": decoder.layers,
        "d_model": encoder.dim,
        "d_kv": encoder.size_of_head,
        "d_ff": encoder.hidden,
        "num_heads": encoder.heads,
        "relative_attention_num_buckets": encoder.positions.buckets,
        "relative_attention_max_distance": encoder.positions.farthest,
        "feed_forward_proj": f"gated-{activation}" if encoder.gated else activation,
        "layer_norm_epsilon": encoder.epsilon,
        "dropout_rate": encoder.dropout,
        "initializer_factor": config.deviation,
        "scale_decoder_outputs": scaled,
        "tie_word_embeddings": scaled,
        "is_encoder_decoder": True,
    }


def names(config: ModelConfig) -> Names:
    """The table for this configuration; the first layer of each stack holds the bias of all."""
    base = same("shared", "embedding")
    for name, stack in config.stacks.items():
        buckets = f"{name}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        base += [Same(buckets, f"{name}.buckets.weight"), *same(f"{name}.final_layer_norm", f"{name}.norm")]
        for i in range(stack.layers):
            base += _layer(stack, f"{name}.block.{i}.layer", f"{name}.blocks.{i}")
    return Names(
        base=base,
        head=() if config.tied else [Same("lm_head.weight", "head.words.weight")],
        ties=dict.fromkeys(_TIES, "embedding.weight"),
        ignored=["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"],
    )


def _layer(stack: StackConfig, theirs: str, ours: str) -> list[Rule]:
    rules = _attention(f"{theirs}.0", "SelfAttention", ours, "attention")
    if stack.cross:
        rules += _attention(f"{theirs}.1", "EncDecAttention", ours, "cross")
    last = f"{theirs}.{2 if stack.cross else 1}"
    parts = {"gate": "wi_0", "up": "wi_1"} if stack.gated else {"up": "wi"}
    for part, their in (parts | {"down": "wo"}).items():
        rules += same(f"{last}.DenseReluDense.{their}", f"{ours}.feedforward.{part}")
    return [*rules, *same(f"{last}.layer_norm", f"{ours}.feedforward_norm")]


def _attention(theirs: str, module: str, ours: str, part: str) -> list[Rule]:
    rules = same(f"{theirs}.layer_norm", f"{ours}.{part}_norm")
    for name in ("query", "key", "value", "output"):
        rules += same(f"{theirs}.{module}.{name[0]}", f"{ours}.{part}.{name}")
    return rules
