"""Trace: what every attention of a model received and returned for one text, as plain numpy arrays.

A trace holds no weights: those are recomputed for the rows somebody looks at, so it grows with the number of tokens
and not with its square. It needs no torch and no model.

    trace.places[("encoder", 3)]    Place: query, key, value, mixed, scale, mask, bias, output_weight, output, input
    trace.streams["encoder"]        Stream: tokens, ids, text, offsets, special, before, after
    trace.about                     model, family, source, fingerprint, dtype, kernel, headwise: facts as text
    trace.rerun                     the largest difference of the final output to the same run unrecorded; None: not run

Keys and queries are those the kernel received, so after rotary or other position encoding: q·k before rotation is not
stored. The mode "cross" looks from the decoder's stream at the encoder's; the others look at their own. Models of the
transformers library may leave `output_weight`, `output` and `input` empty, where their structure does not tell.

`save` writes one safetensors file. Its tensors are named `MODE.LAYER.FIELD` and `STREAM.FIELD`; its metadata has the
JSON texts `about`, `streams` and `places`, and `headwise_trace`, the version of this schema, "1".
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headwise.errors import HeadwiseError
from headwise.tracing.arrays import Array, Place, Stream, Whole
from headwise.tracing.steps import Joined, Steps, Wrote, join, take_steps, take_weights, written

if TYPE_CHECKING:
    from headwise.tracing.receipt import Receipt

MODES = ("encoder", "decoder", "cross")
Rows = int | slice | Iterable[int] | None


@dataclass(frozen=True, eq=False)
class Trace:
    """What every recorded attention received and returned for one text."""

    places: Mapping[tuple[str, int], Place]
    """By mode and layer."""
    streams: Mapping[str, Stream]
    """By name, "encoder" or "decoder"."""
    about: Mapping[str, str] = field(default_factory=dict[str, str])
    rerun: float | None = None
    again: Callable[[], float] | None = field(default=None, repr=False)
    """Runs the model once more, unrecorded, and gives `rerun`; not saved."""

    def __repr__(self) -> str:
        modes = ", ".join(f"{mode}: layers {_ranges(self.layers_of(mode))}" for mode in self.modes)
        return f"Trace({len(self.tokens)} tokens, {modes}, {self.heads} heads)"

    def _repr_html_(self) -> str:
        """The page, in a frame of its own: what a notebook shows."""
        from headwise.views.page.write import trace_html

        return trace_html(self)

    @cached_property
    def modes(self) -> tuple[str, ...]:
        """Which of encoder, decoder and cross were recorded."""
        return tuple(mode for mode in MODES if any(mode == own for own, _ in self.places))

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens that look: the decoder's where there is one, otherwise the encoder's."""
        return self.query_stream(self.modes[-1]).tokens

    @property
    def layers(self) -> tuple[int, ...]:
        """The recorded layers, of any mode."""
        return tuple(sorted({layer for _, layer in self.places}))

    @property
    def heads(self) -> int:
        """Heads per layer (the most, where layers differ)."""
        return max(place.heads for place in self.places.values())

    def layers_of(self, mode: str) -> tuple[int, ...]:
        """The recorded layers of one mode."""
        return tuple(sorted(layer for own, layer in self.places if own == mode))

    def query_stream(self, mode: str) -> Stream:
        """The tokens that look."""
        return self.streams["encoder" if mode == "encoder" else "decoder"]

    def key_stream(self, mode: str) -> Stream:
        """The tokens that are looked at."""
        return self.streams["decoder" if mode == "decoder" else "encoder"]

    def place(self, layer: int, mode: str | None = None) -> Place:
        """One attention; `mode` may be left out where only one was recorded."""
        if mode is None:
            mode, *others = self.modes
            if others:
                raise HeadwiseError(f"mode: this trace has {', '.join(self.modes)}; say which")
        if mode not in self.modes:
            raise HeadwiseError(f"mode: got {mode!r}, this trace has {', '.join(self.modes)}")
        if (mode, layer) not in self.places:
            raise HeadwiseError(f"layer: got {layer}, this trace has {_ranges(self.layers_of(mode))} ({mode})")
        return self.places[mode, layer]

    def weights(self, layer: int, head: int | None = None, rows: Rows = None, mode: str | None = None) -> Array:
        """The attention weights [head, query, key], recomputed; without the axis of what is given as one number."""
        place = self.place(layer, mode)
        heads = np.arange(place.heads) if head is None else np.array([check_head(place, head)])
        chosen = _rows(place, rows)
        weights = take_weights(place, heads, chosen)
        if isinstance(rows, int):
            weights = weights[:, 0]
        return weights if head is None else weights[0]

    def steps(self, layer: int, head: int, query: int, mode: str | None = None) -> Steps:
        """Every step of one head for one query, from q, k and v to z."""
        place = self.place(layer, mode)
        return take_steps(place, check_head(place, head), check_query(place, query))

    def wrote(self, layer: int, head: int, query: int, mode: str | None = None) -> Wrote:
        """What each key contributed to the layer's output through this head and W_O."""
        place = self.place(layer, mode)
        steps = self.steps(layer, head, query, mode)
        _output_weight(place)
        weight = place.head_output_weight(head)
        assert weight is not None
        return written(place, head, steps, weight)

    def joined(self, layer: int, query: int, mode: str | None = None) -> Joined:
        """z of all heads side by side, each through its block of W_O, their sum, the bias and the result."""
        place = self.place(layer, mode)
        return join(place, check_query(place, query), _output_weight(place))

    def receipt(self, layers: Iterable[int] | None = None) -> "Receipt":
        """How far what is shown differs from what the model computed; runs the model again where it can."""
        from headwise.tracing.receipt import write_receipt

        if self.rerun is None and self.again is not None:
            object.__setattr__(self, "rerun", self.again())
        return self._whole_receipt if layers is None else write_receipt(self, layers)

    @cached_property
    def _whole_receipt(self) -> "Receipt":
        from headwise.tracing.receipt import write_receipt

        return write_receipt(self)

    def save(self, path: str | Path) -> None:
        """Write one safetensors file, under a temporary name until it is whole."""
        from headwise.tracing.file import save_trace

        save_trace(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> "Trace":
        """Read what `save` wrote; every field is checked."""
        from headwise.tracing.file import load_trace

        return load_trace(Path(path))


def check_head(place: Place, head: int) -> int:
    """The head, or an error that says which there are."""
    if not 0 <= head < place.heads:
        raise HeadwiseError(f"head: got {head}, layer {place.layer} has the heads 0 to {place.heads - 1}")
    return head


def check_query(place: Place, query: int) -> int:
    """The query counted from the first one, or an error that says how many there are."""
    if not -place.queries <= query < place.queries:
        raise HeadwiseError(f"query: got {query}, this trace has the tokens 0 to {place.queries - 1}")
    return query % place.queries


def _output_weight(place: Place) -> Array:
    if place.output_weight is None:
        raise HeadwiseError(
            f"{place.mode} layer {place.layer}: W_O was not found in this model's structure, "
            "so what a head wrote through it cannot be told"
        )
    return place.output_weight


def _rows(place: Place, rows: Rows) -> Whole:
    if rows is None:
        return np.arange(place.queries)
    if isinstance(rows, slice):
        return np.arange(place.queries)[rows]
    chosen = [rows] if isinstance(rows, int) else list(rows)
    return np.array([check_query(place, int(row)) for row in chosen], dtype=np.int64)


def _ranges(layers: tuple[int, ...]) -> str:
    """0-5 for a full range, otherwise a list."""
    if len(layers) > 1 and layers == tuple(range(layers[0], layers[-1] + 1)):
        return f"{layers[0]}-{layers[-1]}"
    return ", ".join(map(str, layers)) or "none"
