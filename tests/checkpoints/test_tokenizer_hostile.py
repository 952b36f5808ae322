"""Damaged and hostile tokenizers: one line that names the file, never a crash of another kind."""

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizer_makers as make

from headwise.checkpoints import tokenizer_files
from headwise.checkpoints.tokenizer import open_tokenizer
from headwise.errors import TokenizerError


def refused(path: Path, match: str) -> None:
    with pytest.raises(TokenizerError, match=match) as caught:
        open_tokenizer(path)
    told = str(caught.value)
    assert "\n" not in told
    assert str(path if path.suffix == ".gguf" else path.name) in told
    assert len(told) < 900


def gguf(tmp_path: Path, more: dict[str, Any], words: bool = False) -> Path:
    path = tmp_path / "a.gguf"
    path.write_bytes(make.gguf_marked_words(more) if words else make.gguf_byte_level("gpt-2", more))
    return path


KEY = "tokenizer.ggml."
LIES: dict[str, tuple[dict[str, Any], str]] = {
    "unknown kind": ({KEY + "model": "wordpiece9"}, "tokenizer.ggml.model: 'wordpiece9' is not one of gpt2, llama"),
    "kind is a number": ({KEY + "model": ("u32", 3)}, "tokenizer.ggml.model: 3 is not one of"),
    "unknown splitter": (
        {KEY + "pre": "mystery"},
        "tokenizer.ggml.pre: 'mystery' is not one of .*gpt-2.*llama-bpe.*qwen2",
    ),
    "splitter is a number": ({KEY + "pre": ("f32", 0.5)}, "tokenizer.ggml.pre: 0.5 is not one of"),
    "no tokens": ({KEY + "tokens": []}, "tokenizer.ggml.tokens: is missing or empty"),
    "tokens are numbers": ({KEY + "tokens": ("u32", [1, 2])}, "tokenizer.ggml.tokens: must be a list of texts"),
    "tokens are text": ({KEY + "tokens": "abc"}, "tokenizer.ggml.tokens: must be a list of texts"),
    "token twice": ({KEY + "tokens": ["a", "b", "a"]}, "tokenizer.ggml.tokens: the token 'a' occurs twice"),
    "merges are numbers": ({KEY + "merges": ("u32", [1])}, "tokenizer.ggml.merges: must be a list of texts"),
    "merge of one": ({KEY + "merges": ["ab"]}, "tokenizer.ggml.merges: 'ab' is not two tokens"),
    "merge of three": ({KEY + "merges": ["a b c"]}, "tokenizer.ggml.merges: 'a b c' is not two tokens"),
    "merge of strangers": ({KEY + "merges": ["quite strange"]}, "tokenizer.ggml.tokens: .*out of vocabulary"),
    "kinds too few": ({KEY + "token_type": ("i32", [1, 2])}, r"tokenizer.ggml.token_type: must be \d+ numbers"),
    "kinds are text": ({KEY + "token_type": "x"}, r"tokenizer.ggml.token_type: must be \d+ numbers"),
    "begin past the end": ({KEY + "bos_token_id": ("u32", 10**6)}, "bos_token_id: 1000000 is not the id of one of"),
    "end below zero": ({KEY + "eos_token_id": ("i32", -1)}, "eos_token_id: -1 is not the id of one of"),
    "pad is text": ({KEY + "padding_token_id": "x"}, "padding_token_id: 'x' is not the id of one of"),
    "flag is a number": ({KEY + "add_bos_token": ("u32", 1)}, "add_bos_token: must be true or false"),
    "template is a number": ({"tokenizer.chat_template": ("u32", 1)}, "chat_template: must be text"),
}
WORD_LIES: dict[str, tuple[dict[str, Any], str]] = {
    "scores too few": ({KEY + "scores": ("f32", [1.0])}, r"tokenizer.ggml.scores: must be \d+ numbers"),
    "scores are texts": ({KEY + "scores": ["a"]}, r"tokenizer.ggml.scores: must be \d+ numbers"),
    "no scores": ({KEY + "scores": ("f32", [])}, "tokenizer.ggml.scores: must be"),
    "unknown past the end": ({KEY + "unknown_token_id": ("u32", 9999)}, "unknown_token_id: 9999 is not the id"),
    "space flag": ({KEY + "add_space_prefix": "yes"}, "add_space_prefix: must be true or false"),
    "no id to begin with": ({KEY + "bos_token_id": ("f32", 1.5)}, "bos_token_id: 1.5 is not the id"),
}


@pytest.mark.parametrize("name", LIES)
def test_gguf_lies(tmp_path: Path, name: str) -> None:
    more, match = LIES[name]
    refused(gguf(tmp_path, more), match)


@pytest.mark.parametrize("name", WORD_LIES)
def test_gguf_lies_about_words(tmp_path: Path, name: str) -> None:
    more, match = WORD_LIES[name]
    refused(gguf(tmp_path, more, words=True), match)


def test_a_begin_that_is_asked_for_and_not_there(tmp_path: Path) -> None:
    content = make.gguf_marked_words().replace(b"bos_token_id", b"bos_token_xx")
    (tmp_path / "a.gguf").write_bytes(content)
    refused(tmp_path / "a.gguf", "gives no id to begin a text with")


def model(**more: Any) -> dict[str, Any]:
    """A small tokenizer.json as a dictionary, with fields replaced."""
    content = json.loads(make.word_pieces().to_str())
    return content | more


def prefixed(prefix: str) -> str:
    """Merges without the prefix that they are said to have."""
    content = json.loads(make.byte_level().to_str())
    content["model"]["continuing_subword_prefix"] = prefix
    return json.dumps(content)


JSON: dict[str, Callable[[], str | bytes]] = {
    "empty": lambda: "",
    "not json": lambda: "{",
    "a list": lambda: "[]",
    "null": lambda: "null",
    "no model": lambda: "{}",
    "not text": lambda: b"\xff\xfe{}",
    "deep": lambda: "[" * 100_000,
    "long number": lambda: '{"version": ' + "9" * 10_000 + "}",
    "unknown model": lambda: json.dumps(model(model={"type": "Magic"})),
    "model is text": lambda: json.dumps(model(model="BPE")),
    "vocabulary is a list": lambda: json.dumps(model(model={"type": "BPE", "vocab": [1], "merges": []})),
    "ids are text": lambda: json.dumps(model(model={"type": "BPE", "vocab": {"a": "b"}, "merges": []})),
    "ids below zero": lambda: json.dumps(model(model={"type": "BPE", "vocab": {"a": -1}, "merges": []})),
    "merge of strangers": lambda: json.dumps(model(model={"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]})),
    "unknown splitter": lambda: json.dumps(model(pre_tokenizer={"type": "Magic"})),
    "bad pattern": lambda: json.dumps(
        model(pre_tokenizer={"type": "Split", "pattern": {"Regex": "(("}, "behavior": "Isolated", "invert": False})
    ),
    "bad charsmap": lambda: json.dumps(model(normalizer={"type": "Precompiled", "precompiled_charsmap": "////"})),
    "added is a number": lambda: json.dumps(model(added_tokens=7)),
    "unigram without scores": lambda: json.dumps(model(model={"type": "Unigram", "vocab": [["a"]], "unk_id": 0})),
    "unigram without unknown": lambda: json.dumps(model(model={"type": "Unigram", "vocab": [["a", 0]], "unk_id": 5})),
    # The library cuts bytes off unseen here: it aborts the whole process, or makes text of half a character.
    "prefix that is not there": lambda: prefixed("##"),
    "prefix of another length": lambda: prefixed("x" * 1000),
    "processor of strangers": lambda: json.dumps(
        model(post_processor={"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "?", "type_id": 0}}]})
    ),
}


@pytest.mark.parametrize("name", JSON)
def test_tokenizer_json_lies(tmp_path: Path, name: str) -> None:
    content = JSON[name]()
    (tmp_path / "tokenizer.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(tmp_path, "tokenizer.json: ")


def test_tokenizer_json_cut_anywhere(tmp_path: Path) -> None:
    whole = make.word_pieces().to_str().encode()
    for size in range(0, len(whole) - 1, 97):
        (tmp_path / "tokenizer.json").write_bytes(whole[:size])
        refused(tmp_path, "tokenizer.json: ")


@pytest.mark.parametrize(
    "name", ["tokenizer_config.json", "special_tokens_map.json", "config.json", "generation_config.json"]
)
@pytest.mark.parametrize("content", ["", "{", "[]", "7", '{"a": 1, "a": 2}', "[" * 100_000])
def test_small_files_that_are_no_objects(tmp_path: Path, name: str, content: str) -> None:
    make.write_json(tmp_path, make.word_pieces())
    (tmp_path / name).write_text(content)
    refused(tmp_path, rf"{name}: file: ")


ODD: list[dict[str, Any]] = [
    {"bos_token": 7, "eos_token": [1], "pad_token": {"content": 3}, "unk_token": None, "mask_token": {}},
    {"bos_token": "not there", "added_tokens_decoder": {"0": 7, "x": {"special": True, "content": 9}}},
    {"added_tokens_decoder": [1], "add_bos_token": "yes", "add_eos_token": 1, "tokenizer_class": 7},
    {"bos_token_id": -1, "eos_token_id": [10**30, "a", None, 3.5, True], "pad_token_id": {"a": 1}},
    {"chat_template": None, "strip_accents": 7, "do_lower_case": "no", "model_max_length": 10**40},
    {"chat_template": [7, {"name": "default"}, {"name": 3}]},
]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("form", ["json", "words"])
def test_fields_of_other_types_are_left_aside(tmp_path: Path, odd: dict[str, Any], form: str) -> None:
    """What names no token gives no token; ids never point outside the vocabulary."""
    backend = make.word_pieces()
    if form == "json":
        make.write_json(tmp_path, backend)
    else:
        (tmp_path / "vocab.txt").write_text("\n".join(make.vocabulary(backend)))
        odd = {name: value for name, value in odd.items() if name not in ("unk_token", "mask_token")}
    for name in ("tokenizer_config.json", "special_tokens_map.json", "config.json", "generation_config.json"):
        (tmp_path / name).write_text(json.dumps(odd))
    tokenizer = open_tokenizer(tmp_path)
    assert all(0 <= id < tokenizer.vocabulary_size for id in tokenizer.special_ids)
    assert tokenizer.encode("the fox")


@pytest.mark.parametrize("template", [7, {"a": 1}, [{"name": "default", "template": 7}]])
def test_templates_that_are_no_text(tmp_path: Path, template: Any) -> None:
    make.write_json(tmp_path, make.word_pieces(), {"chat_template": template})
    refused(tmp_path, "chat_template: must be text")


@pytest.mark.parametrize(
    ("files", "match"),
    [
        ({}, "tokenizer: none was found; wanted tokenizer.json, vocab.json with merges.txt, or vocab.txt"),
        ({"tokenizer.model": ""}, "tokenizer.model: file: sentencepiece models are not read"),
        ({"spiece.model": ""}, "spiece.model: file: sentencepiece models are not read"),
        ({"vocab.json": "{}"}, "none was found"),
        ({"vocab.json": '{"a": "b"}', "merges.txt": ""}, "vocab.json: a: 'b' is not an id"),
        ({"vocab.json": '{"a": -1}', "merges.txt": ""}, "vocab.json: a: -1 is not an id"),
        ({"vocab.json": '{"a": true}', "merges.txt": ""}, "vocab.json: a: True is not an id"),
        ({"vocab.json": '{"a": 0}', "merges.txt": "a\n"}, "merges.txt: line 1: 'a' is not two tokens"),
        ({"vocab.json": '{"a": 0}', "merges.txt": "#version\n\na b\n"}, "merges.txt: merges: .*out of vocabulary"),
        (
            {"vocab.json": "{}", "merges.txt": "", "tokenizer_config.json": '{"tokenizer_class": "MagicTokenizer"}'},
            "tokenizer_class: 'MagicTokenizer' with merges.txt is not one of GPT2Tokenizer, RobertaTokenizer",
        ),
        (
            {"vocab.json": '{"a": 0}', "merges.txt": "", "config.json": '{"model_type": "bart"}'},
            "vocab.json: <s>: is not in the vocabulary",
        ),
        ({"vocab.txt": "a\nb\n"}, r"vocab.txt: \[SEP\]: is not in the vocabulary"),
        ({"vocab.txt": ""}, "vocab.txt: "),
    ],
)  # fmt: skip
def test_directories_without_a_readable_tokenizer(tmp_path: Path, files: dict[str, str], match: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(TokenizerError, match=match) as caught:
        open_tokenizer(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.txt"])
def test_a_file_of_another_kind(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    refused(tmp_path, f"{name}: file: is not a regular file")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "tokenizer.json").open("wb") as file:
        file.truncate(tokenizer_files.MAX_FILE + 1)  # holes: it takes no room
    tracemalloc.start()
    refused(tmp_path, "tokenizer.json: file: is larger than")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_padding_to_an_enormous_length_is_not_believed(tmp_path: Path) -> None:
    content = model(padding={"strategy": {"Fixed": 10**12}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"})  # fmt: skip  # noqa: E501
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    assert len(open_tokenizer(tmp_path).encode("the")) < 10


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_text_that_is_no_unicode(tmp_path: Path, text: str) -> None:
    tokenizer = open_tokenizer(make.write_json(tmp_path, make.byte_level()))
    for use in (tokenizer.encode, tokenizer.annotate):
        with pytest.raises(TokenizerError, match=r"text: ") as caught:
            use(text)
        assert "\n" not in str(caught.value)


def test_saving_where_nothing_can_be_written(tmp_path: Path) -> None:
    tokenizer = open_tokenizer(make.write_json(tmp_path, make.byte_level()))
    (tmp_path / "file").write_text("")
    with pytest.raises(TokenizerError, match=r"tokenizer\.json: file: cannot be written"):
        tokenizer.save(tmp_path / "file")
    assert (tmp_path / "file").read_text() == ""
