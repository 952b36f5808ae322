"""`headwise.summarize`: a document becomes a few sentences, with a word on which of them it bears out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from headwise.checkpoints.load import load, load_for_writing
from headwise.errors import UnsupportedError
from headwise.generation.extract import extract
from headwise.generation.manner import size_of
from headwise.generation.sentences import sentences
from headwise.generation.summarizer import Summarizer, Task
from headwise.generation.support import Judged, judge
from headwise.transformer.model import Decoder, Encoder, EncoderDecoder

Model = Encoder | Decoder | EncoderDecoder
EMBEDDER = "minilm"


@dataclass(frozen=True)
class Summary:
    """A summary, its sentences as the document judges them, and what it took."""

    text: str
    sentences: tuple[Judged, ...]
    prompt_tokens: int = 0
    """Read by the model, in all parts; 0 where sentences were taken from the document."""
    tokens: int = 0
    """Written by the model."""
    parts: int = 1
    """In how many parts the document was read."""

    def __str__(self) -> str:
        return self.text

    @property
    def unsupported(self) -> tuple[Judged, ...]:
        """The sentences that nothing in the document bears out."""
        return tuple(sentence for sentence in self.sentences if sentence.supported is False)


@overload
def summarize(
    text: str, model: str | Path | Model = ..., length: str = ..., *, check: bool | Encoder = ..., take: bool = ...
) -> Summary: ...
@overload
def summarize(
    text: list[str] | tuple[str, ...],
    model: str | Path | Model = ...,
    length: str = ...,
    *,
    check: bool | Encoder = ...,
    take: bool = ...,
    batch: int = ...,
) -> list[Summary]: ...
def summarize(
    text: str | list[str] | tuple[str, ...],
    model: str | Path | Model = "smollm2",
    length: str = "medium",
    *,
    check: bool | Encoder = True,
    take: bool = False,
    batch: int = 8,
) -> Summary | list[Summary]:
    """The summary of a text, or of several, `batch` at a time.

    `length` is "short", "medium" or "long". `check` compares every sentence with the document by MiniLM (or the encoder
    given) and says which are supported. With `take` no model writes: the most central sentences of the document are
    the summary.
    """
    texts = [text] if isinstance(text, str) else list(text)
    encoder = open_encoder(check) if check or take else None
    if take:
        assert encoder is not None
        made = [taken(one, length, encoder) for one in texts]
    else:
        summarizer = Summarizer(open_model(model), length, batch)
        tasks = [summarizer.task(one) for one in texts]
        summarizer.run(tasks)
        pairs = zip(tasks, texts, strict=True)
        made = [judged(task, one, encoder) for task, one in pairs]
    return made[0] if isinstance(text, str) else made


def open_model(model: str | Path | Model) -> Model:
    """A model that is open already, or the one of this name with the weights in which it writes fastest."""
    return load_for_writing(model) if isinstance(model, str | Path) else model


def open_encoder(given: bool | Encoder = True) -> Encoder:
    """The encoder given, or MiniLM."""
    found = load(EMBEDDER) if isinstance(given, bool) else given
    if not isinstance(found, Encoder):
        raise UnsupportedError(f"check: got a {type(found).__name__}, wanted an encoder that embeds sentences")
    return found


def judged(task: Task, document: str, encoder: Encoder | None) -> Summary:
    """A finished task as a summary; without an encoder its sentences are not judged."""
    text = task.text or ""
    own = sentences(text)
    found: Iterable[Judged] = map(Judged, own) if encoder is None else judge(own, sentences(document), encoder)
    return Summary(text, tuple(found), task.prompt_tokens, task.tokens, task.parts)


def taken(document: str, length: str, encoder: Encoder) -> Summary:
    """The most central sentences; each is its own witness."""
    if not document.strip():
        raise ValueError("text: got an empty one, wanted something to summarize")
    chosen = extract(sentences(document), size_of(length).sentences, encoder)
    return Summary(" ".join(chosen), tuple(Judged(sentence, True, sentence, 1.0) for sentence in chosen))
