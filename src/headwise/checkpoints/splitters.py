"""How byte-level vocabularies cut a text before merging: the splitters that GGUF files call by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwise.errors import TokenizerError

if TYPE_CHECKING:
    from tokenizers.pre_tokenizers import PreTokenizer

_ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_LETTERS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_UPPER, _LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_CASED = rf"[^\r\n\p{{L}}\p{{N}}]?(?:[{_UPPER}]*[{_LOWER}]+|[{_UPPER}]+[{_LOWER}]*)"

LLAMA3 = rf"{_ENDINGS}|{_LETTERS}|\p{{N}}{{1,3}}|{_SIGNS}|{_SPACES}"
QWEN2 = rf"{_ENDINGS}|{_LETTERS}|\p{{N}}|{_SIGNS}|{_SPACES}"
TEKKEN = rf"{_CASED}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"

# The reference reads SmolLM2's GGUF with GPT-2's splitter: the vocabulary has no merges of digits, so they stay single.
_GPT2_NAMES = ("default", "gpt-2", "gpt2", "smollm", "phi-2", "roberta-bpe")
_DIGITS_NAMES = ("starcoder", "refact", "command-r", "codeshell", "minerva-7b")
_PATTERNS = {
    LLAMA3: ("llama3", "llama-v3", "llama-bpe", "falcon3", "pixtral", "dbrx", "smaug-bpe"),
    QWEN2: ("qwen2", "stablelm2", "deepseek-r1-qwen", "megrez"),
    TEKKEN: ("tekken",),
}
_PATTERN_OF = {name: pattern for pattern, names in _PATTERNS.items() for name in names}
NAMES = sorted((*_GPT2_NAMES, *_DIGITS_NAMES, *_PATTERN_OF))


def by_pattern(pattern: str) -> PreTokenizer:
    """Cut where the pattern matches, then write bytes as visible characters."""
    from tokenizers import Regex, pre_tokenizers

    cut = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    return pre_tokenizers.Sequence([cut, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def splitter(name: object, where: object) -> PreTokenizer:
    """The splitter that `tokenizer.ggml.pre` names."""
    from tokenizers import pre_tokenizers

    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if name in _GPT2_NAMES:
        return gpt2
    if name in _DIGITS_NAMES:
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), gpt2])
    if isinstance(name, str) and name in _PATTERN_OF:
        return by_pattern(_PATTERN_OF[name])
    raise TokenizerError(where, "tokenizer.ggml.pre", f"{_short(name)} is not one of {', '.join(NAMES)}")


def takes_whole_words(name: object) -> bool:
    """Whether a word that is in the vocabulary is taken whole, whatever its merges would give (as Llama 3 does)."""
    return isinstance(name, str) and _PATTERN_OF.get(name) in (LLAMA3, TEKKEN)


def _short(value: Any) -> str:
    return repr(value)[:60]
