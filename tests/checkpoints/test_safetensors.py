"""Safetensors files: equal to what the format's own library reads, and every lie refused by name."""

import json
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoint_files import raw_safetensors, safetensors_bytes, write
from safetensors.torch import load_file, save_file

from headwise.checkpoints.safetensors import open_safetensors
from headwise.errors import CheckpointError

KINDS = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16]
KINDS += [torch.int8, torch.uint8, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2]


def entry(kind: str = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict[str, object]:
    return {"dtype": kind, "shape": shape, "data_offsets": offsets}


def refused(tmp_path: Path, content: bytes, match: str) -> str:
    path = write(tmp_path / "model.safetensors", content)
    with pytest.raises(CheckpointError, match=match) as caught:
        open_safetensors(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_every_kind_equals_the_library(tmp_path: Path, dtype: torch.dtype) -> None:
    values = (torch.randn(5, 3, generator=torch.Generator().manual_seed(1)) * 50).to(dtype)
    save_file({"a": values, "scalar": values[0, 0].clone(), "empty": values[:0].clone()}, tmp_path / "x.safetensors")
    file = open_safetensors(tmp_path)
    expected = load_file(tmp_path / "x.safetensors")
    assert set(file.names()) == set(expected)
    for name, value in expected.items():
        assert file.shape(name) == tuple(value.shape)
        assert torch.equal(file.read(name).view(torch.uint8), value.view(torch.uint8)) if value.dim() else True
        assert file.read(name).dtype == dtype
        assert torch.equal(file.read(name, torch.float64), value.to(torch.float64))


def test_read_maps_the_file_and_leaves_it_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "a.safetensors", safetensors_bytes({"a": np.zeros((1000, 1000), np.float32)}))
    before = path.read_bytes()
    tracemalloc.start()
    tensor = open_safetensors(path).read("a")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 500_000
    tensor += 1
    assert path.read_bytes() == before
    assert tensor.sum() == 1_000_000


def test_unaligned_data_is_read(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32)
    header = json.dumps({"a": entry("F32", [6], [0, 24])}).encode() + b" "
    header += b" " * (1 - len(header) % 2)  # an odd length
    path = write(tmp_path / "a.safetensors", struct.pack("<Q", len(header)) + header + values.tobytes())
    assert open_safetensors(path).read("a").tolist() == values.tolist()


@pytest.mark.parametrize(
    ("header", "data", "match"),
    [
        ({"a": entry(offsets=[0, 12])}, b"0" * 12, "a: shape .* needs 8 bytes"),
        ({"a": entry(offsets=[0, 8]), "b": entry(offsets=[4, 12])}, b"0" * 12, "b: .*overlap"),
        ({"a": entry(offsets=[0, 8])}, b"0" * 4, "a: .*outside"),
        ({"a": entry(offsets=[8, 16])}, b"0" * 16, "a: .*belong to no tensor"),
        ({"a": entry(offsets=[0, 8])}, b"0" * 16, "data: .*belong to no tensor"),
        ({"a": entry(offsets=[8, 0])}, b"0" * 8, "a: .*give -8"),
        ({"a": entry(offsets=[-8, 0])}, b"0" * 8, "a: data_offsets"),
        ({"a": entry(offsets=[0, True])}, b"0" * 8, "a: data_offsets"),
        ({"a": entry(shape=[-2])}, b"0" * 8, "a: shape"),
        ({"a": entry(shape=[2.0])}, b"0" * 8, "a: shape"),
        ({"a": entry(shape=[2**40, 2**40])}, b"0" * 8, "a: .*too many elements"),
        ({"a": entry(shape=[0, 2**62, 2**62], offsets=[0, 0])}, b"", "a: .*too many elements"),
        ({"a": entry(shape=[1] * 1_000_000)}, b"0" * 8, "a: has 1000000 dimensions"),
        ({"a": entry("F33")}, b"0" * 8, "a: dtype 'F33' is not one of"),
        ({"a": entry(["F32"])}, b"0" * 8, "a: dtype"),
        ({"a": [1, 2]}, b"", "a: must have dtype"),
        ({"__metadata__": {"a": 1}}, b"", "__metadata__"),
        ('{"a": 1, "a": 2}', b"", "the name 'a' occurs twice"),
        ("[1]", b"", "header: is not a JSON object"),
        ("[" * 100_000, b"", "header: is not valid JSON"),
        ('{"a"', b"", "header: is not valid JSON"),
        ('{"a": ' + "9" * 5000 + "}", b"", "header: is not valid JSON"),
    ],
)
def test_lying_headers_are_refused(tmp_path: Path, header: object, data: bytes, match: str) -> None:
    told = refused(tmp_path, raw_safetensors(header, data), match)  # pyright: ignore[reportArgumentType]
    assert len(told) < 2000


@pytest.mark.parametrize("length", [2**64 - 1, 2**63, 2**40, 100_000_001, 1000])
def test_header_lengths_that_lie(tmp_path: Path, length: int) -> None:
    tracemalloc.start()
    refused(tmp_path, struct.pack("<Q", length) + b"{}", "header length")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_truncated_anywhere_is_refused(tmp_path: Path) -> None:
    whole = safetensors_bytes({"a": np.ones((2, 3), np.float32), "b": np.ones(3, np.int64)})
    for size in range(len(whole)):
        path = write(tmp_path / "model.safetensors", whole[:size])
        with pytest.raises(CheckpointError):
            open_safetensors(path)
    open_safetensors(write(path, whole))


def shards(tmp_path: Path, places: dict[str, object]) -> Path:
    write(tmp_path / "one.safetensors", safetensors_bytes({"a": np.ones(2, np.float32)}))
    write(tmp_path / "two.safetensors", safetensors_bytes({"b": np.full(3, 2, np.float32)}))
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return tmp_path


def test_shards_are_read_as_one(tmp_path: Path) -> None:
    file = open_safetensors(shards(tmp_path, {"a": "one.safetensors", "b": "two.safetensors"}))
    assert file.names() == ["a", "b"]
    assert (file.read("a").tolist(), file.read("b").tolist()) == ([1, 1], [2, 2, 2])
    assert (file.kind("b"), file.shape("b")) == ("F32", (3,))
    with pytest.raises(CheckpointError, match="c: no tensor"):
        file.read("c")


@pytest.mark.parametrize(
    ("places", "match"),
    [
        ({"a": "one.safetensors", "b": "../two.safetensors"}, "weight_map: b"),
        ({"a": "one.safetensors", "b": "/etc/two.safetensors"}, "weight_map: b"),
        ({"a": "one.safetensors", "b": "weights.bin"}, "weight_map: b"),
        ({"a": "one.safetensors", "b": 7}, "weight_map: b"),
        ({"a": "one.safetensors", "b": "three.safetensors"}, "three.safetensors: file: cannot be opened"),
        ({"a": "one.safetensors", "b": "one.safetensors"}, "b: no tensor"),
        ({"a": "one.safetensors", "b": "two.safetensors", "c": "two.safetensors"}, "two.safetensors: c: no tensor"),
        ({"a": "two.safetensors"}, "b: .*does not place"),
        ({}, "weight_map: must map"),
        ([], "weight_map: must map"),
    ],
)
def test_an_index_that_disagrees_is_refused(tmp_path: Path, places: dict[str, object], match: str) -> None:
    with pytest.raises(CheckpointError, match=match):
        open_safetensors(shards(tmp_path, places))


def test_what_is_not_a_file_of_weights_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.safetensors", write(tmp_path / "empty.safetensors", b"")):
        with pytest.raises(CheckpointError):
            open_safetensors(path)
