"""Llama 2 and 3 (Touvron et al. 2023; Llama team 2024), and what shares their block: Mistral, Qwen2, Qwen3, SmolLM2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwise.attention.scaling import RotaryScaling
from headwise.families.fields import Fields
from headwise.families.names import Names, Rule, Same, Unpermute, same
from headwise.families.rope import read_rope, write_rope
from headwise.families.shared import ACTIVATION_NAMES, ACTIVATIONS, About
from headwise.transformer.config import ModelConfig, Positions, StackConfig

STACKS = {"decoder"}
CLASSES = {
    name: {f"{title}ForCausalLM": "language", f"{title}Model": "body"}
    for name, title in (("llama", "Llama"), ("mistral", "Mistral"), ("qwen2", "Qwen2"), ("qwen3", "Qwen3"))
}


def read(fields: Fields, about: About) -> ModelConfig:
    """The configuration of a file."""
    architecture = about.architecture
    vocabulary, dim = fields.size("vocab_size"), fields.size("hidden_size")
    heads, layers = fields.size("num_attention_heads"), fields.layers("num_hidden_layers")
    context = fields.size("max_position_embeddings", 2048)
    qwen = architecture in ("qwen2", "qwen3")
    bias = architecture == "qwen2" or fields.flag("attention_bias", False)
    feedforward_bias = fields.flag("mlp_bias", False)
    stack = StackConfig(
        layers=layers,
        dim=dim,
        heads=heads,
        key_value_heads=fields.size("num_key_value_heads", heads),
        head_dim=fields.size("head_dim", 128 if architecture == "qwen3" else dim // heads),
        hidden=fields.size("intermediate_size"),
        causal=True,
        windows=_windows(fields, architecture, layers) if qwen or architecture == "mistral" else (),
        positions=read_rope(fields, context),
        norm="rms",
        epsilon=fields.number("rms_norm_eps", 1e-6),
        activation=fields.choice("hidden_act", ACTIVATIONS, "silu"),
        gated=True,
        attention_bias=bias,
        output_bias=bias and architecture != "qwen2",
        feedforward_bias=feedforward_bias,
        query_key_norm=architecture == "qwen3",
        attention_dropout=fields.number("attention_dropout", 0.0, high=0.99),
    )
    return ModelConfig(
        vocabulary=vocabulary,
        decoder=stack,
        tied=fields.flag("tie_word_embeddings", False),
        deviation=fields.number("initializer_range", 0.02),
        context=context,
        pad_id=fields.token("pad_token_id", vocabulary),
        begin_id=fields.token("bos_token_id", vocabulary),
        end_ids=fields.tokens("eos_token_id", vocabulary),
    )


def _windows(fields: Fields, architecture: str, layers: int) -> tuple[int | None, ...]:
    """Mistral's window holds for all layers, Qwen's for the later ones, and only where it is switched on."""
    mistral, kinds = architecture == "mistral", fields.get("layer_types")
    first = fields.whole("max_window_layers", 28)
    width = None if fields.get("sliding_window") is None else fields.size("sliding_window")
    if not mistral and not fields.flag("use_sliding_window", False):
        width = None
    known = ("sliding_attention", "full_attention")
    if kinds is None:
        windows = tuple(width if mistral or i >= first else None for i in range(layers))
    elif isinstance(kinds, list) and len(kinds) == layers and all(kind in known for kind in kinds):
        windows = tuple(width if kind == known[0] else None for kind in kinds)
        if None in windows and mistral and width is not None:
            raise fields.error("layer_types", "wanted sliding_attention everywhere: this family has no other layers")
    else:
        raise fields.error("layer_types", f"wanted {layers} times sliding_attention or full_attention")
    return windows if any(windows) else ()


def write(config: ModelConfig) -> dict[str, Any]:
    """The fields of the reference library."""
    stack = config.stacks["decoder"]
    fields: dict[str, Any] = {
        "num_hidden_layers": stack.layers,
        "hidden_size": stack.dim,
        "num_attention_heads": stack.heads,
        "num_key_value_heads": stack.shared_heads,
        "head_dim": stack.size_of_head,
        "intermediate_size": stack.hidden,
        "max_position_embeddings": config.context or 2048,
        "hidden_act": ACTIVATION_NAMES[stack.activation],
        "rms_norm_eps": stack.epsilon,
        "attention_dropout": stack.attention_dropout,
        "initializer_range": config.deviation,
        **write_rope(stack.positions),
    }
    if config.architecture in ("llama", "qwen3"):
        fields["attention_bias"] = stack.attention_bias
    if config.architecture == "llama":
        fields["mlp_bias"] = stack.feedforward_bias
    if config.architecture == "mistral":
        fields["sliding_window"] = stack.window(0)
    if config.architecture in ("qwen2", "qwen3"):
        width = next((width for width in stack.windows if width is not None), None)
        kinds = ["full_attention" if stack.window(i) is None else "sliding_attention" for i in range(stack.layers)]
        fields |= {"use_sliding_window": width is not None, "sliding_window": width, "layer_types": kinds}
    return fields


def names(config: ModelConfig) -> Names:
    """The table for this configuration."""
    base = [*same("embed_tokens", "embedding"), *same("norm", "decoder.norm")]
    for i in range(config.layers):
        base += _layer(config, i, f"layers.{i}", _THEIRS)
    head = () if config.tied else [Same("lm_head.weight", "head.words.weight")]
    ignored = ["*rotary_emb.inv_freq"]
    return Names(base=base, head=head, prefix="model.", ties={"lm_head.weight": "embedding.weight"}, ignored=ignored)


def _layer(config: ModelConfig, i: int, theirs: str, table: dict[str, str]) -> list[Rule]:
    """The tensors of one layer, biases and norms where this configuration has them."""
    stack, ours = config.stacks["decoder"], f"decoder.blocks.{i}"
    biased: dict[str, bool] = {"attention.output": stack.output_bias}
    biased |= dict.fromkeys(("attention.query", "attention.key", "attention.value"), stack.attention_bias)
    biased |= dict.fromkeys(("feedforward.gate", "feedforward.up", "feedforward.down"), stack.feedforward_bias)
    rules: list[Rule] = []
    for part, their in table.items():
        if "query_norm" in part or "key_norm" in part:
            rules += same(f"{theirs}.{their}", f"{ours}.{part}") if stack.query_key_norm else []
        else:
            rules += same(f"{theirs}.{their}", f"{ours}.{part}", bias=biased.get(part, False))
    return rules


_THEIRS = {
    "attention_norm": "input_layernorm",
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.o_proj",
    "attention.query_norm": "self_attn.q_norm",
    "attention.key_norm": "self_attn.k_norm",
    "feedforward_norm": "post_attention_layernorm",
    "feedforward.gate": "mlp.gate_proj",
    "feedforward.up": "mlp.up_proj",
    "feedforward.down": "mlp.down_proj",
}
_THEIRS_IN_GGUF = {
    "attention_norm": "attn_norm",
    "attention.query": "attn_q",
    "attention.key": "attn_k",
    "attention.value": "attn_v",
    "attention.output": "attn_output",
    "attention.query_norm": "attn_q_norm",
    "attention.key_norm": "attn_k_norm",
    "feedforward_norm": "ffn_norm",
    "feedforward.gate": "ffn_gate",
    "feedforward.up": "ffn_up",
    "feedforward.down": "ffn_down",
}

GGUF = ("llama", "qwen2", "qwen3")


def read_gguf(fields: Fields, architecture: str, shapes: Mapping[str, tuple[int, ...]]) -> ModelConfig:
    """The configuration in a GGUF file's metadata."""
    own = f"{architecture}."
    dim, heads = fields.size(own + "embedding_length"), fields.size(own + "attention.head_count")
    head_dim = fields.size(own + "attention.key_length", dim // heads)
    context = fields.size(own + "context_length", 2048)
    for name in ("attention.value_length", "rope.dimension_count"):
        fields.must_be(own + name, head_dim)
    fields.must_be(own + "attention.causal", True)
    positions = Positions(
        kind="rotary",
        base=fields.number(own + "rope.freq_base", 10000.0, low=1.0),
        scaling=_gguf_scaling(fields, own, context),
    )
    stack = StackConfig(
        layers=fields.layers(own + "block_count"),
        dim=dim,
        heads=heads,
        key_value_heads=fields.size(own + "attention.head_count_kv", heads),
        head_dim=head_dim,
        hidden=fields.size(own + "feed_forward_length"),
        causal=True,
        positions=positions,
        norm="rms",
        epsilon=fields.number(own + "attention.layer_norm_rms_epsilon", 1e-6),
        activation="silu",
        gated=True,
        attention_bias="blk.0.attn_q.bias" in shapes,
        output_bias="blk.0.attn_output.bias" in shapes,
        feedforward_bias="blk.0.ffn_up.bias" in shapes,
        query_key_norm="blk.0.attn_q_norm.weight" in shapes,
    )
    return ModelConfig(vocabulary=0, decoder=stack, tied="output.weight" not in shapes, context=context)


def _gguf_scaling(fields: Fields, own: str, context: int) -> RotaryScaling | None:
    kind = fields.get(own + "rope.scaling.type")
    fields.must_be(own + "rope.scaling.attn_factor", 1)
    fields.flag(own + "rope.scaling.finetuned", False)
    if kind in (None, "none"):
        return None
    factor = fields.number(own + "rope.scaling.factor", 1.0)
    original = fields.size(own + "rope.scaling.original_context_length", context)
    if kind == "linear":
        return RotaryScaling("linear", factor, original)
    if kind == "yarn":
        return RotaryScaling("yarn", factor, original, low=1.0, high=32.0)
    raise fields.error(own + "rope.scaling.type", f"got {str(kind)[:40]!r}, wanted none, linear or yarn")


def gguf_names(config: ModelConfig) -> Names:
    """The table of a GGUF file; for the architecture "llama" it keeps rotated coordinates side by side."""
    stack = config.stacks["decoder"]
    base = [*same("token_embd", "embedding"), *same("output_norm", "decoder.norm")]
    for i in range(config.layers):
        base += _layer(config, i, f"blk.{i}", _THEIRS_IN_GGUF)
    if config.architecture == "llama":
        heads = {"attn_q": stack.heads, "attn_k": stack.shared_heads}
        base = [_unpermuted(rule, heads) for rule in base]
    head = () if config.tied else [Same("output.weight", "head.words.weight")]
    return Names(base=base, head=head, ignored=["rope_freqs.weight"] if stack.positions.scaling else [])


def _unpermuted(rule: Rule, heads: dict[str, int]) -> Rule:
    part = rule.theirs.split(".")[-2]
    return Unpermute(rule.theirs, rule.parameters[0], heads=heads[part]) if part in heads else rule
