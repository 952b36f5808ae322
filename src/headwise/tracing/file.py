"""A trace as one safetensors file: tensors by name, and three JSON texts; read as hostile."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from headwise.errors import CheckpointError, HeadwiseError
from headwise.tracing.arrays import Array, Bias, Place, Stream, Visibility
from headwise.tracing.trace import MODES, Trace

VERSION = "1"
_ARRAYS = ("query", "key", "value", "mixed", "output_weight", "output_bias", "output", "input")
_NEEDED = ("query", "key", "value", "mixed")
_STREAM_ARRAYS = ("ids", "offsets", "special", "before", "after")
_FLOATS = (np.float32, np.float64)


def save_trace(trace: Trace, path: Path) -> None:
    """Write the file under a temporary name and rename it when it is whole."""
    tensors: dict[str, Array] = {}
    shared: dict[int, str] = {}

    def put(name: str, array: Any) -> str:
        """Masks and biases that layers share are written once."""
        if id(array) not in shared:
            shared[id(array)] = name
            tensors[name] = np.ascontiguousarray(array)
        return shared[id(array)]

    places = {f"{mode}.{layer}": _place_fields(place, put) for (mode, layer), place in trace.places.items()}
    streams = {name: _stream_fields(name, stream, put) for name, stream in trace.streams.items()}
    metadata = {
        "headwise_trace": VERSION,
        "about": json.dumps({**trace.about, "rerun": trace.rerun}),
        "places": json.dumps(places),
        "streams": json.dumps(streams),
    }
    part = path.with_name(f".{path.name}.part")
    try:
        save_file(tensors, str(part), metadata)
        part.replace(path)
    except (OSError, SafetensorError) as error:
        part.unlink(missing_ok=True)
        raise HeadwiseError(f"{path}: cannot be written: {error}") from None


def _place_fields(place: Place, put: Any) -> dict[str, Any]:
    name = f"{place.mode}.{place.layer}"
    written: dict[str, Any] = {"scale": place.scale, "replaced": place.replaced}
    for field in _ARRAYS:
        if getattr(place, field) is not None:
            written[field] = put(f"{name}.{field}", getattr(place, field))
    mask = place.mask
    written["mask"] = {"causal": mask.causal, "window": mask.window}
    for field in ("documents", "allowed", "cuts"):
        if getattr(mask, field) is not None:
            written["mask"][field] = put(f"{name}.mask.{field}", getattr(mask, field))
    if place.bias is not None:
        written["bias"] = {"values": put(f"{name}.bias", place.bias.values), "zero": place.bias.zero}
    return written


def _stream_fields(name: str, stream: Stream, put: Any) -> dict[str, Any]:
    written: dict[str, Any] = {"tokens": stream.tokens, "text": stream.text}
    for field in _STREAM_ARRAYS:
        if getattr(stream, field) is not None:
            written[field] = put(f"{name}.{field}", getattr(stream, field))
    return written


def load_trace(path: Path) -> Trace:
    """The trace in this file; anything that is missing or does not fit is refused by name."""
    reader = _Reader(path)
    about = reader.json("about")
    rerun = about.pop("rerun", None)
    if not all(isinstance(value, str) for value in about.values()):
        reader.refuse("about", "must map names to text")
    if rerun is not None and not isinstance(rerun, int | float):
        reader.refuse("about.rerun", "must be a number")
    streams = {name: _read_stream(reader, name, written) for name, written in reader.json("streams").items()}
    places: dict[tuple[str, int], Place] = {}
    for name, written in reader.json("places").items():
        place = _read_place(reader, name, written)
        _check_place(reader, name, place, streams)
        places[place.mode, place.layer] = place
    if not places:
        reader.refuse("places", "is empty")
    return Trace(places, streams, about, None if rerun is None else float(rerun))


class _Reader:
    """Fields of the file, each checked before it is believed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with safe_open(str(path), framework="numpy") as file:
                self.metadata: dict[str, str] = file.metadata() or {}
                if "headwise_trace" not in self.metadata:
                    self.refuse("headwise_trace", "is missing: this is not a trace that headwise wrote")
                self.tensors: dict[str, Any] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(path, "file", f"cannot be read as a trace: {_short(error)}") from None
        if self.metadata["headwise_trace"] != VERSION:
            self.refuse("headwise_trace", f"is {self.metadata['headwise_trace'][:20]!r}, this version reads {VERSION}")

    def refuse(self, field: str, problem: str) -> NoReturn:
        raise CheckpointError(self.path, field, problem)

    def json(self, field: str) -> dict[str, Any]:
        """A metadata field that holds a JSON object of objects or values."""
        try:
            value = json.loads(self.metadata.get(field, ""))
        except (ValueError, RecursionError):
            self.refuse(field, "is missing or no JSON")
        if not isinstance(value, dict):
            self.refuse(field, "is not a JSON object")
        return value

    def array(self, where: str, written: dict[str, Any], field: str, axes: int, kinds: tuple[type, ...]) -> Any:
        """The array that `written` names for this field, or None where it names none."""
        name = written.get(field)
        if name is None:
            return None
        if not isinstance(name, str) or name not in self.tensors:
            self.refuse(f"{where}.{field}", f"names the tensor {str(name)[:60]!r}, which is not there")
        array = self.tensors[name]
        if array.ndim != axes or array.dtype.type not in kinds:
            wanted = f"{axes} axes of {' or '.join(kind.__name__ for kind in kinds)}"
            self.refuse(f"{where}.{field}", f"has shape {list(array.shape)} of {array.dtype}, wanted {wanted}")
        return array


def _read_place(reader: _Reader, name: str, written: Any) -> Place:
    mode, _, layer = name.partition(".")
    if mode not in MODES or not layer.isdecimal() or not isinstance(written, dict):
        reader.refuse("places", f"has {name[:40]!r}, wanted a mode and a layer such as encoder.0")
    axes = {"query": 3, "key": 3, "value": 3, "mixed": 3, "output_weight": 2, "output_bias": 1, "output": 2, "input": 2}
    arrays = {field: reader.array(name, written, field, axes[field], _FLOATS) for field in _ARRAYS}
    for field in _NEEDED:
        if arrays[field] is None:
            reader.refuse(f"{name}.{field}", "is missing")
    scale = written.get("scale")
    if not isinstance(scale, int | float) or isinstance(scale, bool) or not np.isfinite(scale):
        reader.refuse(f"{name}.scale", "must be a finite number")
    replaced = written.get("replaced", [])
    if not isinstance(replaced, list) or not all(type(head) is int for head in replaced):
        reader.refuse(f"{name}.replaced", "must be a list of heads")
    mask, bias = _read_mask(reader, name, written.get("mask")), _read_bias(reader, name, written.get("bias"))
    return Place(mode, int(layer), scale=float(scale), mask=mask, bias=bias, replaced=tuple(replaced), **arrays)


def _read_mask(reader: _Reader, name: str, written: Any) -> Visibility:
    if not isinstance(written, dict) or not isinstance(written.get("causal"), bool):
        reader.refuse(f"{name}.mask.causal", "must be true or false")
    window = written.get("window")
    if window is not None and not (type(window) is int and window > 0):
        reader.refuse(f"{name}.mask.window", "must be a positive number")
    where = f"{name}.mask"
    documents = reader.array(where, written, "documents", 1, (np.int64,))
    allowed = reader.array(where, written, "allowed", 3, (np.bool_,))
    cuts = reader.array(where, written, "cuts", 2, (np.int64,))
    return Visibility(written["causal"], window, documents, allowed, cuts)


def _read_bias(reader: _Reader, name: str, written: Any) -> Bias | None:
    if written is None:
        return None
    if not isinstance(written, dict):
        reader.refuse(f"{name}.bias", "must be an object")
    zero = written.get("zero")
    if zero is not None and not (type(zero) is int and zero >= 0):
        reader.refuse(f"{name}.bias.zero", "must be a column")
    values = reader.array(f"{name}.bias", written, "values", 3 if zero is None else 2, _FLOATS)
    if values is None:
        reader.refuse(f"{name}.bias.values", "is missing")
    return Bias(values, zero)


def _read_stream(reader: _Reader, name: str, written: Any) -> Stream:
    where = f"streams.{name}"
    if name not in ("encoder", "decoder") or not isinstance(written, dict):
        reader.refuse("streams", f"has {name[:40]!r}, wanted encoder or decoder")
    tokens, text = written.get("tokens"), written.get("text")
    if not isinstance(tokens, list) or not tokens or not all(isinstance(token, str) for token in tokens):
        reader.refuse(f"{where}.tokens", "must be a list of texts")
    if text is not None and not isinstance(text, str):
        reader.refuse(f"{where}.text", "must be text")
    kinds = {"ids": (1, (np.int64,)), "offsets": (2, (np.int64,)), "special": (1, (np.bool_,))}
    kinds |= {"before": (2, _FLOATS), "after": (2, _FLOATS)}
    arrays = {field: reader.array(where, written, field, *kinds[field]) for field in _STREAM_ARRAYS}
    for field, array in arrays.items():
        if array is not None and len(array) != len(tokens):
            reader.refuse(f"{where}.{field}", f"has {len(array)} rows for {len(tokens)} tokens")
    if arrays["offsets"] is not None and (arrays["offsets"].shape[1] != 2 or arrays["offsets"].min(initial=0) < 0):
        reader.refuse(f"{where}.offsets", "must hold a start and an end per token")
    return Stream(tuple(tokens), text=text, **arrays)


def _check_place(reader: _Reader, name: str, place: Place, streams: dict[str, Stream]) -> None:
    """Raise an error that names the first array whose shape does not fit the others."""
    heads, queries, dim = place.query.shape
    shared, keys, value_dim = place.value.shape
    if not heads or not queries or not keys or not dim or not shared or heads % shared:
        reader.refuse(f"{name}.query", f"has shape {list(place.query.shape)}, value {list(place.value.shape)}")
    wanted: dict[str, tuple[int, ...]] = {"key": (shared, keys, dim), "mixed": (heads, queries, value_dim)}
    width = place.output_weight.shape[0] if place.output_weight is not None else None
    if width is not None:
        wanted |= {"output_weight": (width, heads * value_dim), "output_bias": (width,), "output": (queries, width)}
    if place.input is not None:
        wanted["input"] = (queries, place.input.shape[1])
    for field, shape in wanted.items():
        array = getattr(place, field)
        if array is not None and array.shape != shape:
            reader.refuse(f"{name}.{field}", f"has shape {list(array.shape)}, wanted {list(shape)}")
    _check_mask_and_bias(reader, name, place)
    for stream, count in (("encoder" if place.mode == "encoder" else "decoder", queries),):
        if stream not in streams or len(streams[stream].tokens) < count:
            reader.refuse(f"streams.{stream}", f"does not name the {count} tokens of {name}")
    looked_at = "decoder" if place.mode == "decoder" else "encoder"
    if looked_at not in streams or len(streams[looked_at].tokens) != keys:
        reader.refuse(f"streams.{looked_at}", f"does not name the {keys} tokens of {name}")


def _check_mask_and_bias(reader: _Reader, name: str, place: Place) -> None:
    heads, queries, keys = place.heads, place.queries, place.keys
    mask, bias = place.mask, place.bias
    if mask.documents is not None and (len(mask.documents) != keys or queries > keys):
        reader.refuse(f"{name}.mask.documents", f"has {len(mask.documents)} numbers for {keys} tokens")
    for field, array in (("mask.allowed", mask.allowed), ("bias", bias.values if bias and bias.zero is None else None)):
        if array is not None and not _spreads(array.shape, (heads, queries, keys)):
            reader.refuse(f"{name}.{field}", f"has shape {list(array.shape)} for {[heads, queries, keys]}")
    if mask.cuts is not None and (mask.cuts.shape[1] != 3 or not _inside(mask.cuts, (heads, queries, keys))):
        reader.refuse(f"{name}.mask.cuts", "must name a head, a query and a key that are there")
    if bias is not None and bias.zero is not None:
        rows, distances = bias.values.shape
        if rows not in (1, heads) or bias.zero < keys - 1 or distances < bias.zero + queries:
            reader.refuse(f"{name}.bias", f"has shape {list(bias.values.shape)} for {[heads, queries, keys]}")


def _inside(cuts: Any, sizes: tuple[int, int, int]) -> bool:
    return bool(((cuts >= 0) & (cuts < sizes)).all())


def _spreads(shape: tuple[int, ...], wanted: tuple[int, int, int]) -> bool:
    return shape[2] == wanted[2] and shape[0] in (1, wanted[0]) and shape[1] in (1, wanted[1])


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:160]


assert {*_ARRAYS} <= {field.name for field in fields(Place)}
