"""Small tokenizers, trained here, written in every form that checkpoints come in."""

import json
from pathlib import Path
from typing import Any

from checkpoint_files import gguf_bytes
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CORPUS = [
    "The quick brown fox jumps over the lazy dog, doesn't it? It's 1234567 times 89!",
    "Die Straßenbahn fährt über die Brücke, während Zoë naïve Lieder singt.",
    "def f(x):\n    return x[10:20] + 'abc'  # comment\n\n\tprint(f(3.14))",
    "東京は日本の首都です。 Привет, мир! שלום مرحبا 👩‍🚀 🇩🇪 ½ ² Ⅷ",
    "they'll we've I'M CamelCaseWords snake_case_words UPPER lower 2024-01-31",
] * 3
TEXTS = [
    "",
    " ",
    "The fox's 12345 dogs",
    "  two  spaces\n\n\nand\tlines \r\n end  ",
    "x = [1,  22,   333]\n    y == 4",
    "Straße Zoë naïve Ünïcödé é é",
    "👩‍🚀👍🏽🇩🇪 東京 Привет שלום ½²Ⅷ١٢",
    "I'LL WE'VE don't 'quoted' CamelCase",
    "<s> text </s> <|end|> [MASK] a <mask> <think>x</think>",
    "\u00a0\u3000\u200b zero\x00\x07",
]


def byte_level(special: list[str] | None = None, size: int = 600) -> Tokenizer:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=special or [], initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(CORPUS, trainer)
    return backend


def word_pieces() -> Tokenizer:
    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    backend.train_from_iterator(
        CORPUS, trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    )
    ends = [(name, backend.token_to_id(name)) for name in ("[SEP]", "[CLS]")]
    backend.post_processor = processors.BertProcessing(*ends)
    return backend


def unigram() -> Tokenizer:
    backend = Tokenizer(models.Unigram())
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=200, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    backend.train_from_iterator(CORPUS, trainer)
    backend.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return backend


def marked_words() -> tuple[list[str], list[float], list[int]]:
    """A vocabulary as sentencepiece writes it: tokens, scores and kinds, bytes included."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=400, show_progress=False))
    learned = [token for token, _ in sorted(backend.get_vocab().items(), key=lambda item: item[1])]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    singles = [token for token in learned if len(token) == 1]
    merged = [token for token in learned if len(token) > 1]
    scores = [0.0] * len(tokens) + [-float(rank) for rank in range(len(merged))] + [-1000.0] * len(singles)
    return [*tokens, *merged, *singles], scores, [2, 3, 3, *[6] * 256, *[1] * len(learned)]


def vocabulary(backend: Tokenizer) -> list[str]:
    return [token for token, _ in sorted(backend.get_vocab().items(), key=lambda item: item[1])]


def gguf_byte_level(pre: str | None, more: dict[str, Any] | None = None) -> bytes:
    """The tokenizer of a Llama or Qwen: three control tokens, and one that a user may write."""
    backend = byte_level(["<s>", "</s>", "<|end|>", "<think>"])
    model = json.loads(backend.to_str())["model"]
    tokens = vocabulary(backend)
    metadata: dict[str, Any] = {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": ("i32", [3, 3, 3, 4, *[1] * (len(tokens) - 4)]),
        "tokenizer.ggml.merges": [" ".join(pair) for pair in model["merges"]],
        "tokenizer.ggml.bos_token_id": ("u32", 0),
        "tokenizer.ggml.eos_token_id": ("u32", 1),
        "tokenizer.ggml.padding_token_id": ("u32", 2),
        "tokenizer.ggml.add_bos_token": ("bool", False),
    }
    if pre is not None:
        metadata["tokenizer.ggml.pre"] = pre
    return gguf_bytes(metadata | (more or {}), {})


def gguf_marked_words(more: dict[str, Any] | None = None) -> bytes:
    tokens, scores, kinds = marked_words()
    metadata: dict[str, Any] = {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": ("f32", scores),
        "tokenizer.ggml.token_type": ("i32", kinds),
        "tokenizer.ggml.bos_token_id": ("u32", 1),
        "tokenizer.ggml.eos_token_id": ("u32", 2),
        "tokenizer.ggml.unknown_token_id": ("u32", 0),
    }
    return gguf_bytes(metadata | (more or {}), {})


def write_json(directory: Path, backend: Tokenizer, settings: dict[str, Any] | None = None) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    backend.save(str(directory / "tokenizer.json"))
    if settings is not None:
        (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    return directory


def write_merges(directory: Path, backend: Tokenizer, settings: dict[str, Any]) -> Path:
    model = json.loads(backend.to_str())["model"]
    (directory / "vocab.json").write_text(json.dumps(backend.get_vocab(), ensure_ascii=False), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in model["merges"])]
    (directory / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    return directory
