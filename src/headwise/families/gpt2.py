"""GPT-2 (Radford et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwise.families.fields import Fields
from headwise.families.names import Names, Rule, Same, Split, Transpose, same
from headwise.families.shared import ACTIVATION_NAMES, ACTIVATIONS, About
from headwise.transformer.config import ModelConfig, Positions, StackConfig

STACKS = {"decoder"}
CLASSES = {"gpt2": {"GPT2LMHeadModel": "language", "GPT2Model": "body", "GPT2DoubleHeadsModel": "language"}}


def read(fields: Fields, about: About) -> ModelConfig:
    """The configuration of a file."""
    # Its own order of products changes the rounding only, and only in half precision.
    fields.flag("reorder_and_upcast_attn", False)
    fields.must_be("add_cross_attention", False)
    vocabulary, dim = fields.size("vocab_size"), fields.size("n_embd")
    count = fields.size("n_positions", 1024)
    stack = StackConfig(
        layers=fields.layers("n_layer"),
        dim=dim,
        heads=fields.size("n_head"),
        hidden=fields.size("n_inner", 4 * dim),
        causal=True,
        positions=Positions(kind="learned", count=count),
        epsilon=fields.number("layer_norm_epsilon", 1e-5),
        activation=fields.choice("activation_function", ACTIVATIONS, "gelu_new"),
        scale=None if fields.flag("scale_attn_weights", True) else 1.0,
        scale_by_layer=fields.flag("scale_attn_by_inverse_layer_idx", False),
        dropout=fields.number("resid_pdrop", 0.1, high=0.99),
        embedding_dropout=fields.number("embd_pdrop", 0.1, high=0.99),
        attention_dropout=fields.number("attn_pdrop", 0.1, high=0.99),
    )
    return ModelConfig(
        vocabulary=vocabulary,
        decoder=stack,
        tied=fields.flag("tie_word_embeddings", True),
        initialisation="normal_by_depth",
        deviation=fields.number("initializer_range", 0.02),
        context=count,
        pad_id=fields.token("pad_token_id", vocabulary),
        begin_id=fields.token("bos_token_id", vocabulary),
        end_ids=fields.tokens("eos_token_id", vocabulary),
    )


def write(config: ModelConfig) -> dict[str, Any]:
    """The fields of the reference library."""
    stack = config.stacks["decoder"]
    return {
        "n_layer": stack.layers,
        "n_embd": stack.dim,
        "n_head": stack.heads,
        "n_inner": stack.hidden,
        "n_positions": stack.positions.count,
        "activation_function": ACTIVATION_NAMES[stack.activation],
        "layer_norm_epsilon": stack.epsilon,
        "scale_attn_weights": stack.scale is None,
        "scale_attn_by_inverse_layer_idx": stack.scale_by_layer,
        "resid_pdrop": stack.dropout,
        "embd_pdrop": stack.dropout if stack.embedding_dropout is None else stack.embedding_dropout,
        "attn_pdrop": stack.attention_dropout,
        "initializer_range": config.deviation,
    }


def names(config: ModelConfig) -> Names:
    """The table for this configuration; its matrices are stored for x·W, and query, key and value side by side."""
    base: list[Rule] = [*same("wte", "embedding"), *same("wpe", "decoder.positions")]
    base += same("ln_f", "decoder.norm", bias=True)
    for i in range(config.layers):
        theirs, ours = f"h.{i}", f"decoder.blocks.{i}"
        three = [f"{ours}.attention.{part}" for part in ("query", "key", "value")]
        base += [
            *same(f"{theirs}.ln_1", f"{ours}.attention_norm", bias=True),
            *same(f"{theirs}.ln_2", f"{ours}.feedforward_norm", bias=True),
            Split(f"{theirs}.attn.c_attn.weight", tuple(f"{part}.weight" for part in three), transposed=True),
            Split(f"{theirs}.attn.c_attn.bias", tuple(f"{part}.bias" for part in three)),
            *_turned(f"{theirs}.attn.c_proj", f"{ours}.attention.output"),
            *_turned(f"{theirs}.mlp.c_fc", f"{ours}.feedforward.up"),
            *_turned(f"{theirs}.mlp.c_proj", f"{ours}.feedforward.down"),
        ]
    return Names(
        base=base,
        head=() if config.tied else [Same("lm_head.weight", "head.words.weight")],
        prefix="transformer.",
        ties={"lm_head.weight": "embedding.weight"},
        ignored=["*h.*.attn.bias", "*h.*.attn.masked_bias", "multiple_choice_head.*"],
    )


def _turned(theirs: str, ours: str) -> list[Rule]:
    return [Transpose(f"{theirs}.weight", f"{ours}.weight"), Same(f"{theirs}.bias", f"{ours}.bias")]


GGUF = ("gpt2",)


def read_gguf(fields: Fields, architecture: str, shapes: Mapping[str, tuple[int, ...]]) -> ModelConfig:
    """The configuration in a GGUF file's metadata."""
    own = f"{architecture}."
    dim, count = fields.size(own + "embedding_length"), fields.size(own + "context_length")
    fields.must_be(own + "attention.causal", True)
    stack = StackConfig(
        layers=fields.layers(own + "block_count"),
        dim=dim,
        heads=fields.size(own + "attention.head_count"),
        hidden=fields.size(own + "feed_forward_length", 4 * dim),
        causal=True,
        positions=Positions(kind="learned", count=count),
        epsilon=fields.number(own + "attention.layer_norm_epsilon", 1e-5),
        activation="gelu_tanh",
    )
    tied = "output.weight" not in shapes
    return ModelConfig(vocabulary=0, decoder=stack, tied=tied, initialisation="normal_by_depth", context=count)


def gguf_names(config: ModelConfig) -> Names:
    """The table of a GGUF file, whose matrices are stored for x·Wᵀ."""
    base: list[Rule] = [*same("token_embd", "embedding"), *same("position_embd", "decoder.positions")]
    base += same("output_norm", "decoder.norm", bias=True)
    for i in range(config.layers):
        theirs, ours = f"blk.{i}", f"decoder.blocks.{i}"
        three = [f"{ours}.attention.{part}" for part in ("query", "key", "value")]
        base += [
            *same(f"{theirs}.attn_norm", f"{ours}.attention_norm", bias=True),
            *same(f"{theirs}.ffn_norm", f"{ours}.feedforward_norm", bias=True),
            Split(f"{theirs}.attn_qkv.weight", tuple(f"{part}.weight" for part in three)),
            Split(f"{theirs}.attn_qkv.bias", tuple(f"{part}.bias" for part in three)),
            *same(f"{theirs}.attn_output", f"{ours}.attention.output", bias=True),
            *same(f"{theirs}.ffn_up", f"{ours}.feedforward.up", bias=True),
            *same(f"{theirs}.ffn_down", f"{ours}.feedforward.down", bias=True),
        ]
    head = () if config.tied else [Same("output.weight", "head.words.weight")]
    return Names(base=base, head=head)
