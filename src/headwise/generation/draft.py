"""Draft: one text in the making, its tokens and what is readable of them."""

from __future__ import annotations

import random
from collections.abc import Callable

from headwise.checkpoints.stream import Stream
from headwise.checkpoints.tokenizer import Tokenizer
from headwise.generation.rules import Written
from headwise.generation.settings import Settings


class Draft:
    """Tokens go in, readable pieces come out; it is `done` at an end token, a stop string or the last allowed token.

    `enough`, asked after each token, may say where the text so far ends.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        given: list[int],
        settings: Settings,
        most: int,
        enough: Callable[[str], int | None] | None = None,
    ) -> None:
        self.written = Written(list(given), len(given), most)
        self.text = ""
        self.done = False
        self.ended = False
        """Whether it ended by itself, and not for want of room."""
        self._ends, self._enough = settings.ends, enough
        self._stream = Stream(tokenizer)
        self._gate = StopGate(settings.stop)
        self._random = random.Random(settings.seed)

    @property
    def ids(self) -> list[int]:
        """The tokens that were written."""
        return self.written.ids[self.written.given :]

    def draw(self) -> float:
        """This text's next random number: the same whatever else is written beside it."""
        return self._random.random()

    def push(self, id: int) -> str:
        """The text that this token makes readable."""
        self.written.ids.append(id)
        if id in self._ends:
            return self._finish(ended=True)
        piece = self._gate.push(self._stream.push(id))
        end = None if self._enough is None else self._enough(self.text + piece)
        if end is not None:
            piece = piece[: max(0, end - len(self.text))]
        self.text += piece
        if self._gate.shut or end is not None:
            self.done = self.ended = True
        elif self.written.new >= self.written.most:
            piece += self._finish(ended=False)
        return piece

    def _finish(self, ended: bool) -> str:
        """What was held back comes out at last."""
        piece = self._gate.push(self._stream.finish())
        piece += self._gate.finish()
        self.text += piece
        self.done, self.ended = True, ended or self._gate.shut
        return piece


class StopGate:
    """Lets text pass up to the first stop string, and holds back what may be the beginning of one."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._held = ""
        self.shut = False

    def push(self, piece: str) -> str:
        """The text that certainly comes before any stop string."""
        if self.shut:
            return ""
        self._held += piece
        found = [place for stop in self._stops if (place := self._held.find(stop)) >= 0]
        if found:
            self.shut = True
            passed, self._held = self._held[: min(found)], ""
            return passed
        keep = self._possible_beginning()
        passed, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return passed

    def finish(self) -> str:
        """What was held back, now that no more comes."""
        passed, self._held = self._held, ""
        return passed

    def _possible_beginning(self) -> int:
        """How many of the last characters could begin a stop string."""
        longest = min(max(map(len, self._stops), default=1) - 1, len(self._held))
        return next(
            (
                size
                for size in range(longest, 0, -1)
                if any(stop.startswith(self._held[-size:]) for stop in self._stops)
            ),
            0,
        )
