"""GGUF files written from the reference library's tiny models, and opened by us: the same numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
import transformers
from gguf.quants import dequantize, quantize
from reference_models import Case, draw

import headwise
from headwise.errors import UnsupportedError

Q = gguf.GGMLQuantizationType
PLAIN = {Q.F32: np.float32, Q.F16: np.float16}
SIZES = {"vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
LLAMA = {**SIZES, "num_key_value_heads": 2, "max_position_embeddings": 64}
GPT2 = {"vocab_size": 64, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}
PARTS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "post_attention_layernorm": "ffn_norm",
    "input_layernorm": "attn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
    "ln_1": "attn_norm",
    "ln_2": "ffn_norm",
}
WHOLE = {"embed_tokens": "token_embd", "wte": "token_embd", "wpe": "position_embd", "norm": "output_norm"}
WHOLE |= {"ln_f": "output_norm", "lm_head": "output"}
TURNED = ("c_attn.weight", "c_proj.weight", "c_fc.weight")


def their_name(name: str) -> str:
    """The GGUF name of a tensor of the reference library."""
    words = name.split(".")
    if words[1] in ("layers", "h"):
        return f"blk.{words[2]}.{PARTS['.'.join(words[3:-1])]}.{words[-1]}"
    return f"{WHOLE[words[-2]]}.{words[-1]}"


def side_by_side(rows: int, heads: int) -> np.ndarray:
    """Which row comes where when the two halves of each head are dealt like cards."""
    halves = np.arange(rows).reshape(heads, 2, -1)
    return np.stack([halves[:, 0], halves[:, 1]], axis=-1).reshape(-1)


def order_of(architecture: str, name: str, config: Any, rows: int) -> np.ndarray:
    if architecture == "llama" and ".attn_q." in name:
        return side_by_side(rows, config.num_attention_heads)
    if architecture == "llama" and ".attn_k." in name:
        return side_by_side(rows, config.num_key_value_heads)
    return np.arange(rows)


# Where a block of 256 keeps the half-precision numbers that its whole numbers are multiplied with.
SCALES = {Q.Q4_K: slice(0, 4), Q.Q5_K: slice(0, 4), Q.Q6_K: slice(208, 210)}


def blocks(values: np.ndarray, kind: Q) -> np.ndarray:
    """Rows of blocks: of these values, or drawn where the package can only read the kind."""
    if kind not in SCALES:
        return quantize(values, kind)
    rows, columns = values.shape
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    drawn = np.random.default_rng(rows).integers(0, 256, (rows, columns // elements, size), dtype=np.uint8)
    place = SCALES[kind]
    drawn[..., place] = np.full((place.stop - place.start) // 2, 1e-4, np.float16).view(np.uint8)
    return drawn.reshape(rows, -1)


def write_gguf(path: Path, theirs: Any, kind: Q, **more: Any) -> None:
    """Write the file, and give the model the values that the file has after rounding."""
    config, architecture = theirs.config, theirs.config.model_type
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_feed_forward_length(getattr(config, "intermediate_size", 4 * config.hidden_size))
    if architecture == "gpt2":
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
        if getattr(config, "head_dim", None):
            writer.add_key_length(config.head_dim)
            writer.add_value_length(config.head_dim)
            writer.add_rope_dimension_count(config.head_dim)
    for field, value in more.get("fields", {}).items():
        add = {str: writer.add_string, float: writer.add_float32, int: writer.add_uint32}[type(value)]
        add(f"{architecture}.{field}", value)
    for name, parameter in theirs.named_parameters():
        values = parameter.detach().numpy()
        values = values.T if name.endswith(TURNED) else values
        its = their_name(name)
        order = order_of(architecture, its, config, values.shape[0])
        rounded_to = kind if values.ndim == 2 else Q.F32
        data = np.ascontiguousarray(values[order])
        data = data.astype(PLAIN[rounded_to]) if rounded_to in PLAIN else blocks(data, rounded_to)
        writer.add_tensor(its, data, raw_dtype=rounded_to)
        back = np.empty_like(values)
        back[order] = data.astype(np.float32) if rounded_to in PLAIN else dequantize(data, rounded_to)
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(back.T if name.endswith(TURNED) else back))
    for name, values in more.get("tensors", {}).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


CASES = {
    "llama": ("LlamaForCausalLM", lambda: transformers.LlamaConfig(**LLAMA, tie_word_embeddings=True)),
    "llama-untied": ("LlamaForCausalLM", lambda: transformers.LlamaConfig(**LLAMA, rms_norm_eps=1e-5)),
    "qwen2": ("Qwen2ForCausalLM", lambda: transformers.Qwen2Config(**LLAMA)),
    "qwen3": ("Qwen3ForCausalLM", lambda: transformers.Qwen3Config(**LLAMA, head_dim=32, tie_word_embeddings=True)),
    "gpt2": ("GPT2LMHeadModel", lambda: transformers.GPT2Config(**GPT2)),
    "gpt2-untied": ("GPT2LMHeadModel", lambda: transformers.GPT2Config(**GPT2, tie_word_embeddings=False)),
}
KINDS = [Q.F32, Q.F16, Q.BF16, Q.Q8_0, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1]


def build(name: str) -> Any:
    return Case(name, *CASES[name]).build()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", CASES)
def test_the_same_numbers(name: str, kind: Q, close: Callable[..., None], tmp_path: Path) -> None:
    theirs = build(name)
    write_gguf(tmp_path / "model.gguf", theirs, kind)
    ours = headwise.load(tmp_path / "model.gguf")
    assert ours.config.architecture == name.split("-")[0]
    ids = draw(2, 17)
    close(ours(ids), theirs(ids).logits)


@pytest.mark.parametrize("kind", SCALES, ids=lambda kind: kind.name)
def test_blocks_of_256(kind: Q, close: Callable[..., None], tmp_path: Path) -> None:
    sizes = LLAMA | {"hidden_size": 256, "intermediate_size": 512}
    theirs = Case("llama-wide", "LlamaForCausalLM", lambda: transformers.LlamaConfig(**sizes)).build()
    write_gguf(tmp_path / "model.gguf", theirs, kind)
    ours = headwise.load(tmp_path / "model.gguf")
    assert float(ours.embedding.weight.std()) > 0.01
    ids = draw(2, 17)
    close(ours(ids), theirs(ids).logits)


@pytest.mark.parametrize("name", CASES)
def test_saved_and_opened_by_the_reference_library(name: str, close: Callable[..., None], tmp_path: Path) -> None:
    theirs = build(name)
    write_gguf(tmp_path / "model.gguf", theirs, Q.Q8_0)
    headwise.save(headwise.load(tmp_path / "model.gguf"), tmp_path / "saved")
    again = type(theirs).from_pretrained(tmp_path / "saved").eval()
    ids = draw(2, 17)
    close(again(ids).logits, theirs(ids).logits)


def stretched(original: int) -> tuple[Any, np.ndarray]:
    """A model with Llama 3's angles, and by what they are divided."""
    rope = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    rope["original_max_position_embeddings"] = original
    config = transformers.LlamaConfig(**LLAMA, rope_parameters=rope, tie_word_embeddings=True)
    theirs = Case("llama", "LlamaForCausalLM", lambda: config).build()
    plain = 5e5 ** -(np.arange(0, config.head_dim, 2) / config.head_dim)
    return theirs, (plain / theirs.model.rotary_emb.inv_freq.numpy()).astype(np.float32)


def test_llama_3_divisors(close: Callable[..., None], tmp_path: Path) -> None:
    theirs, divisors = stretched(8192)
    assert divisors.max() > 7
    write_gguf(tmp_path / "model.gguf", theirs, Q.F32, tensors={"rope_freqs.weight": divisors})
    ours = headwise.load(tmp_path / "model.gguf")
    ids = draw(2, 40)
    close(ours(ids), theirs(ids).logits)
    headwise.save(ours, tmp_path / "saved")
    again = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "saved").eval()
    assert again.config.rope_parameters["rope_type"] == "llama3"
    close(again(ids).logits, theirs(ids).logits)


def test_divisors_without_a_name_are_computed_with_and_not_saved(close: Callable[..., None], tmp_path: Path) -> None:
    theirs, divisors = stretched(16)
    write_gguf(tmp_path / "model.gguf", theirs, Q.F32, tensors={"rope_freqs.weight": divisors})
    ours = headwise.load(tmp_path / "model.gguf")
    ids = draw(2, 40)
    close(ours(ids), theirs(ids).logits)
    with pytest.raises(UnsupportedError, match="divided"):
        headwise.save(ours, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


@pytest.mark.parametrize("kind", ["linear", "yarn"])
def test_scalings_of_the_metadata(kind: str, close: Callable[..., None], tmp_path: Path) -> None:
    rope = {"rope_type": kind, "rope_theta": 10000.0, "factor": 4.0}
    if kind == "yarn":
        rope["original_max_position_embeddings"] = 16
    config = transformers.Qwen2Config(**LLAMA, rope_parameters=rope)
    theirs = Case("qwen2", "Qwen2ForCausalLM", lambda: config).build()
    fields: dict[str, Any] = {"rope.scaling.type": kind, "rope.scaling.factor": 4.0}
    if kind == "yarn":
        fields["rope.scaling.original_context_length"] = 16
    write_gguf(tmp_path / "model.gguf", theirs, Q.F32, fields=fields)
    ids = draw(2, 40)
    close(headwise.load(tmp_path / "model.gguf")(ids), theirs(ids).logits)
