"""The plain parts of a trace: who may look at whom, the position bias, and one attention with all it received."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Whole = NDArray[np.int64]
Truth = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Visibility:
    """Who may look at whom, as a description; every part that is given must allow it.

    The last query stands at the last key: query i stands at position keys - queries + i.
    """

    causal: bool = False
    """No query sees a key that stands after it."""
    window: int | None = None
    """A query sees only keys less than this many positions away from it."""
    documents: Whole | None = None
    """[key]: texts packed in one row; a query sees keys of its own number only."""
    allowed: Truth | None = None
    """[head or 1, query or 1, key]: True where the query may look; None where only the other parts decide."""
    cuts: Whole | None = None
    """[cut, 3]: head, query and key of single edges that an edit cut."""

    @property
    def everything(self) -> bool:
        """Whether nothing is blocked."""
        return not self.causal and all(part is None for part in (self.window, self.documents, self.allowed, self.cuts))

    def rows(self, head: int, rows: Whole, queries: int, keys: int) -> Truth:
        """[row, key]: True where these queries of this head may look."""
        here, there = rows[:, None] + (keys - queries), np.arange(keys)
        result = np.ones((len(rows), keys), dtype=np.bool_)
        if self.causal:
            result &= there <= here
        if self.window is not None:
            result &= np.abs(there - here) < self.window
        if self.documents is not None:
            result &= self.documents[here] == self.documents
        if self.allowed is not None:
            own = self.allowed[head if len(self.allowed) > 1 else 0]
            result &= own[rows] if len(own) > 1 else own
        for _, query, key in self.cuts[self.cuts[:, 0] == head] if self.cuts is not None else ():
            result[rows == query, key] = False
        return result


@dataclass(frozen=True, eq=False)
class Bias:
    """What is added to the scaled scores: by distance, values[head, key - query + zero], or number by number."""

    values: Array
    """[head or 1, distance] where `zero` is given, otherwise [head or 1, query or 1, key]."""
    zero: int | None = None
    """The column of distance nought."""

    def rows(self, head: int, rows: Whole, queries: int, keys: int) -> Array:
        """[row, key]: the bias of these queries of this head."""
        own = self.values[head if len(self.values) > 1 else 0]
        if self.zero is not None:
            here = rows[:, None] + (keys - queries)
            return own[np.arange(keys) - here + self.zero]
        return own[rows] if len(own) > 1 else np.broadcast_to(own, (len(rows), keys))


@dataclass(frozen=True, eq=False)
class Place:
    """One attention of the model, and all that its kernel received and returned for one text."""

    mode: str
    """encoder, decoder or cross."""
    layer: int
    query: Array
    """[head, query, head_dim], after position encoding: what the kernel received."""
    key: Array
    """[key_value_head, key, head_dim]; heads in groups share one, head h uses h // (heads / key_value_heads)."""
    value: Array
    """[key_value_head, key, value_dim]."""
    mixed: Array
    """[head, query, value_dim]: what the kernel returned, called z in the courses."""
    scale: float
    """What q·k is multiplied with, 1/√head_dim unless the model says otherwise."""
    mask: Visibility
    bias: Bias | None = None
    output_weight: Array | None = None
    """W_O, [dim, heads · value_dim]: its columns lie head by head; None where it could not be found."""
    output_bias: Array | None = None
    """[dim]."""
    output: Array | None = None
    """[query, dim]: what left the layer after W_O."""
    input: Array | None = None
    """[query, dim]: what the attention was given, before it was projected to q, k and v."""
    replaced: tuple[int, ...] = ()
    """The heads whose z an edit replaced: their `mixed` is not weights·v."""

    @property
    def heads(self) -> int:
        """The number of query heads."""
        return self.query.shape[0]

    @property
    def queries(self) -> int:
        """The number of tokens that look."""
        return self.query.shape[1]

    @property
    def keys(self) -> int:
        """The number of tokens that are looked at."""
        return self.key.shape[1]

    def shared(self, head: int) -> int:
        """The key and value head that this head uses."""
        return head // (self.heads // self.key.shape[0])

    def head_output_weight(self, head: int) -> Array | None:
        """[dim, value_dim]: the block of W_O that belongs to this head."""
        width = self.mixed.shape[2]
        return None if self.output_weight is None else self.output_weight[:, head * width : (head + 1) * width]


@dataclass(frozen=True, eq=False)
class Stream:
    """One sequence of tokens: what the encoder read, or what the decoder read and wrote."""

    tokens: tuple[str, ...]
    """Readable pieces, one per token."""
    ids: Whole | None = None
    """[token]; None where the input was not text."""
    text: str | None = None
    offsets: Whole | None = None
    """[token, 2]: where each token starts and ends in `text`; the two are equal for tokens that are not in it."""
    special: Truth | None = None
    """[token]: True for tokens that the tokenizer added, such as [CLS]."""
    before: Array | None = None
    """[token, dim]: the vectors before the first layer."""
    after: Array | None = None
    """[token, dim]: the vectors after the last layer (and its norm)."""
