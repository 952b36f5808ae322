"""The real vocabularies: SmolLM2's from its GGUF and MiniLM's, id by id as the reference library has them."""

from pathlib import Path
from typing import Any

import pytest
import tokenizer_makers as make
from hypothesis import given, settings
from hypothesis import strategies as draw
from transformers import AutoTokenizer

from headwise.checkpoints.sources import find
from headwise.checkpoints.stream import Stream
from headwise.checkpoints.tokenizer import Tokenizer, open_tokenizer

pytestmark = pytest.mark.weights

PIECES = [
    *make.TEXTS,
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "    def f(self, x: int = 0x1F) -> None:\n        return {'a': [1, 2.5e-3, ...]}\n",
    "for (int i = 0; i < 10; ++i) { printf(\"%d\\n\", i); }\t// ok",
    "1,234,567.89 3.14159 2024-11-19 10:00 007 1st 2nd ٣٤٥ ⅞ ① 𝟙",
    "  leading", "trailing  ", "\n\n\n", "\t\t", " \n \n ", "a\u00a0b\u2003c\u3000d\u200be\ufefff",
    "😀😃👍🏽👩‍👩‍👧‍👦🏳️‍🌈🇩🇪🇫🇷☺️©",
    "é é ﬁ ß İ ı ǆ Å Å \u0301\u0302 Z̷̢̛a̸l̶g̵o̶",
    "中文 日本語 한국어 ไทย हिन्दी বাংলা עברית العربية ελληνικά русский ქართული",
    "\x00\x01\x1b\x7f\u2028\u2029\ufffd\U0010ffff\ue000",
    "don't I'LL we'Ve 'tis rock'n'roll it’s",
]  # fmt: skip


@pytest.fixture(scope="module")
def theirs() -> Any:
    path = find("smollm2")
    return AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)


@pytest.fixture(scope="module")
def ours() -> Tokenizer:
    return open_tokenizer(find("smollm2"))


def same(ours: Tokenizer, theirs: Any, text: str) -> None:
    ids = theirs(text).input_ids
    assert ours.encode(text) == ids
    for skip in (True, False):
        assert ours.decode(ids, skip) == theirs.decode(ids, skip_special_tokens=skip)
    stream = Stream(ours, skip_special=False)
    assert "".join(map(stream.push, ids)) + stream.finish() == theirs.decode(ids, skip_special_tokens=False)
    encoded = ours.annotate(text)
    for piece, (start, end) in zip(encoded.pieces, encoded.offsets, strict=True):
        assert kept(theirs, text[start:end]) == piece or "<0x" in piece


def kept(theirs: Any, text: str) -> str:
    """What the reference library makes tokens of: this vocabulary has no token for some control characters."""
    return "".join(sign for sign in text if theirs(sign).input_ids)


@pytest.mark.parametrize("text", PIECES)
def test_smollm2_written_texts(ours: Tokenizer, theirs: Any, text: str) -> None:
    same(ours, theirs, text)


@given(text=draw.lists(draw.sampled_from(PIECES) | draw.text(max_size=12), max_size=6).map("".join))
@settings(max_examples=300, deadline=None)
def test_smollm2_any_text(ours: Tokenizer, theirs: Any, text: str) -> None:
    same(ours, theirs, text)


def test_smollm2_roles_and_chat(ours: Tokenizer, theirs: Any) -> None:
    mine = (ours.begin_id, ours.end_id, ours.pad_id, ours.unknown_id)
    assert mine == (theirs.bos_token_id, theirs.eos_token_id, theirs.pad_token_id, theirs.unk_token_id)
    assert ours.special_ids == set(theirs.all_special_ids) | set(theirs.added_tokens_decoder)
    assert ours.vocabulary_size == len(theirs) == 49152
    messages = [{"role": "user", "content": "Summarise: ..."}, {"role": "assistant", "content": "No."}]
    for generate in (True, False):
        expected = theirs.apply_chat_template(messages, tokenize=False, add_generation_prompt=generate)
        assert ours.chat(messages, generate=generate) == expected


def test_smollm2_saved(ours: Tokenizer, tmp_path: Path) -> None:
    ours.save(tmp_path)
    opened = AutoTokenizer.from_pretrained(tmp_path)
    for text in PIECES:
        assert opened(text).input_ids == ours.encode(text)
    assert opened.chat_template == ours.chat_template


@pytest.mark.parametrize("plain", [False, True])
def test_minilm(plain: bool, tmp_path: Path) -> None:
    """From tokenizer.json, and from vocab.txt alone."""
    path = find("minilm")
    reference = AutoTokenizer.from_pretrained(path)
    if plain:
        for name in ("vocab.txt", "tokenizer_config.json"):
            (tmp_path / name).write_bytes((path / name).read_bytes())
        path = tmp_path
    tokenizer = open_tokenizer(path)
    for text in PIECES:
        assert tokenizer.encode(text) == reference(text).input_ids
    roles = (tokenizer.begin_id, tokenizer.separator_id, tokenizer.pad_id, tokenizer.mask_id, tokenizer.unknown_id)
    assert roles == (101, 102, 0, 103, 100)
