"""How precisely each array is kept, so that the page stays small: the most precise choice that fits is taken."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from headwise.errors import HeadwiseError
from headwise.views.page.data import Array, PageData, PagePlace, PageProjection, Values
from headwise.views.page.encode import encode
from headwise.views.page.replay import attend

AIM = 6_000_000
"""Bytes that a page may have while everything can be kept in float32."""
LIMIT = 12_000_000
"""Bytes that a page may have."""
_EXPANSION = 1.25 * 0.9
"""About what base 85 and deflate make of a byte of activations."""


class Precision(NamedTuple):
    """The number type of each kind of array; None leaves it out, and `layers` "some" keeps W_O where there is room."""

    steps: str
    output: str | None
    input: str | None
    layers: str = "all"


_SMALL = [
    Precision("float32", "float32", "float32"),
    Precision("float32", "float16", "float16"),
    Precision("float32", "float16", None),
    Precision("float32", "float16", "float16", "some"),
    Precision("float32", "float16", None, "some"),
]
_LARGE = [
    Precision("float32", "float16", None),
    Precision("float32", "float16", "float16", "some"),
    Precision("float32", "float16", None, "some"),
    Precision("float16", "float16", "float16"),
    Precision("float16", "float16", None),
    Precision("float16", "float16", None, "some"),
    Precision("float16", None, None),
]


NO_ROOM = "W_Q, W_K and W_V had no room in this page; choose less with --layers and --heads, or a shorter text."


class Packed(NamedTuple):
    """The places as the header names them, the text blocks they point to, and how they were kept."""

    places: list[Values]
    blocks: list[str]
    precision: Precision
    output_layers: list[tuple[str, int]]
    unprojected: str | None
    """Why W_Q, W_K and W_V are not there; None where they are."""


def pack(data: PageData, room: int, limit: int = LIMIT) -> Packed:
    """Pack as precisely as fits in AIM, or else in `limit`; `room` is what the page itself takes."""
    packer = _Packer(data)
    for choice, most, whole in _choices(data, limit):
        if packer.least(choice) + room > most * 1.1:
            continue
        packed = packer.packed(choice, most - room, whole)
        if packed is not None:
            return packed
    raise HeadwiseError(_too_large(data, int(packer.least(_LARGE[-1])) + room, limit))


def _choices(data: PageData, limit: int) -> Iterator[tuple[Precision, int, bool]]:
    """What is tried: how precisely, in how many bytes, and with W_Q, W_K and W_V or without.

    Those are left out before W_O of any layer is; but where W_O of far layers is left out anyway, they come first.
    """
    ways = (True, False) if isinstance(data.projection, PageProjection) else (False,)
    every = [choice for choice in _SMALL if choice.layers == "all"]
    yield from ((choice, min(AIM, limit), whole) for whole in ways for choice in every)
    yield from ((choice, min(AIM, limit), whole) for choice in _SMALL if choice not in every for whole in ways)
    yield from ((choice, limit, whole) for choice in _LARGE for whole in ways)


def _too_large(data: PageData, size: int, limit: int) -> str:
    heads = sum(len(place.heads) for place in data.places)
    tokens = max(len(stream.tokens) for stream in data.streams.values())
    fewer = max(1, int(heads * limit / size))
    return (
        f"the page would take {size / 1e6:.0f} MB in float16 and may take {limit / 1e6:.0f} MB: it holds {heads} heads "
        f"for {tokens} tokens; choose about {fewer} of them with --layers and --heads, or a shorter text"
    )


class _Packer:
    """Encodes each array at most once in each number type."""

    def __init__(self, data: PageData) -> None:
        self._data = data
        self._texts: dict[tuple[int, str], str] = {}

    def least(self, choice: Precision) -> float:
        """About how many bytes this choice takes, without W_O where it is kept for some layers only."""
        total = 0.0
        for place in self._data.places:
            total += _size(place.steps, choice.steps) + _size(place.input, choice.input)
            total += _size(place.output, choice.output) if choice.layers == "all" else 0
        return total * _EXPANSION

    def packed(self, choice: Precision, room: int, whole: bool = False) -> Packed | None:
        """The blocks of this choice, with or without projections, or None where they take more than `room`."""
        shelf = _Shelf(room)
        places = [self._place(place, choice, shelf) for place in self._data.places]
        projection = self._data.projection
        if whole and isinstance(projection, PageProjection):
            self._project(projection, places, shelf)
        if shelf.left < 0:
            return None
        kept: list[tuple[str, int]] = []
        wanted = [at for at, place in enumerate(self._data.places) if place.output and choice.output]
        for at in sorted(wanted, key=self._distance):
            place = self._data.places[at]
            texts = self._texts_of(place.output, choice.output)
            if sum(len(text) for _, _, text in texts.values()) > shelf.left:
                break
            places[at]["arrays"].update(shelf.put(texts))
            kept.append((place.mode, place.layer))
        enough = len(kept) == len(wanted) or (choice.layers == "some" and kept)
        why = None if whole else projection if isinstance(projection, str) else NO_ROOM
        return Packed(places, shelf.blocks, choice, sorted(kept), why) if enough else None

    def _project(self, projection: PageProjection, places: list[Values], shelf: "_Shelf") -> None:
        """Put W_Q, W_K and W_V, exact, beside the place that they belong to."""
        for place in places:
            if (place["mode"], place["layer"]) == (projection.mode, projection.layer):
                place["projected"] = projection.facts
                place["arrays"].update(shelf.put(self._texts_of(projection.arrays, "float32")))

    def _distance(self, at: int) -> int:
        """The layer that is open first comes first, then those beside it."""
        place, focus = self._data.places[at], self._data.focus
        other = 0 if place.mode == focus.get("mode", place.mode) else 1000
        return other + abs(place.layer - int(focus.get("layer", 0)))

    def _place(self, place: PagePlace, choice: Precision, shelf: "_Shelf") -> Values:
        arrays: Values = {}
        for group, kind in ((place.steps, choice.steps), (place.input, choice.input), (place.flags, "")):
            if kind is not None:
                arrays.update(shelf.put(self._texts_of(group, kind)))
        names = ("mode", "layer", "heads", "of", "shared", "scale", "replaced", "causal", "window", "bias_zero")
        return {name: getattr(place, name) for name in names} | {"arrays": arrays, "projected": None}

    def _texts_of(self, group: dict[str, Array], kind: str | None) -> "dict[str, _Text]":
        """The text of each array, as `kind` or, where that is empty, as it stands; norms are small and stay exact."""
        found: dict[str, _Text] = {}
        for name, values in group.items():
            own = "float32" if name.endswith("_norms") else kind or values.dtype.name
            key = (id(values), own)
            if key not in self._texts:
                self._texts[key] = encode(values.astype(own))
            found[name] = (own, list(values.shape), self._texts[key])
        return found


class _Shelf:
    """The blocks chosen so far, each text once, and the room that is left."""

    def __init__(self, room: int) -> None:
        self.left, self.blocks = room, list[str]()
        self._index: dict[str, int] = {}

    def put(self, texts: "dict[str, _Text]") -> Values:
        """Add what is new, and say where each array lies."""
        found: Values = {}
        for name, (kind, shape, text) in texts.items():
            if text not in self._index:
                self._index[text] = len(self.blocks)
                self.blocks.append(text)
                self.left -= len(text)
            found[name] = {"block": self._index[text], "type": kind, "shape": shape}
        return found


_Text = tuple[str, list[int], str]


def _size(group: dict[str, Array], kind: str | None) -> int:
    return 0 if kind is None else sum(values.size for values in group.values()) * np.dtype(kind).itemsize


def stored_error(data: PageData, packed: Packed) -> list[Values]:
    """How far numbers move because they are kept in float16: the largest difference in a weight, in z and in Z_f."""
    rows: list[Values] = []
    if packed.precision.steps == "float16":
        moved = [_moved(place) for place in data.places]
        rows.append({"what": "a weight", "error": max(weight for weight, _ in moved)})
        rows.append({"what": "z", "error": max(mixed for _, mixed in moved)})
    if packed.precision.output == "float16" and packed.output_layers:
        kept = set(packed.output_layers)
        through = max(_through(place) for place in data.places if (place.mode, place.layer) in kept)
        rows.append({"what": "Z_f", "error": through})
    return rows


def _moved(place: PagePlace) -> tuple[float, float]:
    """The largest difference in a weight and in z, over all heads kept and all queries."""
    weights = mixed = 0.0
    for head in place.heads:
        exact, short = (attend(place.origin, head, kind=kind) for kind in (np.float32, np.float16))
        weights = max(weights, float(np.abs(exact[0] - short[0]).max()))
        mixed = max(mixed, float(np.abs(exact[1] - short[1]).max()))
    return weights, mixed


def _through(place: PagePlace) -> float:
    """The largest difference in the sum of the kept heads through W_O."""
    weight = place.output["output_weight"]
    gap = weight - weight.astype(np.float16).astype(weight.dtype)
    return float(np.abs(np.einsum("hqd,hdo->qo", place.origin.mixed[list(place.heads)], gap)).max())
