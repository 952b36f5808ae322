"""Summarizer: one model, many documents; long ones in parts, and then the parts' summaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from headwise.errors import ContextError
from headwise.generation.compose import complete, pieces
from headwise.generation.manner import SIZES, Manner, Size, manner_of, size_of
from headwise.generation.own import read_own
from headwise.generation.prompts import check_writer
from headwise.generation.sentences import end_of, parts, sentences
from headwise.generation.settings import Settings, settle
from headwise.transformer.model import Decoder, Encoder, EncoderDecoder

CUT = " …"
"""What stands where a summary had to stop before it ended."""


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
    written: list[str] = field(default_factory=list)


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
        found = self._fitting(text, self._size)
        if len(found) > 1:
            found = self._fitting(text, SIZES["medium"])
        return Task(found, len(found))

    def run(self, tasks: Sequence[Task], tell: Callable[[], None] | None = None) -> None:
        """Write the summaries of all; `tell` hears of each part that is done."""
        while waiting := [task for task in tasks if task.text is None]:
            for several in (True, False):
                # Parts are summarized at medium length, and whole documents at the length wished for.
                chosen = [task for task in waiting if (len(task.pieces) > 1) == several]
                self._turn(chosen, SIZES["medium"] if several else self._size, tell)

    def stream(self, task: Task) -> Iterator[str]:
        """The summary of one document, piece by piece; parts that come before it are written in silence."""
        while len(task.pieces) > 1:
            self._turn([task], SIZES["medium"], None)
        prompt = self._prompt(task, task.pieces[0], self._size)
        settings = self._settled(self._size)
        if settings.beams > 1:
            self._turn([task], self._size, None)
            yield task.text or ""
            return
        text, ended = "", False
        for draft, piece in pieces(self._model, [prompt], settings, self._enough(self._size)):
            piece = piece if text else piece.lstrip()
            text, ended = text + piece, draft.ended
            task.tokens += 1
            yield piece
        task.text = _finished(text, ended)
        yield task.text[len(text.rstrip()) :]

    def _turn(self, tasks: Sequence[Task], size: Size, tell: Callable[[], None] | None) -> None:
        """One summary of each piece; a document of one piece is done, the others go on with what was written."""
        jobs = [(task, piece) for task in tasks for piece in task.pieces]
        prompts = [self._prompt(task, piece, size) for task, piece in jobs]
        settings, enough = self._settled(size), self._enough(size)
        heard = None if tell is None else lambda _: tell()
        done = complete(self._model, prompts, settings, self._batch, enough, heard)
        for (task, _), completion in zip(jobs, done, strict=True):
            task.tokens += completion.tokens
            task.written.append(_finished(completion.text, completion.ended))
        for task in tasks:
            if len(task.pieces) == 1:
                task.text = task.written[0]
            else:
                task.pieces = self._fitting("\n\n".join(task.written), SIZES["medium"])
            task.written = []

    def _prompt(self, task: Task, piece: str, size: Size) -> list[int]:
        ids = self._manner.ask(piece, size)
        task.prompt_tokens += len(ids)
        return ids

    def _fitting(self, text: str, size: Size) -> list[str]:
        """The text as it is where it fits, or its parts."""
        writes = 0 if self._manner.kind == "source" else size.tokens
        room = self._manner.room(size) - writes if self._manner.most else 0
        if not room or len(self._manner.ask(text, size)) + writes <= self._manner.most:
            return [text.strip()]
        if room < 2 * SIZES["medium"].tokens and self._manner.kind != "source":
            raise ContextError(
                f"the model allows {self._manner.most:,} tokens, too few to read a long text in parts beside "
                f"a summary of {size.tokens:,}"
            )
        # Joining sentences may cost a token here and there.
        encode = self._model.tokenizer.encode
        return parts(sentences(text), lambda piece: len(encode(piece, special=False)) + 2, room)

    def _enough(self, size: Size) -> Callable[[str], int | None]:
        return lambda text: end_of(text, size.sentences)

    def _settled(self, size: Size) -> Settings:
        """The length wished for; a model trained to a length of its own keeps to it, unless a short one is wished."""
        own = self._settings.own
        trained = own.max_new_tokens or (own.max_length or 0) - len(own.start)
        most = trained if trained > 0 and size is not SIZES["short"] else size.tokens
        least = min(own.min_length, most // 2), min(own.min_new_tokens, most // 2)
        own = replace(own, min_length=least[0], min_new_tokens=least[1])
        return replace(self._settings, own=own, max_tokens=most, min_tokens=least[1])


def _finished(text: str, ended: bool) -> str:
    return text.strip() + ("" if ended else CUT)
