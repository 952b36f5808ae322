"""Ordinary text to compare on: a file of the user's, or the documentation that comes with every Python."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import torch

from headwise.errors import HeadwiseError
from headwise.training.compare_tasks import Text

SIGNS = 96
"""The commonest signs; all others are one."""
SHORTEST = 20_000
"""Signs a text must have, so that there is enough to learn from and to judge by."""
LONGEST = 5_000_000
"""Signs that are read of a file: far more than a training of minutes comes to see."""
LITTLE = 10_000
"""Signs of the task with little data."""


class Texts(NamedTuple):
    """What is learned from, the same cut short, and what is judged by."""

    whole: Text
    little: Text
    held_out: Text


def ordinary_text(path: Path | None) -> str:
    """The file's text, or the topics of Python's `help()`."""
    if path is None:
        try:
            from pydoc_data.topics import topics
        except ImportError:
            raise HeadwiseError("--text: this Python came without its help topics; wanted --text FILE") from None
        return "\n\n".join(topics[name] for name in sorted(topics))
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(LONGEST)
    except UnicodeDecodeError as error:
        raise HeadwiseError(f"{path}: is not UTF-8: {error.reason}") from None
    if len(text) < SHORTEST:
        raise HeadwiseError(f"{path}: got {len(text):,} characters, wanted at least {SHORTEST:,} to learn from")
    return text


def text_tasks(text: str) -> Texts:
    """The first nine tenths are learned from, the last tenth is held out."""
    cut = len(text) * 9 // 10
    common = [sign for sign, _ in Counter(text[:cut]).most_common(SIGNS)]
    number = {sign: at for at, sign in enumerate(common)}
    words = (*common, "�")
    ids = torch.tensor([number.get(sign, len(common)) for sign in text])
    chance = (ids[cut:] == 0).float().mean().item()
    return Texts(
        Text("text", words, ids[:cut], chance),
        Text("little text", words, ids[: min(LITTLE, cut)], chance),
        Text("held out", words, ids[cut:], chance),
    )
