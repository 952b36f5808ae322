"""What every kind of tokenizer shares: guarded calls into the tokenizers library, and the ids that have a role."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwise.errors import HeadwiseError, TokenizerError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend


# The names that checkpoints give to the tokens with a role; the first that is there counts.
NAMES = {
    "begin": ("bos_token", "cls_token"),
    "end": ("eos_token", "sep_token"),
    "pad": ("pad_token",),
    "unknown": ("unk_token",),
    "mask": ("mask_token",),
    "separator": ("sep_token",),
}


@dataclass(frozen=True)
class Roles:
    """The ids that begin, end, fill and separate texts, under the names that the checkpoint gives them."""

    ids: Mapping[str, int]
    more_ends: tuple[int, ...] = ()

    def get(self, role: str) -> int | None:
        """The id with this role, or None where the model has no such token."""
        return next((self.ids[name] for name in NAMES[role] if name in self.ids), None)


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
