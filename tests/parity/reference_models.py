"""Tiny random models of the reference library: all twelve architectures, several configurations each."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import transformers
from torch import Tensor

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

VOCABULARY = 61


class Case(NamedTuple):
    """One configuration of one architecture."""

    name: str
    model: str
    """The class of the reference library, without its ending for the kind of configuration."""
    config: Callable[[], Any]

    @property
    def architecture(self) -> str:
        return self.name.split("-")[0]

    def build(self) -> Any:
        """The model, with every number drawn: no norm is one and no bias is nought."""
        config = self.config()
        config._attn_implementation = "eager"
        torch.manual_seed(len(self.name))
        model = getattr(transformers, self.model)(config).eval()
        generator = torch.Generator().manual_seed(7)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if not parameter.requires_grad or ("embed_positions" in name and self.architecture != "bart"):
                    continue  # sines and cosines
                drawn = torch.randn(parameter.shape, generator=generator)
                is_norm = parameter.ndim == 1 and name.endswith("weight")
                parameter.copy_(1 + 0.3 * drawn if is_norm else 0.2 * drawn)
            if hasattr(model, "final_logits_bias"):
                model.final_logits_bias.copy_(torch.randn(model.final_logits_bias.shape, generator=generator))
        return model


def _encoder(**changes: Any) -> dict[str, Any]:
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4}
    return {**sizes, "intermediate_size": 37, "max_position_embeddings": 50, "pad_token_id": 0, **changes}


def _distilbert(**changes: Any) -> dict[str, Any]:
    sizes = {"vocab_size": VOCABULARY, "dim": 24, "n_layers": 2, "n_heads": 3, "hidden_dim": 41}
    return {**sizes, "max_position_embeddings": 50, **changes}


def _gpt2(**changes: Any) -> dict[str, Any]:
    sizes = {"vocab_size": VOCABULARY, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_positions": 50}
    return {**sizes, "bos_token_id": 1, "eos_token_id": 2, **changes}


def _llama(**changes: Any) -> dict[str, Any]:
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4}
    more = {"num_key_value_heads": 2, "intermediate_size": 37, "max_position_embeddings": 64, "bos_token_id": 1}
    return {**sizes, **more, "eos_token_id": 2, **changes}


def _rope(**fields: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_theta": 300.0, **fields}, "max_position_embeddings": 8}


def _t5(**changes: Any) -> dict[str, Any]:
    sizes = {"vocab_size": VOCABULARY, "d_model": 24, "d_kv": 5, "d_ff": 37, "num_layers": 2, "num_decoder_layers": 3}
    more = {"num_heads": 4, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12}
    return {**sizes, **more, **changes}


def _bart(**changes: Any) -> dict[str, Any]:
    sizes = {"vocab_size": VOCABULARY, "d_model": 24, "encoder_layers": 2, "decoder_layers": 3, "encoder_ffn_dim": 37}
    heads = {"decoder_ffn_dim": 29, "encoder_attention_heads": 4, "decoder_attention_heads": 2}
    ids = {"pad_token_id": 1, "decoder_start_token_id": 2, "eos_token_id": 2, "forced_eos_token_id": 2}
    return {**sizes, **heads, **ids, "max_position_embeddings": 50, **changes}


def _case(name: str, model: str, make: Callable[..., dict[str, Any]], **changes: Any) -> Case:
    configs = {"gpt2": "GPT2", "distilbert": "DistilBert", "t5": "T5"}
    architecture = name.split("-")[0]
    config = configs.get(architecture, architecture.capitalize()) + "Config"
    return Case(name, model, lambda: getattr(transformers, config)(**make(**changes)))


ENCODERS = [
    _case("bert-masked", "BertForMaskedLM", _encoder),
    _case("bert-body-odd", "BertModel", _encoder, hidden_size=21, num_attention_heads=3, hidden_act="relu"),
    _case("bert-untied", "BertForMaskedLM", _encoder, tie_word_embeddings=False, type_vocab_size=3),
    _case("bert-pretraining", "BertForPreTraining", _encoder, hidden_act="gelu_new", layer_norm_eps=1e-5),
    _case("roberta-masked", "RobertaForMaskedLM", _encoder, pad_token_id=1, type_vocab_size=1),
    _case("roberta-body-padding5", "RobertaModel", _encoder, pad_token_id=5, num_attention_heads=2),
    _case("distilbert-masked", "DistilBertForMaskedLM", _distilbert),
    _case("distilbert-body", "DistilBertModel", _distilbert, activation="relu", dim=27),
]
DECODERS = [
    _case("gpt2-tied", "GPT2LMHeadModel", _gpt2),
    _case("gpt2-untied", "GPT2LMHeadModel", _gpt2, tie_word_embeddings=False, n_inner=31, activation_function="gelu"),
    _case("gpt2-scales", "GPT2LMHeadModel", _gpt2, scale_attn_by_inverse_layer_idx=True, n_embd=21, n_head=3),
    _case("gpt2-unscaled", "GPT2LMHeadModel", _gpt2, scale_attn_weights=False, activation_function="silu"),
    _case("llama-grouped", "LlamaForCausalLM", _llama),
    _case("llama-smollm2", "LlamaForCausalLM", _llama, tie_word_embeddings=True, num_attention_heads=9,
          num_key_value_heads=3, hidden_size=36, rms_norm_eps=1e-5),
    _case("llama-biases", "LlamaForCausalLM", _llama, attention_bias=True, mlp_bias=True, num_key_value_heads=1),
    _case("llama-wide", "LlamaForCausalLM", _llama, head_dim=10, num_key_value_heads=4, hidden_act="gelu"),
    _case("llama-linear", "LlamaForCausalLM", _llama, **_rope(rope_type="linear", factor=3.0)),
    _case("llama-dynamic", "LlamaForCausalLM", _llama, **_rope(rope_type="dynamic", factor=2.0)),
    _case("llama-llama3", "LlamaForCausalLM", _llama, hidden_size=64, **_rope(rope_type="llama3", factor=8.0,
          low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)),
    _case("llama-yarn", "LlamaForCausalLM", _llama, hidden_size=64, **_rope(rope_type="yarn", factor=4.0,
          original_max_position_embeddings=8, beta_fast=2.0, beta_slow=0.1)),
    _case("llama-yarn-factor", "LlamaForCausalLM", _llama, **_rope(rope_type="yarn", factor=2.0, truncate=False,
          original_max_position_embeddings=8, attention_factor=0.8)),
    _case("mistral-window", "MistralForCausalLM", _llama, sliding_window=5),
    _case("mistral-window1", "MistralForCausalLM", _llama, sliding_window=1, tie_word_embeddings=True),
    _case("mistral-whole", "MistralForCausalLM", _llama, sliding_window=None, head_dim=8),
    _case("qwen2-biases", "Qwen2ForCausalLM", _llama),
    _case("qwen2-windows", "Qwen2ForCausalLM", _llama, use_sliding_window=True, sliding_window=6, max_window_layers=1,
          tie_word_embeddings=True),
    _case("qwen3-norms", "Qwen3ForCausalLM", _llama, head_dim=10),
    _case("qwen3-windows", "Qwen3ForCausalLM", _llama, head_dim=8, use_sliding_window=True, sliding_window=4,
          layer_types=["sliding_attention", "full_attention", "sliding_attention"], attention_bias=True,
          tie_word_embeddings=True),
]  # fmt: skip
BOTH = [
    _case("t5-plain", "T5ForConditionalGeneration", _t5),
    _case("t5-gated-untied", "T5ForConditionalGeneration", _t5, feed_forward_proj="gated-gelu",
          tie_word_embeddings=False),
    _case("t5-silu", "T5ForConditionalGeneration", _t5, feed_forward_proj="gated-silu", num_heads=3),
    _case("bart-plain", "BartForConditionalGeneration", _bart),
    _case("bart-scaled", "BartForConditionalGeneration", _bart, scale_embedding=True, activation_function="relu"),
    _case("marian-swish", "MarianMTModel", _bart, scale_embedding=True, activation_function="swish"),
    _case("marian-odd", "MarianMTModel", _bart, d_model=21, encoder_attention_heads=3, decoder_attention_heads=7),
    _case("pegasus-relu", "PegasusForConditionalGeneration", _bart, scale_embedding=True, activation_function="relu"),
    _case("pegasus-gelu", "PegasusForConditionalGeneration", _bart, d_model=20),
]  # fmt: skip


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Ids of ordinary tokens."""
    return torch.randint(6, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def rectangle(rows: list[Tensor], left: bool) -> tuple[Tensor, Tensor]:
    """Rows of different length as one batch, and its padding; what fills it is an ordinary token too."""
    longest = max(map(len, rows))
    ids = draw(len(rows), longest, seed=99)
    padding = torch.zeros(len(rows), longest, dtype=torch.bool)
    for number, row in enumerate(rows):
        place = slice(longest - len(row), longest) if left else slice(0, len(row))
        ids[number, place], padding[number, place] = row, True
    return ids, padding
