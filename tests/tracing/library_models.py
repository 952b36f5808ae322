"""Tiny random models of the transformers library, of families that we have and of some that we do not."""

from collections.abc import Callable
from typing import Any

import torch
import transformers as library

library.logging.set_verbosity_error()

IDS = torch.randint(5, 90, (2, 11), generator=torch.Generator().manual_seed(3))
RIGHT = torch.ones(2, 11, dtype=torch.long)
RIGHT[1, 7:] = 0
LEFT = RIGHT.flip(1)
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 100,
}
PAIR: dict[str, Any] = {
    "vocab_size": 100,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
}
GROUPED = {**SIZES, "num_key_value_heads": 2}
IMAGE = {key: value for key, value in SIZES.items() if key != "vocab_size"} | {"image_size": 32, "patch_size": 8}
SOUND = {"num_mel_bins": 8, "max_source_positions": 20, "max_target_positions": 20, "pad_token_id": 0}
SOUND |= {"bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
T5 = {"vocab_size": 100, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}

MAKERS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "bert": (lambda: library.BertModel(library.BertConfig(**SIZES)), {"input_ids": IDS, "attention_mask": RIGHT}),
    "gpt_neox": (
        lambda: library.GPTNeoXForCausalLM(library.GPTNeoXConfig(**SIZES)),
        {"input_ids": IDS, "attention_mask": LEFT},
    ),
    "gpt2": (
        lambda: library.GPT2LMHeadModel(library.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=100)),
        {"input_ids": IDS},
    ),
    "llama": (lambda: library.LlamaForCausalLM(library.LlamaConfig(**GROUPED)), {"input_ids": IDS}),
    "mistral": (
        lambda: library.MistralForCausalLM(library.MistralConfig(**GROUPED, sliding_window=4)),
        {"input_ids": IDS},
    ),
    "albert": (
        lambda: library.AlbertModel(library.AlbertConfig(**SIZES, embedding_size=16)),
        {"input_ids": IDS, "attention_mask": RIGHT},
    ),
    "vit": (
        lambda: library.ViTModel(library.ViTConfig(**IMAGE)),
        {"pixel_values": torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(4))},
    ),
    "bart": (
        lambda: library.BartForConditionalGeneration(library.BartConfig(**PAIR)),
        {"input_ids": IDS, "attention_mask": RIGHT, "decoder_input_ids": IDS[:, :6]},
    ),
    "t5": (
        lambda: library.T5ForConditionalGeneration(library.T5Config(**T5, decoder_start_token_id=0)),
        {"input_ids": IDS, "attention_mask": RIGHT, "decoder_input_ids": IDS[:, :6]},
    ),
    "whisper": (
        lambda: library.WhisperForConditionalGeneration(library.WhisperConfig(**PAIR, **SOUND)),
        {
            "input_features": torch.randn(2, 8, 40, generator=torch.Generator().manual_seed(4)),
            "decoder_input_ids": IDS[:, :6],
        },
    ),
}


def make(name: str, kernel: str = "sdpa", seed: int = 0) -> tuple[Any, dict[str, Any]]:
    """A model with weights large enough that heads differ, and what it is called with."""
    torch.manual_seed(seed)
    build, inputs = MAKERS[name]
    model = build().eval()
    model.set_attn_implementation(kernel)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.3)
    return model, inputs
