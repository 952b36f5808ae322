"""Tiny models of each family as we save them, and one as a GGUF file."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from checkpoint_files import gguf_bytes

import headwise
from headwise import ModelConfig, Positions, StackConfig, presets
from headwise.transformer.model import Model, build

WORDS, DIM = 20, 8
_BASE = StackConfig(layers=1, dim=DIM, heads=2, hidden=12, causal=True)
_LEARNED = Positions(kind="learned", count=16)
_LLAMA = replace(
    _BASE, norm="rms", gated=True, activation="silu", attention_bias=False, output_bias=False, feedforward_bias=False
)
_T5 = replace(_LLAMA, positions=Positions(kind="buckets", buckets=8, farthest=20), scale=1.0, activation="relu")
_BERT = replace(_BASE, causal=False, norm_place="post", embedding_norm=True, final_norm=False, positions=_LEARNED)


def _both(stack: StackConfig, **more: object) -> ModelConfig:
    decoder = replace(stack, causal=True, cross=True)
    return ModelConfig(vocabulary=WORDS, encoder=replace(stack, causal=False), decoder=decoder, **more)  # type: ignore[arg-type]


CONFIGS: dict[str, ModelConfig] = {
    "bert": ModelConfig(vocabulary=WORDS, encoder=_BERT, head="masked", token_types=2),
    "gpt2": ModelConfig(vocabulary=WORDS, decoder=replace(_BASE, positions=_LEARNED, activation="gelu_tanh")),
    "llama": ModelConfig(vocabulary=WORDS, decoder=replace(_LLAMA, positions=Positions(kind="rotary")), tied=False),
    "t5": _both(replace(_T5, gated=False), head_scale=DIM**-0.5),
    "marian": replace(
        presets["transformer-small"],
        vocabulary=WORDS,
        encoder=replace(presets["transformer-small"].stacks["encoder"], layers=1, dim=DIM, heads=2, hidden=12,
                        embedding_scale=DIM**0.5),
        decoder=replace(presets["transformer-small"].stacks["decoder"], layers=1, dim=DIM, heads=2, hidden=12,
                        embedding_scale=DIM**0.5),
    ),
}  # fmt: skip


def saved(family: str, directory: Path) -> Path:
    torch.manual_seed(0)
    return headwise.save(build(CONFIGS[family]), directory)


def run(model: Model) -> torch.Tensor:
    """What the model says of three words."""
    ids = torch.tensor([[3, 1, 2]])
    with torch.no_grad():
        return model(ids, ids) if isinstance(model, headwise.EncoderDecoder) else model(ids)


def llama_gguf() -> bytes:
    """One layer, matrices in Q8_0 blocks."""
    rng = np.random.default_rng(0)
    metadata = {
        "general.architecture": "llama",
        "llama.block_count": ("u32", 1),
        "llama.context_length": ("u32", 64),
        "llama.embedding_length": ("u32", 32),
        "llama.feed_forward_length": ("u32", 32),
        "llama.attention.head_count": ("u32", 4),
        "llama.attention.head_count_kv": ("u32", 2),
        "llama.attention.layer_norm_rms_epsilon": ("f32", 1e-5),
        "llama.rope.freq_base": ("f32", 10000.0),
    }
    sizes = {"attn_q": 32, "attn_k": 16, "attn_v": 16, "attn_output": 32, "ffn_gate": 32, "ffn_up": 32, "ffn_down": 32}

    def blocks(rows: int) -> tuple[tuple[int, ...], int, bytes]:
        block = np.zeros(rows, dtype=[("scale", "<f2"), ("values", "i1", 32)])
        block["scale"], block["values"] = 0.01, rng.integers(-50, 50, (rows, 32))
        return (32, rows), 8, block.tobytes()

    ones = np.ones(32, dtype=np.float32).tobytes()
    tensors = {"token_embd.weight": blocks(WORDS), "output_norm.weight": ((32,), 0, ones)}
    tensors |= {f"blk.0.{name}.weight": ((32,), 0, ones) for name in ("attn_norm", "ffn_norm")}
    tensors |= {f"blk.0.{name}.weight": blocks(rows) for name, rows in sizes.items()}
    return gguf_bytes(metadata, tensors)
