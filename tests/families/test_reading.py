"""Configurations are read strictly: each wrong field is named, and none that changes the result is passed over."""

from collections.abc import Callable
from typing import Any

import pytest

from headwise.errors import CheckpointError, HeadwiseError, UnsupportedError
from headwise.families import architectures, read_config, read_gguf_config, settle, write_config

BERT = {"model_type": "bert", "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
BERT |= {"intermediate_size": 16, "max_position_embeddings": 16}
GPT2 = {"model_type": "gpt2", "vocab_size": 20, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 16}
LLAMA = {**BERT, "model_type": "llama", "max_position_embeddings": 64}
T5 = {"model_type": "t5", "vocab_size": 20, "d_model": 8, "d_kv": 4, "d_ff": 16, "num_layers": 1, "num_heads": 2}
BART = {"model_type": "bart", "vocab_size": 20, "d_model": 8, "encoder_layers": 1, "decoder_layers": 2}
BART |= {f"{name}_{field}": 2 for name in ("encoder", "decoder") for field in ("attention_heads", "ffn_dim")}
ALL = {"bert": BERT, "gpt2": GPT2, "llama": LLAMA, "t5": T5, "bart": BART}
HEADS = {"bert": "num_attention_heads", "gpt2": "n_head", "llama": "num_attention_heads", "t5": "num_heads",
         "bart": "encoder_attention_heads"}  # fmt: skip


def refused(raw: dict[str, Any], kind: type[HeadwiseError] = CheckpointError) -> str:
    with pytest.raises(kind) as error:
        read_config(raw, "config.json")
    message = str(error.value)
    assert message.startswith("config.json: ")
    assert "\n" not in message
    assert len(message) < 1000
    return message


def cycle() -> dict[str, Any]:
    inner: dict[str, Any] = {}
    inner["again"] = inner
    return inner


ODD: list[Any] = [-1, 0, 1 << 25, 10**5000, 1.5, float("nan"), float("inf"), True, "8", [8], {"a": 8}, [], {}, cycle()]


def test_twelve_architectures() -> None:
    assert len(architectures()) == 12


@pytest.mark.parametrize("family", ALL)
@pytest.mark.parametrize("odd", range(len(ODD)))
def test_wrong_sizes_are_named(family: str, odd: int) -> None:
    assert read_config(ALL[family], "config.json").family == family
    for field in ("vocab_size", HEADS[family]):
        assert f"config.json: {field}: got " in refused(ALL[family] | {field: ODD[odd]})


@pytest.mark.parametrize("family", ALL)
def test_a_field_that_must_be_there(family: str) -> None:
    raw = {name: value for name, value in ALL[family].items() if name != HEADS[family]}
    assert f"{HEADS[family]}: got nothing, wanted a whole number" in refused(raw)


@pytest.mark.parametrize("family", ALL)
@pytest.mark.parametrize("value", [7, "x", [1], {"a": 1}, True, 0.5])
def test_an_unknown_field_is_named(family: str, value: Any) -> None:
    assert "config.json: softcapping: unknown field" in refused(ALL[family] | {"softcapping": value})


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}])
def test_an_empty_unknown_field_changes_nothing(value: Any) -> None:
    assert read_config(LLAMA | {"softcapping": value}, "config.json").layers == 1


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (BERT | {"is_decoder": True}, "is_decoder: got True"),
        (BERT | {"position_embedding_type": "relative_key"}, "position_embedding_type"),
        (BERT | {"pruned_heads": {"0": [1]}}, "pruned_heads"),
        (BERT | {"num_attention_heads": 3}, "3 heads do not divide the dimension 8"),
        (BERT | {"hidden_act": "mish"}, "hidden_act: got 'mish', wanted one of gelu"),
        (BERT | {"hidden_dropout_prob": 1.0}, "hidden_dropout_prob: got 1.0"),
        (BERT | {"pad_token_id": "0"}, "pad_token_id: got '0'"),
        (BERT | {"model_type": "roberta", "max_position_embeddings": 2, "pad_token_id": 1}, "max_position_embeddings"),
        (GPT2 | {"add_cross_attention": True}, "add_cross_attention"),
        (LLAMA | {"num_key_value_heads": 3}, "3 key-value heads do not divide 2 heads"),
        (LLAMA | {"head_dim": 3}, "heads of 3 cannot be turned"),
        (LLAMA | {"quantization_config": {"bits": 4}}, "quantization_config"),
        (LLAMA | {"rope_interleaved": True}, "rope_interleaved"),
        (LLAMA | {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        (LLAMA | {"rope_theta": 1}, "rope_theta"),
        (LLAMA | {"rope_theta": 10**400}, "rope_theta: got an enormous number"),
        (LLAMA | {"rope_scaling": {"type": "longrope"}}, "rope_type: got 'longrope', wanted one of default, linear"),
        (LLAMA | {"rope_scaling": {"type": "linear"}}, "factor: got nothing"),
        (LLAMA | {"rope_scaling": {"type": "linear", "factor": 0}}, "factor: got 0"),
        (LLAMA | {"rope_scaling": {"type": "linear", "factor": 2, "strange": 3}}, "strange: unknown field"),
        (LLAMA | {"rope_scaling": {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 4, "high_freq_factor": 1}},
         "wanted them to rise"),
        (LLAMA | {"rope_scaling": [1]}, "rope_scaling: got [1], wanted an object"),
        (LLAMA | {"rope_scaling": cycle()}, "again: unknown field"),
        (LLAMA | {"rope_scaling": {"factor": 2.0}, "rope_parameters": {"factor": 3.0}}, "contradicts rope_parameters"),
        (LLAMA | {"model_type": "mistral", "sliding_window": -4}, "sliding_window"),
        (LLAMA | {"model_type": "mistral", "sliding_window": 4, "layer_types": ["full_attention"]}, "layer_types"),
        (LLAMA | {"model_type": "qwen2", "layer_types": [["sliding_attention"]]}, "layer_types"),
        (LLAMA | {"model_type": "qwen2", "layer_types": ["full_attention"] * 2}, "layer_types: wanted 1 times"),
        (LLAMA | {"num_attention_heads": 2, "hidden_size": 4, "rope_scaling": {"type": "dynamic", "factor": 2.0}},
         "dynamic scaling wants 4 dimensions"),
        (T5 | {"relative_attention_num_buckets": 3}, "relative_attention_num_buckets"),
        (T5 | {"relative_attention_max_distance": 10}, "relative_attention_num_buckets"),
        (T5 | {"feed_forward_proj": "gated-mish"}, "feed_forward_proj"),
        (T5 | {"is_encoder_decoder": False}, "is_encoder_decoder"),
        (BART | {"normalize_before": True}, "normalize_before"),
        (BART | {"model_type": "marian", "decoder_vocab_size": 30}, "decoder_vocab_size: got 30, wanted 20"),
        (BART | {"model_type": "marian", "share_encoder_decoder_embeddings": False}, "share_encoder_decoder"),
        (BART | {"tie_word_embeddings": False}, "tie_word_embeddings"),
    ],
)  # fmt: skip
def test_what_would_change_the_result_is_refused(raw: dict[str, Any], message: str) -> None:
    assert message in refused(raw)


@pytest.mark.parametrize("kind", [None, 7, ["llama"], {"a": 1}, "", "x" * 10_000, "mamba", "LLAMA"])
def test_other_architectures_are_refused_with_the_list(kind: Any) -> None:
    assert "supported are bert, roberta, distilbert, gpt2, llama" in refused(
        LLAMA | {"model_type": kind}, UnsupportedError
    )


@pytest.mark.parametrize("listed", [["GemmaForCausalLM"], [7], [["LlamaModel"]], ["LlamaForCausalLM" * 999]])
def test_other_classes_are_refused_with_the_list(listed: list[Any]) -> None:
    message = refused(LLAMA | {"architectures": listed}, UnsupportedError)
    assert message.endswith("is not one of LlamaForCausalLM, LlamaModel")


# Files of models in wide use, as far as they say something unusual.
IN_USE: dict[str, tuple[dict[str, Any], Callable[[Any], bool]]] = {
    "bert": (BERT | {"gradient_checkpointing": False, "position_embedding_type": "absolute", "use_cache": True,
                     "architectures": ["BertForMaskedLM"], "type_vocab_size": 2}, lambda c: c.head == "masked"),
    "distilbert": ({"model_type": "distilbert", "vocab_size": 20, "dim": 8, "n_layers": 1, "n_heads": 2,
                    "hidden_dim": 16, "max_position_embeddings": 16, "tie_weights_": True, "qa_dropout": 0.1,
                    "sinusoidal_pos_embds": False, "seq_classif_dropout": 0.2}, lambda c: c.tied),
    "gpt2": (GPT2 | {"n_ctx": 16, "summary_type": "cls_index", "summary_use_proj": True, "embd_pdrop": 0.2,
                     "task_specific_params": {"text-generation": {"max_length": 50}}},
             lambda c: c.decoder.embedding_dropout == 0.2),
    "smollm2": (LLAMA | {"is_llama_config": True, "rope_interleaved": False, "pretraining_tp": 1,
                         "rope_scaling": None, "transformers.js_config": {"dtype": "q4"}, "rope_theta": 100000},
                lambda c: c.decoder.positions.base == 1e5),
    "qwen2": (LLAMA | {"model_type": "qwen2", "use_sliding_window": False, "sliding_window": 32, "use_mrope": False,
                       "max_window_layers": 21}, lambda c: c.decoder.windows == () and c.decoder.attention_bias),
    "flan-t5": (T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "n_positions": 512,
                      "dense_act_fn": "gelu_new", "is_gated_act": True, "output_past": True},
                lambda c: c.decoder.gated and c.head_scale == 1.0),
    "bart": (BART | {"add_bias_logits": False, "add_final_layer_norm": False, "extra_pos_embeddings": 2,
                     "normalize_before": False, "normalize_embedding": True, "static_position_embeddings": False,
                     "force_bos_token_to_be_generated": True, "_num_labels": 3, "num_hidden_layers": 12,
                     "activation_dropout": 0.1}, lambda c: c.decoder.activation_dropout == 0.1),
    "pegasus": (BART | {"model_type": "pegasus", "add_final_layer_norm": True, "normalize_before": True,
                        "normalize_embedding": False, "static_position_embeddings": True, "scale_embedding": True},
                lambda c: c.decoder.norm_place == "pre" and c.decoder.embedding_scale == 8**0.5),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_USE)
def test_files_in_use(name: str) -> None:
    raw, holds = IN_USE[name]
    config = read_config(raw, "config.json")
    assert holds(config)
    again = write_config(settle(config))
    assert {key: again[key] for key in raw if key not in ("rope_scaling", "position_embedding_type")} == {
        key: value for key, value in raw.items() if key not in ("rope_scaling", "position_embedding_type")
    } | {key: again[key] for key in ("architectures", "sliding_window", "decoder_ffn_dim") if key in raw}


def test_yarn_takes_its_factor_from_the_lengths() -> None:
    raw = LLAMA | {"rope_scaling": {"rope_type": "yarn", "original_max_position_embeddings": 16}}
    stack = read_config(raw, "config.json").decoder
    assert stack is not None
    assert stack.positions.scaling is not None
    assert stack.positions.scaling.factor == 4.0


GGUF = {"general.architecture": "llama", "llama.block_count": 1, "llama.embedding_length": 8}
GGUF |= {"llama.feed_forward_length": 16, "llama.attention.head_count": 2, "llama.context_length": 32}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"llama.block_count": -1}, "llama.block_count: got -1"),
        ({"llama.attention.head_count": [2, 2]}, "llama.attention.head_count"),
        ({"llama.attention.sliding_window": 7}, "llama.attention.sliding_window: unknown field"),
        ({"llama.expert_count": 8}, "llama.expert_count: unknown field"),
        ({"llama.rope.dimension_count": 2}, "llama.rope.dimension_count: got 2, wanted 4"),
        ({"llama.rope.scaling.type": "longrope"}, "llama.rope.scaling.type: got 'longrope'"),
        ({"llama.attention.value_length": 6}, "llama.attention.value_length"),
        ({"llama.vocab_size": 21}, "llama.vocab_size: got 21, wanted 20"),
        ({"tokenizer.ggml.eos_token_id": "x"}, "tokenizer.ggml.eos_token_id"),
        ({"llama.embedding_length": 16}, "token_embd.weight: got the shape [20, 8], wanted [?, 16]"),
    ],
)
def test_metadata_of_gguf(fields: dict[str, Any], message: str) -> None:
    shapes = {"token_embd.weight": (20, 8)}
    assert read_gguf_config(GGUF, "a.gguf", shapes).vocabulary == 20
    with pytest.raises(CheckpointError, match=r"a\.gguf: ") as error:
        read_gguf_config(GGUF | fields, "a.gguf", shapes)
    assert message in str(error.value)
