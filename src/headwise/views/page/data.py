"""The data schema of the page: what one trace says, as plain values and named arrays (docs/page.md describes it)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from headwise.tracing.arrays import Place

SCHEMA = "headwise-page/1"

Array = NDArray[Any]
Values = dict[str, Any]


@dataclass(frozen=True, eq=False)
class PageStream:
    """One sequence of tokens, with the words they make up."""

    text: str | None
    tokens: Sequence[str]
    offsets: Sequence[tuple[int, int]] | None
    special: Sequence[bool]
    words: Sequence[Sequence[int]]
    """The positions of the tokens of each word; every token belongs to one."""
    written_from: int | None = None
    """The first token that the model wrote itself."""


@dataclass(frozen=True, eq=False)
class PagePlace:
    """One attention: which heads are here, and the arrays that its steps need."""

    mode: str
    layer: int
    heads: Sequence[int]
    """The numbers of the heads kept, in order."""
    of: int
    """How many heads the layer has."""
    shared: Sequence[int]
    """For each head kept, the row of `key` and `value` that it uses."""
    scale: float
    replaced: Sequence[int]
    """The heads whose z an edit replaced: theirs is `mixed`, not weights·v."""
    causal: bool
    window: int | None
    bias_zero: int | None
    """The column of distance nought, where the bias is kept by distance."""
    steps: dict[str, Array]
    """query, key, value, and where there are any key_norms, head_norms, bias, output_bias, mixed."""
    flags: dict[str, Array]
    """allowed, documents: who may look at whom, where a rule does not say it."""
    output: dict[str, Array]
    """output_weight [head, value_dim, dim], where W_O is known."""
    input: dict[str, Array]
    """input [query, dim]: what q was projected from."""
    origin: Place
    """The record that all of it was taken from; it is not kept."""


@dataclass(frozen=True, eq=False)
class PageProjection:
    """What made q, k and v of one head."""

    mode: str
    layer: int
    facts: Values
    """head, rounding, norms, error, allowed."""
    arrays: dict[str, Array]
    """given [query, dim], given_memory; query_, key_ and value_weight [dim of a head, dim]; biases, norms, angles."""


@dataclass(frozen=True, eq=False)
class PageReceipt:
    """What was compared with the model's own numbers, and how far apart they were."""

    ok: bool
    rows: Sequence[Values]
    """check, layer, error and, where it is known, tolerance."""
    worst: float


@dataclass(frozen=True, eq=False)
class PageData:
    """All that the page shows, before it is packed."""

    title: str
    streams: dict[str, PageStream]
    """By name: encoder, decoder."""
    places: Sequence[PagePlace]
    receipt: PageReceipt
    model: Values = field(default_factory=dict[str, Any])
    """Readable facts about the model and the run, shown in the order given."""
    command: str | None = None
    focus: Values = field(default_factory=dict[str, Any])
    """mode, layer, head and token that are open first."""
    projection: PageProjection | str = ""
    """Of the head that is open first, or a sentence that says why there is none."""


STREAMS = {"encoder": ("encoder", "encoder"), "decoder": ("decoder", "decoder"), "cross": ("decoder", "encoder")}
"""For each mode the stream that looks, and the stream that is looked at."""
