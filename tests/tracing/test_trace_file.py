"""A trace comes back from its file as it was; a file that cannot be believed is refused by name."""

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file
from traced_models import CONFIGS, inputs_of, make

import headwise
from headwise.errors import CheckpointError, HeadwiseError


@pytest.fixture(scope="module")
def pair() -> headwise.Trace:
    return trace_of("pair")


def trace_of(name: str) -> headwise.Trace:
    model = make(name)
    with torch.no_grad(), headwise.record(model) as recording:
        model(*inputs_of(name))
    return recording.trace


def same(one: Any, other: Any) -> None:
    """Every field of two dataclasses is equal, arrays number by number."""
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if hasattr(a, "__dataclass_fields__"):
            same(a, b)
        elif isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype
        else:
            assert a == b, field.name


@pytest.mark.parametrize("name", CONFIGS)
def test_a_trace_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    trace = trace_of(name)
    receipt = trace.receipt()
    trace.save(tmp_path / "trace.safetensors")
    back = headwise.Trace.load(tmp_path / "trace.safetensors")
    assert set(back.places) == set(trace.places)
    for place in trace.places:
        same(trace.places[place], back.places[place])
    for stream in trace.streams:
        same(trace.streams[stream], back.streams[stream])
    assert back.about == trace.about
    assert back.receipt() == receipt
    assert [file.name for file in tmp_path.iterdir()] == ["trace.safetensors"]


def test_an_edited_trace_comes_back_too(tmp_path: Path) -> None:
    model = make("decoder")
    with (
        torch.no_grad(),
        headwise.edit(model, headwise.Cut(0, 1, 5, 2), headwise.Knockout(1, 2)),
        headwise.record(model) as recording,
    ):
        model(*inputs_of("decoder"))
    recording.trace.save(tmp_path / "trace")
    back = headwise.Trace.load(tmp_path / "trace")
    same(recording.trace.place(0), back.place(0))
    assert back.place(1).replaced == (2,)
    assert back.receipt().ok


def test_the_file_needs_no_torch(pair: headwise.Trace, tmp_path: Path) -> None:
    import subprocess
    import sys

    pair.save(tmp_path / "trace")
    code = f"""
import sys, headwise
trace = headwise.Trace.load({str(tmp_path / "trace")!r})
assert trace.weights(1, 2, 3, "cross").sum() > 0.99 and trace.receipt().ok
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_trace_of_many_tokens_holds_no_squares(tmp_path: Path) -> None:
    model = make("alibi")
    sizes = []
    for tokens in (200, 400):
        with torch.no_grad(), headwise.record(model, inputs=True) as recording:
            model(*inputs_of("alibi", tokens=tokens))
        recording.trace.save(tmp_path / "trace")
        sizes.append((tmp_path / "trace").stat().st_size)
    assert sizes[1] < 2.05 * sizes[0]


def test_a_directory_that_is_not_there_is_said(pair: headwise.Trace, tmp_path: Path) -> None:
    with pytest.raises(HeadwiseError, match="cannot be written"):
        pair.save(tmp_path / "nowhere" / "trace")
    assert not list(tmp_path.iterdir())


Change = Callable[[dict[str, Any], dict[str, str]], None]


def changed(trace: headwise.Trace, path: Path, change: Change) -> Path:
    """The trace's file, with something in it changed."""
    trace.save(path)
    with safe_open(str(path), "numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = dict(file.metadata())
    change(tensors, metadata)
    save_file(tensors, str(path), metadata)
    return path


def in_json(field: str, change: Callable[[Any], Any]) -> Change:
    def inner(tensors: dict[str, Any], metadata: dict[str, str]) -> None:
        value = json.loads(metadata[field])
        change(value)
        metadata[field] = json.dumps(value)

    return inner


def exchange(name: str, make_array: Callable[[Any], Any]) -> Change:
    def inner(tensors: dict[str, Any], metadata: dict[str, str]) -> None:
        tensors[name] = np.ascontiguousarray(make_array(tensors[name]))

    return inner


HOSTILE: list[tuple[Change, str]] = [
    (lambda t, m: m.pop("headwise_trace"), "headwise_trace: is missing: this is not a trace"),
    (lambda t, m: m.update(headwise_trace="9"), "headwise_trace: is '9', this version reads 1"),
    (lambda t, m: m.update(places="{"), "places: is missing or no JSON"),
    (lambda t, m: m.pop("streams"), "streams: is missing or no JSON"),
    (lambda t, m: m.update(places="[" * 9999), "places: is missing or no JSON"),
    (lambda t, m: m.update(about="[]"), "about: is not a JSON object"),
    (in_json("about", lambda v: v.update(dtype=3)), "about: must map names to text"),
    (in_json("about", lambda v: v.update(rerun="x")), "about.rerun: must be a number"),
    (in_json("places", lambda v: v.clear()), "places: is empty"),
    (in_json("places", lambda v: v.update(sideways={})), "places: has 'sideways'"),
    (in_json("places", lambda v: v.update({"encoder.9": 7})), "places: has 'encoder.9'"),
    (in_json("places", lambda v: v["cross.1"].pop("key")), "cross.1.key: is missing"),
    (in_json("places", lambda v: v["cross.1"].update(key="gone")), "cross.1.key: names the tensor 'gone'"),
    (in_json("places", lambda v: v["cross.1"].update(key=["x"])), "cross.1.key: names the tensor"),
    (in_json("places", lambda v: v["cross.1"].update(scale="1")), "cross.1.scale: must be a finite number"),
    (in_json("places", lambda v: v["cross.1"].update(scale=1e999)), "cross.1.scale: must be a finite number"),
    (in_json("places", lambda v: v["cross.1"].update(replaced=[1.5])), "cross.1.replaced: must be a list of heads"),
    (in_json("places", lambda v: v["cross.1"].update(mask=None)), "cross.1.mask.causal: must be true or false"),
    (in_json("places", lambda v: v["cross.1"]["mask"].update(window=0)), "cross.1.mask.window: must be a positive"),
    (in_json("places", lambda v: v["encoder.0"]["bias"].update(zero=-1)), "encoder.0.bias.zero: must be a column"),
    (in_json("places", lambda v: v["encoder.0"]["bias"].update(zero=2)), "encoder.0.bias: has shape"),
    (in_json("places", lambda v: v["encoder.0"]["bias"].pop("values")), "encoder.0.bias.values: is missing"),
    (in_json("streams", lambda v: v["encoder"].update(tokens=[])), "streams.encoder.tokens: must be a list"),
    (in_json("streams", lambda v: v["encoder"].update(tokens=[1])), "streams.encoder.tokens: must be a list"),
    (in_json("streams", lambda v: v["encoder"]["tokens"].pop()), "streams.encoder.ids: has 9 rows for 8 tokens"),
    (in_json("streams", lambda v: v.pop("decoder")), "streams.decoder: does not name"),
    (in_json("streams", lambda v: v.update(other=v["encoder"])), "streams: has 'other'"),
    (in_json("streams", lambda v: v["encoder"].update(text=1)), "streams.encoder.text: must be text"),
    (exchange("cross.1.key", lambda a: a[:, :-1]), "cross.1.key: has shape"),
    (exchange("cross.1.query", lambda a: a[0]), r"cross.1.query: has shape \[6, 6\] of float32, wanted 3 axes"),
    (exchange("cross.1.query", lambda a: a[:2]), "cross.1.query: has shape"),
    (exchange("cross.1.value", lambda a: a.astype(np.int64)), "cross.1.value: has shape .* of int64"),
    (exchange("cross.1.mixed", lambda a: a[:, :, :1]), "cross.1.mixed: has shape"),
    (exchange("cross.1.output_weight", lambda a: a[:, 1:]), "cross.1.output_weight: has shape"),
    (exchange("cross.1.output_bias", lambda a: a[1:]), "cross.1.output_bias: has shape"),
    (exchange("cross.1.input", lambda a: a[1:]), "cross.1.input: has shape"),
]


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_a_field_that_does_not_fit_is_refused_by_name(number: int, pair: headwise.Trace, tmp_path: Path) -> None:
    change, message = HOSTILE[number]
    path = changed(pair, tmp_path / "trace.safetensors", change)
    with pytest.raises(CheckpointError, match=message) as error:
        headwise.Trace.load(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("content", [b"", b"junk", b"\xff" * 100, (10**15).to_bytes(8, "little") + b"{}"])
def test_a_file_that_is_no_trace_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "trace.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="cannot be read as a trace"):
        headwise.Trace.load(path)


def test_a_trace_cut_short_is_refused(pair: headwise.Trace, tmp_path: Path) -> None:
    path = tmp_path / "trace.safetensors"
    pair.save(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="cannot be read as a trace"):
        headwise.Trace.load(path)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"nothing\.safetensors: file: cannot be read"):
        headwise.Trace.load(tmp_path / "nothing.safetensors")


def test_weights_of_another_kind_of_file_are_no_trace(tmp_path: Path) -> None:
    save_file({"weight": np.zeros(3, np.float32)}, str(tmp_path / "model.safetensors"))
    with pytest.raises(CheckpointError, match="this is not a trace that headwise wrote"):
        headwise.Trace.load(tmp_path / "model.safetensors")
