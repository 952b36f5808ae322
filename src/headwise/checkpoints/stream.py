"""Text as it is generated: ids go in one by one, whole characters come out."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwise.checkpoints.tokenizer import Tokenizer


class Stream:
    """An incremental decoder: what it gives, joined, is what `decode` gives for all ids, and no character is split."""

    def __init__(self, tokenizer: Tokenizer, skip_special: bool = True) -> None:
        self._tokenizer = tokenizer
        self._skip = skip_special
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace") if tokenizer.is_byte_level else None
        self._before: list[int] = []
        self._waiting: list[int] = []

    def push(self, id: int) -> str:
        """The characters that this id completes, often none or several."""
        if self._bytes is not None:
            return self._bytes.decode(self._tokenizer.raw([id], self._skip)[0])
        self._waiting.append(id)
        # A run of bytes is decoded as one: a byte to come can still break what is whole now.
        text = "" if self._tokenizer.is_byte(id) else self._new_text()
        if not text:
            return ""
        self._before, self._waiting = self._waiting, []
        return text

    def finish(self) -> str:
        """What was held back in the hope of more."""
        if self._bytes is not None:
            return self._bytes.decode(b"", final=True)
        text = self._new_text()
        self._before, self._waiting = [], []
        return text

    def _new_text(self) -> str:
        """What the waiting ids add to the text of the ids before them."""
        known = self._tokenizer.decode(self._before, self._skip)
        whole = self._tokenizer.decode([*self._before, *self._waiting], self._skip)
        return whole[len(known) :]
