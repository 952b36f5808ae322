"""A fixed budget of damaged files for every reader: what comes out is a result, or a clean error of one line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizer_makers as make
from checkpoint_files import gguf_bytes, safetensors_bytes
from hypothesis import given, settings
from hypothesis import strategies as draw
from mutations import damaged, damaged_json

from headwise.checkpoints.describe import describe
from headwise.checkpoints.gguf import open_gguf
from headwise.checkpoints.safetensors import open_safetensors
from headwise.checkpoints.tensors import TensorFile
from headwise.checkpoints.tokenizer import open_tokenizer
from headwise.errors import HeadwiseError
from headwise.families import read_config

BUDGET = settings(max_examples=400, deadline=None, derandomize=True)

PLAIN = safetensors_bytes(
    {"a": np.ones((2, 3), np.float32), "b.weight": np.ones(4, np.float16), "n": np.ones((1, 2), np.int64)},
    {"format": "pt"},
)
LLAMA = {
    "general.architecture": "llama",
    "llama.block_count": ("u32", 1),
    "llama.context_length": ("u32", 64),
    "llama.embedding_length": ("u32", 32),
    "llama.feed_forward_length": ("u32", 64),
    "llama.attention.head_count": ("u32", 4),
    "llama.attention.head_count_kv": ("u32", 2),
    "llama.attention.layer_norm_rms_epsilon": ("f32", 1e-5),
    "llama.rope.freq_base": ("f32", 10000.0),
    "general.alignment": ("u32", 32),
    "words": ["one", "two"],
}
GGUF = gguf_bytes(
    LLAMA,
    {"token_embd.weight": ((32, 8), 8, bytes(34 * 8)), "x.weight": ((4, 2), 0, bytes(32)), "y": ((32,), 2, bytes(18))},
)
CONFIGS: dict[str, dict[str, Any]] = {
    "bert": {"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 8, "num_attention_heads": 2,
             "num_hidden_layers": 1, "intermediate_size": 16, "vocab_size": 20, "max_position_embeddings": 16,
             "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "pad_token_id": 0},
    "gpt2": {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 8, "n_head": 2, "n_layer": 1,
             "n_positions": 16, "vocab_size": 20, "activation_function": "gelu_new", "eos_token_id": 3},
    "llama": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8, "num_attention_heads": 2,
              "num_key_value_heads": 1, "num_hidden_layers": 1, "intermediate_size": 16, "vocab_size": 20,
              "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 1e4, "eos_token_id": [1, 2],
              "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                               "original_max_position_embeddings": 32}},
    "t5": {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 8, "d_kv": 4, "d_ff": 16,
           "num_heads": 2, "num_layers": 1, "vocab_size": 20, "relative_attention_num_buckets": 8,
           "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "decoder_start_token_id": 0},
    "bart": {"model_type": "bart", "architectures": ["BartForConditionalGeneration"], "d_model": 8,
             "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
             "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "vocab_size": 20, "max_position_embeddings": 16},
}  # fmt: skip
TOKENIZERS: dict[str, dict[str, Any]] = {
    name: json.loads(getattr(make, name)().to_str()) for name in ("byte_level", "word_pieces", "unigram")
}
SETTINGS = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "[CLS]",
    "eos_token": {"content": "[SEP]", "lstrip": False},
    "added_tokens_decoder": {"0": {"content": "[PAD]", "special": True}},
    "chat_template": [{"name": "default", "template": "{{ messages }}"}],
    "add_bos_token": True,
}


def told_by(use: Callable[[], object]) -> str:
    """The message of our error, or "nothing"; any other error goes on."""
    try:
        use()
    except HeadwiseError as error:
        return str(error)
    return "nothing"


def is_one_line(told: str) -> bool:
    return 0 < len(told) < 2000 and "\n" not in told


def read_all(file: TensorFile) -> int:
    return sum(file.read(name).numel() for name in file.names())


def written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def use_tokenizer(path: Path) -> None:
    tokenizer = open_tokenizer(path)
    encoded = tokenizer.annotate("The 12 foxes\n don't [MASK] <s> 日本 🛸")
    tokenizer.tokens(encoded.ids)
    tokenizer.decode(encoded.ids)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def test_the_undamaged_files_are_read(folder: Path) -> None:
    assert read_all(open_safetensors(written(folder, "whole.safetensors", PLAIN))) == 12
    whole = written(folder, "whole.gguf", GGUF)
    assert read_all(open_gguf(whole)) == 296
    assert describe(whole).config.layers == 1
    for name, config in CONFIGS.items():
        assert read_config(config, "config.json").family == name
    for name, content in TOKENIZERS.items():
        (folder / name).mkdir()
        use_tokenizer(written(folder / name, "tokenizer.json", json.dumps(content).encode()).parent)


@BUDGET
@given(content=damaged(PLAIN))
def test_safetensors(folder: Path, content: bytes) -> None:
    path = written(folder, "a.safetensors", content)
    assert is_one_line(told_by(lambda: read_all(open_safetensors(path))))


@BUDGET
@given(content=damaged_json(json.loads(PLAIN[8 : 8 + PLAIN[0]])))
def test_headers_of_safetensors(folder: Path, content: bytes) -> None:
    path = written(folder, "a.safetensors", len(content).to_bytes(8, "little") + content + PLAIN[8 + PLAIN[0] :])
    assert is_one_line(told_by(lambda: read_all(open_safetensors(path))))


@BUDGET
@given(
    content=damaged_json(
        {"metadata": {"total_size": 48}, "weight_map": {"a": "one.safetensors", "b": "one.safetensors"}}
    )
)
def test_indexes_of_shards(folder: Path, content: bytes) -> None:
    written(folder, "one.safetensors", safetensors_bytes({"a": np.ones(2, np.float32), "b": np.ones(2, np.float32)}))
    path = written(folder, "model.safetensors.index.json", content)
    assert is_one_line(told_by(lambda: read_all(open_safetensors(path))))


@BUDGET
@given(content=damaged(GGUF))
def test_gguf(folder: Path, content: bytes) -> None:
    path = written(folder, "a.gguf", content)
    assert is_one_line(told_by(lambda: read_all(open_gguf(path))))
    assert is_one_line(told_by(lambda: describe(path)))


@pytest.mark.parametrize("kind", ["bytes", "words"])
@settings(BUDGET, max_examples=150)
@given(data=draw.data())
def test_tokenizers_of_gguf(folder: Path, kind: str, data: draw.DataObject) -> None:
    whole = GGUF_TOKENIZERS[kind]
    content = data.draw(damaged(whole))
    path = written(folder, "b.gguf", content)
    assert is_one_line(told_by(lambda: use_tokenizer(path)))


GGUF_TOKENIZERS = {"bytes": make.gguf_byte_level("llama-bpe"), "words": make.gguf_marked_words()}


@pytest.mark.parametrize("kind", TOKENIZERS)
@settings(BUDGET, max_examples=150)
@given(data=draw.data())
def test_tokenizer_json(folder: Path, kind: str, data: draw.DataObject) -> None:
    content = data.draw(damaged_json(TOKENIZERS[kind]) | damaged(json.dumps(TOKENIZERS[kind]).encode()))
    home = folder / "json"
    home.mkdir(exist_ok=True)
    written(home, "tokenizer.json", content)
    assert is_one_line(told_by(lambda: use_tokenizer(home)))


@BUDGET
@given(content=damaged_json(SETTINGS) | damaged(json.dumps(SETTINGS).encode()))
def test_settings_of_tokenizers(folder: Path, content: bytes) -> None:
    home = folder / "settings"
    if not home.exists():
        make.write_json(home, make.word_pieces())
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        written(home, name, content)
    assert is_one_line(told_by(lambda: use_tokenizer(home)))


@pytest.mark.parametrize("family", CONFIGS)
@settings(BUDGET, max_examples=200)
@given(data=draw.data())
def test_configurations(family: str, data: draw.DataObject) -> None:
    content = json.loads(data.draw(damaged_json(CONFIGS[family])))
    assert is_one_line(told_by(lambda: read_config(content, "config.json")))
