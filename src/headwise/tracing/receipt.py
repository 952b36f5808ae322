"""Receipt: how far what a trace shows differs from what the model computed, check by check and layer by layer.

The checks, and the largest error allowed, where eps is that of the dtype the model ran in:

    rows sum to one      the weights of every query that may look somewhere;                64 · eps of the record
    weights · v          against what the kernel returned;          8 · eps · (1 + largest |score|) · largest |v|
    heads through W_O    and its bias, against the layer's output;      8 · eps · largest |z| · largest row of |W_O|;
                         where W_O is packed, z is rounded to int8:   1/254 · largest |z| · largest row of |W_O| more
    final output         against the same run unrecorded;                            16 · eps · largest |output|

The allowed errors are bounds of rounding; a wrong mask, scale or head is larger by orders of magnitude.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from headwise.errors import HeadwiseError, ReceiptError
from headwise.tracing.arrays import Place, Whole
from headwise.tracing.steps import blocks_of, scores_of, softmax
from headwise.tracing.trace import Trace

MOST, SAMPLE = 2048, 256
"""Texts of more tokens have so many rows of weights checked, evenly spread; a sum over all rows is quadratic."""
SUM, MIX, JOIN, FINAL = "rows sum to one", "weights · v", "heads through W_O", "final output"
PACKED = {"int8": 1 / 254, "bfloat16": 1 / 64}
"""How far packed products may be off: half a step of 1/127; a few roundings of 1/256."""
EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


class Row(NamedTuple):
    """One check of one layer."""

    check: str
    mode: str
    layer: int | None
    """None where the check is of the whole model."""
    error: float
    """The largest difference found."""
    allowed: float

    @property
    def ok(self) -> bool:
        """Whether the error is small enough; one that is no number is not."""
        return self.error <= self.allowed


@dataclass(frozen=True)
class Receipt:
    """The checks that were made, and those that could not be."""

    rows: tuple[Row, ...]
    missing: tuple[str, ...] = ()
    """What could not be checked, and why, one sentence each."""
    dtype: str = "float32"

    @property
    def ok(self) -> bool:
        """Whether every check that was made passed."""
        return all(row.ok for row in self.rows)

    @property
    def worst(self) -> Row:
        """The row that comes nearest to what is allowed, or goes furthest beyond it."""
        return max(self.rows, key=lambda row: _share(row))

    def of(self, check: str) -> Row | None:
        """The worst row of one check."""
        return max((row for row in self.rows if row.check == check), key=_share, default=None)

    def require(self) -> None:
        """Raise a ReceiptError that names check, layer and error, unless all is well."""
        if self.ok:
            return
        row = next(row for row in self.rows if not row.ok)
        where = "the model" if row.layer is None else f"{row.mode} layer {row.layer}"
        raise ReceiptError(
            f"receipt: {row.check}, {where}: differs by {row.error:.3g}, allowed is {row.allowed:.3g} ({self.dtype}); "
            "nothing is shown, because it would not be what the model computed"
        )


def write_receipt(trace: Trace, layers: Iterable[int] | None = None) -> Receipt:
    """Check every recorded attention, or those of these layers, and the final output where the model ran again."""
    wanted = None if layers is None else set(layers)
    if wanted is not None and not wanted <= set(trace.layers):
        raise HeadwiseError(f"layers: got {sorted(wanted)}, this trace has {list(trace.layers)}")
    dtype = trace.about.get("dtype", "float32")
    rows: list[Row] = []
    missing: list[str] = []
    for (_, layer), place in trace.places.items():
        if wanted is None or layer in wanted:
            rows += _check_place(place, dtype, PACKED.get(trace.about.get("products", ""), 0.0))
            missing += _missing(place)
    rows += _final(trace, dtype)
    if trace.rerun is None:
        missing.append(f"{FINAL}: the model was not run again")
    return Receipt(tuple(rows), tuple(missing), dtype)


def _check_place(place: Place, dtype: str, rounding: float) -> Iterator[Row]:
    eps = max(EPSILON.get(dtype, EPSILON["float32"]), float(np.finfo(place.query.dtype).eps))
    unsummed, unmixed, score = 0.0, 0.0, 0.0
    rows = _rows(place)
    for head in range(place.heads):
        for part in blocks_of(rows, place.keys):
            summed, mixed, highest = _check_rows(place, head, rows[part])
            unsummed, unmixed = _worse(unsummed, summed), _worse(unmixed, mixed)
            score = max(score, highest)
    largest = float(np.abs(place.value).max())
    yield Row(SUM, place.mode, place.layer, unsummed, 64 * float(np.finfo(place.query.dtype).eps))
    yield Row(MIX, place.mode, place.layer, unmixed, 8 * eps * (1 + score) * largest)
    if place.output_weight is not None and place.output is not None:
        yield _check_output(place, 8 * eps + rounding)


def _rows(place: Place) -> Whole:
    """The queries whose weights are checked: all of them, or of a long text a sample with the first and the last."""
    if place.queries <= MOST:
        return np.arange(place.queries)
    return np.linspace(0, place.queries - 1, SAMPLE).astype(np.int64)


def _check_rows(place: Place, head: int, rows: Whole) -> tuple[float, float, float]:
    """The largest error of the sums and of weights·v, and the largest score, for some rows of one head."""
    scores = scores_of(place, head, rows)
    most = scores.max(axis=-1, initial=-np.inf)
    looks = most != -np.inf
    highest = max(float(most[looks].max(initial=0)), -float(scores.min(where=scores > -np.inf, initial=0)))
    weights = softmax(scores)
    summed = float(np.abs(weights.sum(axis=-1) - looks).max(initial=0))
    if head in place.replaced:
        return summed, 0.0, highest
    difference = weights @ place.value[place.shared(head)] - place.mixed[head, rows]
    return summed, float(np.abs(difference).max(initial=0)), highest


def _check_output(place: Place, allowed: float) -> Row:
    """Σ z_h W_O_h + bias against what left the layer."""
    assert place.output_weight is not None
    assert place.output is not None
    heads, _, width = place.mixed.shape
    total = np.zeros(place.output.shape, dtype=place.output.dtype)
    for head in range(heads):
        total += place.mixed[head] @ place.output_weight[:, head * width : (head + 1) * width].T
    size = float(np.abs(place.mixed).max()) * float(np.abs(place.output_weight).sum(axis=1).max())
    if place.output_bias is not None:
        total += place.output_bias
        size += float(np.abs(place.output_bias).max())
    error = float(np.abs(total - place.output).max(initial=0))
    return Row(JOIN, place.mode, place.layer, error, allowed * size)


def _missing(place: Place) -> Iterator[str]:
    where = f"{place.mode} layer {place.layer}"
    if place.output_weight is None or place.output is None:
        yield f"{JOIN}, {where}: W_O was not found in this model's structure"
    if place.queries > MOST:
        yield f"{MIX}, {where}: of {place.queries} rows {SAMPLE} were checked, evenly spread"
    if place.replaced:
        yield f"{MIX}, {where}: an edit replaced z of head {', '.join(map(str, place.replaced))}"


def _final(trace: Trace, dtype: str) -> Iterator[Row]:
    if trace.rerun is None:
        return
    after = [stream.after for stream in trace.streams.values() if stream.after is not None]
    size = max((float(np.abs(vectors).max()) for vectors in after), default=1.0)
    yield Row(FINAL, trace.modes[-1], None, trace.rerun, 16 * EPSILON.get(dtype, EPSILON["float32"]) * size)


def _worse(one: float, other: float) -> float:
    """The larger of two errors, where one that is no number is the largest."""
    return other if other > one or np.isnan(other) else one


def _share(row: Row) -> float:
    """The error as a part of what is allowed."""
    if np.isnan(row.error):
        return float("inf")
    return row.error / row.allowed if row.allowed else (float("inf") if row.error else 0.0)
