"""What every kind of tokenizer shares: guarded calls into the tokenizers library, and the ids that have a role."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwise.errors import HeadwiseError, TokenizerError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend


@dataclass(frozen=True)
class Roles:
    """The ids that begin, end, fill and separate texts; None where the model has no such token."""

    begin: int | None = None
    end: int | None = None
    pad: int | None = None
    unknown: int | None = None
    mask: int | None = None
    separator: int | None = None
    more_ends: tuple[int, ...] = ()

    def ids(self) -> set[int]:
        """All of them."""
        own = (self.begin, self.end, self.pad, self.unknown, self.mask, self.separator)
        return {id for id in (*own, *self.more_ends) if id is not None}


@contextmanager
def guarded(where: object, field: str) -> Generator[None]:
    """Turn what the library raises, a panic included, into one line."""
    try:
        yield
    except (HeadwiseError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a panic of the library is no Exception
        problem = " ".join(str(error).split())[:200] or type(error).__name__
        raise TokenizerError(where, field, problem) from error


def frame(backend: Backend, begin: int | None, end: int | None) -> None:
    """Put these ids before and after every text."""
    from tokenizers import processors

    ids = {name: id for name, id in (("begin", begin), ("end", end)) if id is not None}
    special = [{"id": name, "ids": [id], "tokens": [backend.id_to_token(id)]} for name, id in ids.items()]
    single = ["begin:0"] * ("begin" in ids) + ["$A:0"] + ["end:0"] * ("end" in ids)
    second = ["begin:1"] * ("begin" in ids) + ["$B:1"] + ["end:1"] * ("end" in ids)
    backend.post_processor = processors.TemplateProcessing(
        single=single,
        pair=[*single, *second],
        special_tokens=special,  # pyright: ignore[reportArgumentType]
    )
