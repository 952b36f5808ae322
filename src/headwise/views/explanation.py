"""What `headwise explain` shows, as plain data: words, numbers and arrays. The terminal and the JSON read the same."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Truth = NDArray[np.bool_]


@dataclass(frozen=True)
class ShownWord:
    """A word, or a token that is none, and the positions of its tokens."""

    text: str
    tokens: tuple[int, ...]
    special: bool


@dataclass(frozen=True, eq=False)
class Overview:
    """How every head shares its weight among kinds of places."""

    layers: tuple[int, ...]
    kinds: tuple[str, ...]
    shares: Array
    """[layer, head, kind]; the mean over the words that look."""
    rows: int
    """How many words were looked at."""
    of: int
    """Out of how many."""


@dataclass(frozen=True)
class Look:
    """One head's look from the chosen word at another."""

    layer: int
    head: int
    word: int
    """The number of the word that is looked at."""
    weight: float
    habit: float
    """What this head gives there on average, from the other words."""


@dataclass(frozen=True, eq=False)
class Table:
    """Every step of one head for one token: a row per token that is looked at."""

    layer: int
    head: int
    query: int
    """The position of the token that looks."""
    dim: int
    scale: float
    q: Array
    tokens: tuple[str, ...]
    positions: tuple[int, ...]
    k: Array
    v: Array
    products: Array
    scaled: Array
    bias: Array | None
    allowed: Truth
    weights: Array
    weighted: Array
    z: Array
    wrote: Array | None
    """weight · ‖v W_O‖, where W_O is known."""


@dataclass(frozen=True, eq=False)
class AllHeads:
    """All heads' z side by side, through W_O."""

    z: Array
    """[head, dim of a head]."""
    parts: Array
    """[head, dim]."""
    total: Array
    bias: Array | None
    result: Array


@dataclass(frozen=True)
class Check:
    """The worst row of one check of the receipt."""

    check: str
    where: str
    error: float
    allowed: float
    ok: bool


@dataclass(frozen=True, eq=False)
class MovedText:
    """The similarity of one word to the others of its text."""

    text: str
    words: tuple[str, ...]
    before: Array
    """[word]: cosine before the first layer."""
    after: Array
    """[word]: after the last."""


@dataclass(frozen=True, eq=False)
class Moved:
    """One word in two texts."""

    word: str
    texts: tuple[MovedText, ...]
    before: float
    """The similarity of the word's two vectors before the first layer."""
    after: float


@dataclass(frozen=True, eq=False)
class Explanation:
    """One text, one word, one head."""

    text: str
    mode: str
    queries: tuple[ShownWord, ...]
    keys: tuple[ShownWord, ...]
    overview: Overview
    word: int
    """The number of the chosen word among `queries`."""
    why_word: str
    looks: tuple[Look, ...]
    why_head: str
    merged: str | None
    """How tokens were merged to words, where a word has several."""
    table: Table
    heads: AllHeads | None
    no_heads: str | None
    """Why the heads could not be joined."""
    receipt: tuple[Check, ...]
    unchecked: tuple[str, ...]
    about: dict[str, str] = field(default_factory=dict[str, str])
    command: str = ""
    moved: Moved | None = None
