"""Tokenizers of every form give the reference library's ids, and every piece leads back to its place in the text."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tokenizer_makers as make
from tokenizers import Tokenizer as Backend
from tokenizers import models, trainers
from transformers import AutoTokenizer, BertTokenizer, GPT2Tokenizer, Qwen2Tokenizer, RobertaTokenizer

from headwise.checkpoints.tokenizer import Tokenizer, open_tokenizer
from headwise.errors import TokenizerError

FAST = {"tokenizer_class": "PreTrainedTokenizerFast"}
BERT = FAST | {
    "unk_token": "[UNK]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "sep_token": {"__type": "AddedToken", "content": "[SEP]", "lstrip": False, "rstrip": False, "normalized": False},
    "mask_token": "[MASK]",
}


def same_ids(ours: Tokenizer, theirs: Any, *more: str) -> None:
    for text in (*make.TEXTS, *more):
        expected = theirs(text).input_ids
        assert ours.encode(text) == expected, text
        assert ours.encode(text, special=False) == theirs(text, add_special_tokens=False).input_ids, text
        for skip in (True, False):
            wanted = theirs.decode(expected, skip_special_tokens=skip, clean_up_tokenization_spaces=False)
            assert ours.decode(expected, skip_special=skip) == wanted


@pytest.mark.parametrize("kind", ["byte_level", "word_pieces", "unigram"])
def test_tokenizer_json(tmp_path: Path, kind: str) -> None:
    settings = BERT if kind == "word_pieces" else FAST
    directory = make.write_json(tmp_path, getattr(make, kind)(), settings)
    same_ids(open_tokenizer(directory), AutoTokenizer.from_pretrained(directory))


def test_truncation_and_padding_of_the_file_are_left_to_the_batch(tmp_path: Path) -> None:
    backend = make.word_pieces()
    backend.enable_truncation(4)
    backend.enable_padding(length=9)
    ids = open_tokenizer(make.write_json(tmp_path, backend, BERT)).encode("the lazy dog jumps over the quick fox")
    assert len(ids) > 9


@pytest.mark.parametrize(
    ("name", "special", "reference"),
    [
        ("GPT2Tokenizer", ["<|endoftext|>"], GPT2Tokenizer),
        ("RobertaTokenizer", ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], RobertaTokenizer),
        ("Qwen2Tokenizer", ["<|endoftext|>"], Qwen2Tokenizer),
    ],
)
def test_vocabulary_and_merges(tmp_path: Path, name: str, special: list[str], reference: Any) -> None:
    settings: dict[str, Any] = {"tokenizer_class": name}
    directory = make.write_merges(tmp_path, make.byte_level(special), settings)
    files = {"vocab": str(directory / "vocab.json"), "merges": str(directory / "merges.txt")}
    same_ids(open_tokenizer(directory), reference(**files), "a <|endoftext|> b")


def test_the_model_type_stands_in_for_a_missing_class(tmp_path: Path) -> None:
    make.write_merges(tmp_path, make.byte_level(["<s>", "</s>"]), {})
    (tmp_path / "config.json").write_text('{"model_type": "roberta", "bos_token_id": 0, "eos_token_id": 1}')
    tokenizer = open_tokenizer(tmp_path)
    assert tokenizer.encode("a b")[0] == tokenizer.begin_id == 0
    assert tokenizer.encode("a b")[-1] == tokenizer.end_id == 1


@pytest.mark.parametrize("lower", [True, False])
def test_vocabulary_of_word_pieces(tmp_path: Path, lower: bool) -> None:
    backend = make.word_pieces()
    (tmp_path / "vocab.txt").write_text("\n".join(make.vocabulary(backend)) + "\n", encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lower}))
    same_ids(open_tokenizer(tmp_path), BertTokenizer(vocab=backend.get_vocab(), do_lower_case=lower))


PRE = ["default", "gpt-2", "smollm", "llama-bpe", "qwen2", "tekken", None]


@pytest.mark.parametrize("pre", PRE)
def test_gguf_bytes(tmp_path: Path, pre: str | None) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(make.gguf_byte_level(pre))
    same_ids(open_tokenizer(path), AutoTokenizer.from_pretrained(tmp_path, gguf_file=path.name))


@pytest.mark.parametrize("begin", [True, False])
@pytest.mark.parametrize("end", [True, False])
def test_gguf_marked_words(tmp_path: Path, begin: bool, end: bool) -> None:
    path = tmp_path / "a.gguf"
    more = {"tokenizer.ggml.add_bos_token": ("bool", begin), "tokenizer.ggml.add_eos_token": ("bool", end)}
    path.write_bytes(make.gguf_marked_words(more))
    ours = open_tokenizer(path)
    same_ids(ours, AutoTokenizer.from_pretrained(tmp_path, gguf_file=path.name))
    assert (ours.encode("a")[0] == 1, ours.encode("a")[-1] == 2) == (begin, end)


def test_splitters_differ(tmp_path: Path) -> None:
    """Guards the comparison above: a text on which the splitters do not agree."""
    seen: set[str] = set()
    for pre in ("gpt-2", "llama-bpe", "qwen2", "tekken", "starcoder"):
        path = tmp_path / "a.gguf"
        path.write_bytes(make.gguf_byte_level(pre))
        seen.add(str(open_tokenizer(path).encode("".join(make.TEXTS) + "They'LL  12345 XyZ/\n\n A's")))
    assert len(seen) == 5


def test_merges_with_a_prefix(tmp_path: Path) -> None:
    backend = Backend(models.BPE(continuing_subword_prefix="##"))
    trainer = trainers.BpeTrainer(vocab_size=120, continuing_subword_prefix="##", show_progress=False)
    backend.train_from_iterator(make.CORPUS, trainer)
    directory = make.write_json(tmp_path, backend, FAST)
    same_ids(open_tokenizer(directory), AutoTokenizer.from_pretrained(directory))


def test_ids_with_a_role(tmp_path: Path) -> None:
    tokenizer = open_tokenizer(make.write_json(tmp_path, make.word_pieces(), BERT))
    assert (tokenizer.pad_id, tokenizer.unknown_id, tokenizer.begin_id) == (0, 1, 2)
    assert (tokenizer.separator_id, tokenizer.mask_id, tokenizer.end_id) == (3, 4, 3)
    assert tokenizer.special_ids == {0, 1, 2, 3, 4}
    assert tokenizer.vocabulary_size == len(make.vocabulary(make.word_pieces()))
    assert tokenizer.chat_template is None


def test_roles_come_from_the_most_particular_file(tmp_path: Path) -> None:
    make.write_json(tmp_path, make.byte_level(["<a>", "<b>", "<c>"]), {"bos_token": "<a>"})
    (tmp_path / "special_tokens_map.json").write_text('{"bos_token": "<b>", "eos_token": "<b>"}')
    (tmp_path / "config.json").write_text('{"bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 2}')
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [1, 0, 99999]}')
    tokenizer = open_tokenizer(tmp_path)
    assert (tokenizer.begin_id, tokenizer.end_id, tokenizer.pad_id, tokenizer.mask_id) == (0, 1, 2, None)
    assert tokenizer.end_ids == {0, 1, 2}


@pytest.mark.parametrize(("begin", "end"), [(True, False), (True, True), (False, False)])
def test_flags_decide_what_stands_around_a_text(tmp_path: Path, begin: bool, end: bool) -> None:
    settings = {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": begin, "add_eos_token": end}
    backend = make.byte_level(["<s>", "</s>"])
    tokenizer = open_tokenizer(make.write_merges(tmp_path, backend, settings))
    around = tokenizer.encode("fox")
    assert around == [0] * begin + tokenizer.encode("fox", special=False) + [1] * end
    # Beside a tokenizer.json, which says it itself, the reference library does not look at the flags.
    make.write_json(tmp_path, backend, FAST | settings)
    same_ids(open_tokenizer(tmp_path), AutoTokenizer.from_pretrained(tmp_path))


@pytest.mark.parametrize("kind", ["byte_level", "marked_words"])
def test_pieces_lead_back_into_the_decoded_text(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(make.gguf_byte_level("gpt-2") if kind == "byte_level" else make.gguf_marked_words())
    tokenizer = open_tokenizer(path)
    for text in make.TEXTS:
        ids = tokenizer.encode(text)
        pieces = tokenizer.tokens(ids)
        decoded = tokenizer.decode(ids, skip_special=False)
        assert len(pieces) == len(pieces.offsets) == len(ids)
        for piece, (start, end) in zip(pieces, pieces.offsets, strict=True):
            shown = decoded[start:end]
            assert shown == piece or "<0x" in piece or (start == 0 and shown == piece[1:]), (text, piece)


@pytest.mark.parametrize("kind", ["byte_level", "word_pieces", "unigram"])
def test_annotated_pieces_lead_back_into_the_text(tmp_path: Path, kind: str) -> None:
    backend = getattr(make, kind)()
    tokenizer = open_tokenizer(make.write_json(tmp_path, backend, BERT if kind == "word_pieces" else FAST))
    for text in make.TEXTS:
        encoded = tokenizer.annotate(text)
        assert (encoded.text, encoded.ids) == (text, tokenizer.encode(text))
        assert len(encoded.pieces) == len(encoded.offsets) == len(encoded.special) == len(encoded.ids)
        reached = 0
        for start, end in encoded.offsets:
            assert 0 <= start <= end <= len(text)
            assert end >= reached or kind == "byte_level"
            reached = max(reached, end)
        if kind == "byte_level":
            for piece, (start, end) in zip(encoded.pieces, encoded.offsets, strict=True):
                assert text[start:end] == piece or "<0x" in piece


def test_pieces_of_bert_are_readable(tmp_path: Path) -> None:
    tokenizer = open_tokenizer(make.write_json(tmp_path, make.word_pieces(), BERT))
    encoded = tokenizer.annotate("The doggy [MASK] 龍!")
    shown = [
        (p, encoded.text[a:b], s) for p, (a, b), s in zip(encoded.pieces, encoded.offsets, encoded.special, strict=True)
    ]
    assert shown[0] == ("[CLS]", "", True)
    assert shown[1] == ("the", "The", False)
    assert "".join(piece for piece, _, _ in shown[2:-4]) == "doggy"
    assert shown[-4] == ("[MASK]", "[MASK]", True)
    assert shown[-3] == ("[UNK]", "龍", False)
    assert shown[-1] == ("[SEP]", "", True)
    pieces = tokenizer.tokens(encoded.ids)
    decoded = tokenizer.decode(encoded.ids, skip_special=False)
    assert [decoded[start:end] for start, end in pieces.offsets] == list(pieces)


def test_offsets_include_the_space_a_piece_begins_with(tmp_path: Path) -> None:
    """RoBERTa's processor leaves it out of its offsets, Llama's does not."""
    settings = {"tokenizer_class": "RobertaTokenizer"}
    tokenizer = open_tokenizer(make.write_merges(tmp_path, make.byte_level(["<s>", "</s>"]), settings))
    encoded = tokenizer.annotate("The fox  jumps")
    assert [encoded.text[a:b] for a, b in encoded.offsets[1:-1]] == list(encoded.pieces[1:-1])


@pytest.mark.parametrize("source", ["json", "gguf", "marked", "words"])
def test_saved_tokenizers_open_in_the_reference_library(tmp_path: Path, source: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    if source == "json":
        tokenizer = open_tokenizer(make.write_json(home, make.word_pieces(), BERT))
    elif source == "words":
        (home / "vocab.txt").write_text("\n".join(make.vocabulary(make.word_pieces())), encoding="utf-8")
        tokenizer = open_tokenizer(home)
    else:
        made = make.gguf_byte_level("llama-bpe") if source == "gguf" else make.gguf_marked_words()
        (home / "a.gguf").write_bytes(made)
        tokenizer = open_tokenizer(home / "a.gguf")
    tokenizer.chat_template = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
    tokenizer.save(tmp_path / "saved")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "saved")
    same_ids(tokenizer, theirs)
    assert theirs.bos_token_id == (tokenizer.begin_id if source in ("gguf", "marked") else None)
    assert theirs.cls_token_id == (tokenizer.begin_id if source in ("json", "words") else None)
    assert theirs.pad_token_id == tokenizer.pad_id
    assert theirs.chat_template == tokenizer.chat_template
    ours = open_tokenizer(tmp_path / "saved")
    same_ids(ours, theirs)
    for name in (
        "begin_id",
        "end_id",
        "pad_id",
        "unknown_id",
        "mask_id",
        "separator_id",
        "special_ids",
        "chat_template",
    ):
        assert getattr(ours, name) == getattr(tokenizer, name), name
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == ["tokenizer.json", "tokenizer_config.json"]


def test_a_tokenizer_of_words_keeps_ids_apart(tmp_path: Path) -> None:
    backend = Backend(models.WordLevel({"a": 0, "b": 7}, unk_token="a"))
    assert open_tokenizer(make.write_json(tmp_path, backend)).vocabulary_size == 8


def test_opening_imports_no_torch() -> None:
    program = "import sys, headwise.checkpoints.tokenizer as t, headwise.checkpoints.tokenizer_gguf, "
    program += "headwise.checkpoints.tokenizer_files, headwise.checkpoints.sources, headwise.checkpoints.stream\n"
    program += "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("ids", [[-1], [2**32], [2**64]])
def test_what_is_no_id_is_refused(tmp_path: Path, ids: list[int]) -> None:
    tokenizer = open_tokenizer(make.write_json(tmp_path, make.byte_level()))
    for use in (tokenizer.decode, tokenizer.tokens):
        with pytest.raises(TokenizerError, match=f"ids: {ids[0]} is not"):
            use(ids)
