"""Tiny random models of the reference library, saved, and opened here as well."""

from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers

import headwise

VOCABULARY = 48
PAD, END, START = 0, 1, 2


class Pair(NamedTuple):
    """The same model, there and here."""

    theirs: Any
    ours: Any


SIZES: dict[str, dict[str, Any]] = {
    "T5": {"d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0},
    "Bart": {},
    "Marian": {},
    "Pegasus": {},
    "GPT2": {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "Llama": {
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    },
}
BOTH = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 64,
    "dropout": 0.0,
    "scale_embedding": True,
}
CLASSES = {
    "T5": "T5ForConditionalGeneration",
    "Bart": "BartForConditionalGeneration",
    "Marian": "MarianMTModel",
    "Pegasus": "PegasusForConditionalGeneration",
    "GPT2": "GPT2LMHeadModel",
    "Llama": "LlamaForCausalLM",
}
LOUD = {"T5": 3.0, "Bart": 6.0, "Marian": 5.0, "Pegasus": 5.0, "GPT2": 1.5, "Llama": 2.0}
ENCODER_DECODERS = ("T5", "Bart", "Marian", "Pegasus")
DECODERS = ("GPT2", "Llama")


def make(name: str, directory: Path, seed: int = 0) -> Pair:
    """Weights wide enough that the scores differ clearly."""
    sizes = SIZES[name] or BOTH
    ids = {"pad_token_id": PAD, "eos_token_id": END, "bos_token_id": START}
    if name in ENCODER_DECODERS:
        ids |= {"decoder_start_token_id": START, "forced_eos_token_id": None}
    config = getattr(transformers, f"{name}Config")(vocab_size=VOCABULARY, **sizes, **ids)
    torch.manual_seed(seed)
    theirs = getattr(transformers, CLASSES[name])(config).eval()
    with torch.no_grad():
        for called, parameter in theirs.named_parameters():
            # Marian and Pegasus have sines there, and nothing else may stand there.
            if parameter.ndim > 1 and not (sizes is BOTH and name != "Bart" and "embed_positions" in called):
                parameter.normal_(0, 0.4 if "shared" in called or "embed" in called or "wte" in called else 0.9)
        # An end token that comes now and then.
        if hasattr(theirs, "final_logits_bias"):
            theirs.final_logits_bias[0, END] = LOUD[name]
        else:
            theirs.get_output_embeddings().weight[END] *= LOUD[name]
    theirs.generation_config = transformers.GenerationConfig(**{k: v for k, v in ids.items() if v is not None})
    theirs.save_pretrained(directory)
    return Pair(theirs, headwise.load(directory))


def rows(seed: int, lengths: tuple[int, ...]) -> list[list[int]]:
    """Random ids that are neither filling nor an end."""
    drawn = torch.Generator().manual_seed(seed)
    return [torch.randint(3, VOCABULARY, (length,), generator=drawn).tolist() for length in lengths]
