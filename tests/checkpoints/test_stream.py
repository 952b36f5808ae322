"""Streams: what comes out piece by piece is what decoding gives at once, and no character is ever split."""

from pathlib import Path

import pytest
import tokenizer_makers as make
from hypothesis import given, settings
from hypothesis import strategies as draw

from headwise.checkpoints.stream import Stream
from headwise.checkpoints.tokenizer import Tokenizer, open_tokenizer

BROKEN = "\N{REPLACEMENT CHARACTER}"
KINDS = ["bytes", "marked", "unigram", "wordpieces"]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    home = tmp_path_factory.mktemp("stream")
    (home / "bytes.gguf").write_bytes(make.gguf_byte_level("gpt-2"))
    (home / "marked.gguf").write_bytes(make.gguf_marked_words())
    return {
        "bytes": open_tokenizer(home / "bytes.gguf"),
        "marked": open_tokenizer(home / "marked.gguf"),
        "unigram": open_tokenizer(make.write_json(home / "unigram", make.unigram())),
        "wordpieces": open_tokenizer(make.write_json(home / "words", make.word_pieces())),
    }


def streamed(tokenizer: Tokenizer, ids: list[int], skip: bool = True) -> list[str]:
    stream = Stream(tokenizer, skip)
    return [*(stream.push(id) for id in ids), stream.finish()]


@pytest.mark.parametrize("kind", KINDS)
@given(text=draw.text(max_size=40))
@settings(max_examples=60, deadline=None)
def test_any_text(tokenizers: dict[str, Tokenizer], kind: str, text: str) -> None:
    tokenizer = tokenizers[kind]
    ids = tokenizer.encode(text)
    parts = streamed(tokenizer, ids)
    assert "".join(parts) == tokenizer.decode(ids)
    if BROKEN not in tokenizer.decode(ids):
        assert not any(BROKEN in part for part in parts)


@pytest.mark.parametrize("kind", KINDS[:3])
@given(data=draw.data(), skip=draw.booleans())
@settings(max_examples=150, deadline=None)
def test_any_ids(tokenizers: dict[str, Tokenizer], kind: str, data: draw.DataObject, skip: bool) -> None:
    tokenizer = tokenizers[kind]
    ids = data.draw(draw.lists(draw.integers(0, tokenizer.vocabulary_size - 1), max_size=30))
    assert "".join(streamed(tokenizer, ids, skip)) == tokenizer.decode(ids, skip)


@pytest.mark.parametrize("kind", ["bytes", "marked"])
def test_a_character_comes_when_it_is_whole(tokenizers: dict[str, Tokenizer], kind: str) -> None:
    tokenizer = tokenizers[kind]
    ids = tokenizer.encode("a🛸b", special=False)
    assert [part for part in streamed(tokenizer, ids) if part] in (["a", "🛸", "b"], ["a", "🛸b"])


@pytest.mark.parametrize("kind", ["bytes", "marked"])
def test_what_stays_broken_comes_at_the_end(tokenizers: dict[str, Tokenizer], kind: str) -> None:
    tokenizer = tokenizers[kind]
    ids = tokenizer.encode("a🛸", special=False)[:-1]
    parts = streamed(tokenizer, ids)
    assert BROKEN not in "".join(parts[:-1])
    assert set(parts[-1]) == {BROKEN}
    assert "".join(parts) == tokenizer.decode(ids)


def test_special_tokens_are_left_out_or_shown(tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers["bytes"]
    ids = tokenizer.encode("<s>fox</s>")
    assert "".join(streamed(tokenizer, ids)) == "fox"
    assert "".join(streamed(tokenizer, ids, skip=False)) == "<s>fox</s>"


def test_a_stream_may_be_used_again(tokenizers: dict[str, Tokenizer]) -> None:
    for tokenizer in tokenizers.values():
        stream = Stream(tokenizer)
        ids = tokenizer.encode("the fox jumps")
        first = "".join(map(stream.push, ids)) + stream.finish()
        assert "".join(map(stream.push, ids)) + stream.finish() == first


def test_paths_are_not_needed(tmp_path: Path) -> None:
    backend = open_tokenizer(make.write_json(tmp_path, make.byte_level()))
    assert streamed(backend, []) == [""]
