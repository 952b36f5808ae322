"""Summarizer: one model, many documents; long ones in parts, and then the parts' summaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from headwise.errors import ContextError
from headwise.generation.compose import Completion, complete, pieces
from headwise.generation.manner import SIZES, Manner, Size, manner_of, size_of
from headwise.generation.own import read_own
from headwise.generation.prompts import check_writer
from headwise.generation.sentences import end_of, parts, sentences
from headwise.generation.settings import Settings, settle
from headwise.transformer.model import Decoder, Encoder, EncoderDecoder

CUT = " …"
"""What stands where a summary had to stop before it ended."""
PARTS = SIZES["medium"]
"""How long the summaries of a document's parts are."""
LEAST_ROOM = 64
"""Tokens of a text that a model must be able to read at once; with fewer no part would say anything."""


@dataclass
class Task:
    """A document on its way to its summary."""

    pieces: list[str]
    """What is to be read at this turn: the document, its parts, or the summaries of its parts."""
    parts: int
    """In how many parts the document was read."""
    prompt_tokens: int = 0
    tokens: int = 0
    """Written, in all turns."""
    text: str | None = None


class Summarizer:
    """Summaries of one length by one model, `batch` at a time."""

    def __init__(self, model: Encoder | Decoder | EncoderDecoder, length: str = "medium", batch: int = 8) -> None:
        self._size = size_of(length)
        if type(batch) is not int or batch < 1:
            raise ValueError(f"batch: got {batch!r}, wanted a whole number of 1 or more")
        self._batch = batch
        self._model = check_writer(model)
        own = read_own(self._model, "summarization")
        self._manner: Manner = manner_of(self._model, own)
        self._settings = settle(own, ())

    def task(self, text: str) -> Task:
        """The document cut into as many parts as the model needs; nothing is left out."""
        if not text.strip():
            raise ValueError("text: got an empty one, wanted something to summarize")
        found = self._split(text)
        return Task(found, len(found))

    def run(self, tasks: Sequence[Task], tell: Callable[[], None] | None = None) -> None:
        """Write the summaries of all; `tell` hears of each part that is done."""
        self.read_parts(tasks, tell)
        waiting = [task for task in tasks if task.text is None]
        for task, (summary,) in zip(waiting, self._write(waiting, self._settled(), self._size, tell), strict=True):
            task.text = summary

    def read_parts(self, tasks: Sequence[Task], tell: Callable[[], None] | None = None) -> None:
        """Until each document is of one piece: its parts are summarized at medium length, and then their summaries."""
        while several := [task for task in tasks if len(task.pieces) > 1]:
            for task, summaries in zip(several, self._write(several, self._of_parts(), PARTS, tell), strict=True):
                before, task.pieces = len(task.pieces), self._split("\n\n".join(summaries))
                if len(task.pieces) >= before:
                    raise ContextError(f"the summaries of the text's {before} parts are as long as the text")

    def stream(self, task: Task) -> Iterator[str]:
        """The summary of one document, piece by piece; what is of several parts is read before, without a word."""
        self.read_parts([task])
        settings = self._settled()
        if settings.beams > 1:
            self.run([task])
            yield task.text or ""
            return
        prompt = self._prompt(task, task.pieces[0], self._size)
        text, ended = "", False
        for draft, piece in pieces(self._model, [prompt], settings, _enough(self._size)):
            piece = piece if text else piece.lstrip()
            text, ended = text + piece, draft.ended
            task.tokens += 1
            yield piece
        task.text = _finished(text, ended)
        yield task.text[len(text.rstrip()) :]

    def _write(
        self, tasks: Sequence[Task], settings: Settings, size: Size, tell: Callable[[], None] | None
    ) -> list[list[str]]:
        """A summary of each piece of each task."""
        prompts = [self._prompt(task, piece, size) for task in tasks for piece in task.pieces]
        heard = None if tell is None else lambda _: tell()
        done = iter(complete(self._model, prompts, settings, self._batch, _enough(size), heard))
        return [[_counted(task, next(done)) for _ in task.pieces] for task in tasks]

    def _prompt(self, task: Task, piece: str, size: Size) -> list[int]:
        ids = self._manner.ask(piece, size)
        task.prompt_tokens += len(ids)
        return ids

    def _split(self, text: str) -> list[str]:
        """The text as it is where it fits at the length wished for, or parts of it that leave room to write."""
        most = self._manner.most
        if not most or len(self._manner.ask(text, self._size)) + self._writes(self._size) <= most:
            return [text.strip()]
        room = self._room()
        if room < LEAST_ROOM:
            raise ContextError(f"the model allows {most:,} tokens, too few to read a long text in parts")
        # Joining sentences may cost a token here and there.
        encode = self._model.tokenizer.encode
        return parts(sentences(text), lambda piece: len(encode(piece, special=False)) + 2, room)

    def _room(self) -> int:
        """Tokens of a part of a text that fit beside what surrounds it and what is written."""
        return self._manner.room(PARTS) - self._writes(PARTS)

    def _writes(self, size: Size) -> int:
        """How much of a context the summary takes: an encoder-decoder writes it elsewhere."""
        return 0 if self._manner.kind == "source" else self._most(size)

    def _most(self, size: Size) -> int:
        """Tokens of a summary; a model trained to a length of its own keeps to it, unless a short one is wished."""
        own, context = self._settings.own, self._model.config.context
        trained = own.max_new_tokens or (own.max_length or 0) - len(own.start)
        most = size.tokens if trained <= 0 else min(trained, size.tokens) if size is SIZES["short"] else trained
        if not context:
            return most
        # A decoder's context must hold the text as well.
        return min(most, context - len(own.start) if self._manner.kind == "source" else context // 3)

    def _settled(self) -> Settings:
        return self._with_most(self._most(self._size))

    def _of_parts(self) -> Settings:
        """The summaries of parts are so short that they shrink the text, whatever the model's own length is."""
        return self._with_most(min(self._most(PARTS), self._room() // 3))

    def _with_most(self, most: int) -> Settings:
        own = self._settings.own
        least = min(own.min_length, most // 2), min(own.min_new_tokens, most // 2)
        own = replace(own, min_length=least[0], min_new_tokens=least[1])
        return replace(self._settings, own=own, max_tokens=most, min_tokens=least[1])


def _enough(size: Size) -> Callable[[str], int | None]:
    return lambda text: end_of(text, size.sentences)


def _counted(task: Task, completion: Completion) -> str:
    task.tokens += completion.tokens
    return _finished(completion.text, completion.ended)


def _finished(text: str, ended: bool) -> str:
    return text.strip() + ("" if ended else CUT)
