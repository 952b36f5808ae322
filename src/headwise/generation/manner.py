"""Manners: how each kind of model is asked for a summary, decided from the model and never from its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from headwise.checkpoints.tokenizer import Tokenizer
from headwise.errors import UnsupportedError
from headwise.generation.own import Own
from headwise.generation.prompts import Writer, open_end
from headwise.transformer.model import EncoderDecoder

TRAINED_LENGTH = 512
"""Tokens that an encoder without positions of its own (T5) is given at most, where its file says nothing else."""
MARK = "\N{OBJECT REPLACEMENT CHARACTER}text\N{OBJECT REPLACEMENT CHARACTER}"
"""Stands where the text will stand while a template is rendered."""


@dataclass(frozen=True)
class Size:
    """What a length means: sentences and tokens at most, and the words for it."""

    sentences: int
    tokens: int
    words: str


SIZES: dict[str, Size] = {
    "short": Size(1, 80, "one short sentence"),
    "medium": Size(3, 200, "two or three sentences"),
    "long": Size(8, 480, "six to eight sentences"),
}


def size_of(length: str) -> Size:
    """The size of a length's name."""
    found = SIZES.get(length)
    if found is None:
        raise ValueError(f"length: got {length!r}, wanted {', '.join(SIZES)}")
    return found


@dataclass(frozen=True)
class Manner:
    """`ask` makes the ids that a model summarizes a text from; `most` is how many of them it takes, 0: any number."""

    kind: Literal["chat", "separator", "source"]
    ask: Callable[[str, Size], list[int]]
    most: int

    def room(self, size: Size) -> int:
        """Tokens of a text that fit beside what surrounds it; 0: any number."""
        return max(1, self.most - len(self.ask("", size))) if self.most else 0


def manner_of(model: Writer, own: Own) -> Manner:
    """An encoder-decoder reads the text; a decoder trained for it, text and separator; a chat model, a request."""
    where = model.source or model.config.architecture
    if own.task not in (None, "summarize"):
        raise UnsupportedError(f"{where}: was trained to {own.task}, wanted a model that summarizes")
    if isinstance(model, EncoderDecoder):
        return _source(model, own)
    context = model.config.context
    if own.separator is not None:
        return Manner("separator", _with_separator(model.tokenizer, own, own.separator, where), context)
    if model.tokenizer.chat_template is not None:
        return Manner("chat", _request(model.tokenizer), context)
    raise UnsupportedError(
        f"{where}: has neither a chat template nor a recorded task, so it cannot be asked for a summary; "
        'wanted a model that follows instructions, one trained with "headwise": {"task": "summarize", ...}, '
        "or an encoder-decoder"
    )


def _source(model: EncoderDecoder, own: Own) -> Manner:
    tokenizer: Tokenizer = model.tokenizer
    trained = model.config.raw.get("n_positions")
    known = trained if type(trained) is int and trained > 0 else TRAINED_LENGTH

    def ask(text: str, size: Size) -> list[int]:
        return tokenizer.encode((own.prefix or "") + _only_text(tokenizer, text))

    return Manner("source", ask, model.config.context or known)


def _with_separator(tokenizer: Tokenizer, own: Own, separator: str, where: str) -> Callable[[str, Size], list[int]]:
    between = tokenizer.encode(separator, special=False)
    if not between:
        raise UnsupportedError(f"{where}: its separator {separator!r} is no token of its tokenizer")

    def ask(text: str, size: Size) -> list[int]:
        whole = (own.prefix or "") + _only_text(tokenizer, text)
        return [*open_end(tokenizer, whole, tokenizer.encode(whole), own), *between]

    return ask


def _request(tokenizer: Tokenizer) -> Callable[[str, Size], list[int]]:
    """The template is rendered once for each size, around a mark that the text then replaces."""
    known: dict[Size, tuple[str, str]] = {}

    def ask(text: str, size: Size) -> list[int]:
        if size not in known:
            wish = f"Summarize the text below in {size.words}. Say only what the text says."
            before, _, after = tokenizer.chat([{"role": "user", "content": f"{wish}\n\n{MARK}"}]).partition(MARK)
            known[size] = before, after
        before, after = known[size]
        return tokenizer.encode(before + _only_text(tokenizer, text) + after, special=False)

    return ask


def _only_text(tokenizer: Tokenizer, text: str) -> str:
    """A document that spells one of the model's special tokens gets a space there: it gives no orders."""
    for token in map(tokenizer.token, tokenizer.special_ids):
        if len(token) > 1 and token in text:
            text = text.replace(token, f"{token[0]} {token[1:]}")
    return text
