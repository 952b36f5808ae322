"""GGUF files: every kind against hand-written formulas and the gguf package, and every lie refused by name."""

import struct
import tracemalloc
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from checkpoint_files import gguf_bytes, gguf_tensor, gguf_text, gguf_value, write
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from headwise.checkpoints.gguf import KINDS, QUANTISED, open_gguf
from headwise.errors import CheckpointError

F32 = 0


def half(raw: bytes) -> float:
    return float(np.frombuffer(raw, np.float16)[0])


def nibbles(raw: bytes) -> list[int]:
    """Low halves of all bytes, then high halves: the order of 32-element blocks."""
    return [byte & 15 for byte in raw] + [byte >> 4 for byte in raw]


def q4_0(b: bytes) -> list[float]:
    return [half(b[:2]) * (q - 8) for q in nibbles(b[2:])]


def q4_1(b: bytes) -> list[float]:
    return [half(b[:2]) * q + half(b[2:4]) for q in nibbles(b[4:])]


def fifth_bits(raw: bytes, low: list[int]) -> list[int]:
    high = int.from_bytes(raw, "little")
    return [q | (high >> i & 1) << 4 for i, q in enumerate(low)]


def q5_0(b: bytes) -> list[float]:
    return [half(b[:2]) * (q - 16) for q in fifth_bits(b[2:6], nibbles(b[6:]))]


def q5_1(b: bytes) -> list[float]:
    return [half(b[:2]) * q + half(b[2:4]) for q in fifth_bits(b[4:8], nibbles(b[8:]))]


def q8_0(b: bytes) -> list[float]:
    return [half(b[:2]) * q for q in struct.unpack("32b", b[2:])]


def q4_k(b: bytes) -> list[float]:
    """256 elements: d, dmin, eight 6-bit scales and minima in 12 bytes, then four runs of 32 bytes."""
    d, least, packed, quants = half(b[:2]), half(b[2:4]), b[4:16], b[16:]
    values: list[float] = []
    for group in range(8):
        if group < 4:
            scale, minimum = packed[group] & 63, packed[group + 4] & 63
        else:
            scale = packed[group + 4] & 15 | packed[group - 4] >> 6 << 4
            minimum = packed[group + 4] >> 4 | packed[group] >> 6 << 4
        run = quants[32 * (group // 2) : 32 * (group // 2) + 32]
        values += [d * scale * (byte >> 4 if group % 2 else byte & 15) - least * minimum for byte in run]
    return values


def q6_k(b: bytes) -> list[float]:
    """256 elements: 128 bytes of low 4 bits, 64 of high 2 bits, 16 signed scales, d."""
    low, high, scales, d = b[:128], b[128:192], struct.unpack("16b", b[192:208]), half(b[208:])
    values = [0.0] * 256
    for i in range(256):
        part, inside = divmod(i, 128)
        quarter, column = divmod(inside, 32)
        byte = low[64 * part + 32 * (quarter % 2) + column]
        q = (byte >> 4 if quarter >= 2 else byte & 15) | (high[32 * part + column] >> 2 * quarter & 3) << 4
        values[i] = d * scales[i // 16] * (q - 32)
    return values


FORMULAS = {"Q4_0": q4_0, "Q4_1": q4_1, "Q5_0": q5_0, "Q5_1": q5_1, "Q8_0": q8_0, "Q4_K": q4_k, "Q6_K": q6_k}


def random_blocks(kind: str, rows: int, blocks: int) -> bytes:
    """Random bytes whose half-precision scales are finite and small."""
    size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]][1]
    raw = np.random.default_rng(7).integers(0, 256, (rows * blocks, size), dtype=np.uint8)
    scales = np.random.default_rng(8).normal(size=(rows * blocks, 2)).astype(np.float16).view(np.uint8)
    if kind == "Q6_K":
        raw[:, 208:] = scales[:, :2]
    else:
        width = 2 if kind in ("Q4_0", "Q5_0", "Q8_0") else 4
        raw[:, :width] = scales[:, :width]
    return raw.tobytes()


def test_the_table_of_kinds_is_the_packages() -> None:
    theirs = {int(kind): (kind.name, *sizes) for kind, sizes in GGML_QUANT_SIZES.items()}
    assert {number: theirs[number] for number in KINDS} == KINDS


def one_tensor(tmp_path: Path, kind: str, content: bytes, dims: tuple[int, ...]) -> Path:
    number = int(GGMLQuantizationType[kind])
    return write(tmp_path / "a.gguf", gguf_bytes({}, {"w": (dims, number, content)}))


@pytest.mark.parametrize("kind", FORMULAS)
def test_blocks_follow_the_published_formula(tmp_path: Path, kind: str) -> None:
    elements, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    content = random_blocks(kind, 6, 2)
    file = open_gguf(one_tensor(tmp_path, kind, content, (2 * elements, 6)))
    expected = [value for at in range(0, len(content), size) for value in FORMULAS[kind](content[at : at + size])]
    assert file.shape("w") == (6, 2 * elements)
    assert file.kind("w") == kind
    actual = file.read("w", torch.float64).flatten().numpy()
    # The package multiplies in float32: two roundings.
    np.testing.assert_allclose(actual, expected, rtol=3e-7, atol=3e-7 * np.abs(expected).max())
    blocks = file.blocks("w")
    assert blocks.shape == (6, 2 * size)
    assert blocks.numpy().tobytes() == content


@pytest.mark.parametrize("kind", QUANTISED)
def test_every_kind_equals_the_package_over_many_pieces(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwise.checkpoints.tensors.PIECE", 512)
    elements, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    raw = np.random.default_rng(3).integers(0, 60, (5, 4 * size), dtype=np.uint8)
    file = open_gguf(one_tensor(tmp_path, kind, raw.tobytes(), (4 * elements, 5)))
    with np.errstate(all="ignore"):
        expected = dequantize(raw, GGMLQuantizationType[kind])
    np.testing.assert_array_equal(file.read("w").numpy(), expected)


@pytest.mark.parametrize("kind", ["F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8"])
def test_plain_kinds(tmp_path: Path, kind: str) -> None:
    names = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
    dtype = getattr(torch, names.get(kind, "int" + kind[1:]))
    values = torch.arange(-6, 6).view(3, 4).to(dtype)
    content = values.view(torch.uint8).numpy().tobytes()
    file = open_gguf(one_tensor(tmp_path, kind, content, (4, 3)))
    assert torch.equal(file.read("w"), values)
    assert torch.equal(file.read("w", torch.float32), values.float())


def test_a_file_of_the_package_is_read(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_uint32("n", 7)
    writer.add_float32("f", 0.5)
    writer.add_bool("yes", True)
    writer.add_string("text", "häuser 🏠")
    writer.add_array("words", ["a", "", "ü"])
    writer.add_array("numbers", [1, -2, 3])
    values = np.random.default_rng(0).normal(size=(4, 64)).astype(np.float32)
    writer.add_tensor("plain", values)
    packed = gguf.quants.quantize(values, GGMLQuantizationType.Q8_0)
    writer.add_tensor("packed", packed, raw_dtype=GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = open_gguf(tmp_path / "a.gguf")
    about = file.metadata
    assert (about["n"], about["f"], about["yes"], about["text"]) == (7, 0.5, True, "häuser 🏠")
    assert about["words"] == ["a", "", "ü"]
    assert list(about["numbers"]) == [1, -2, 3]
    assert file.names() == ["plain", "packed"]
    np.testing.assert_array_equal(file.read("plain").numpy(), values)
    np.testing.assert_array_equal(file.read("packed").numpy(), dequantize(packed, GGMLQuantizationType.Q8_0))


def small(alignment: int = 32) -> bytes:
    metadata = {
        "general.architecture": "llama",
        "n": ("u32", 3),
        "words": ["one", "two"],
        "scores": ("f32", [0.5, 1.5]),
    }
    tensors = {"a": ((4, 2), F32, bytes(32)), "b": ((32,), 8, bytes(34))}
    return gguf_bytes(metadata, tensors, alignment)


def test_truncated_anywhere_is_refused(tmp_path: Path) -> None:
    whole = small()
    for size in range(len(whole)):
        with pytest.raises(CheckpointError):
            open_gguf(write(tmp_path / "a.gguf", whole[:size]))
    assert open_gguf(write(tmp_path / "a.gguf", whole)).names() == ["a", "b"]


def head(tensors: int, keys: int, rest: bytes = b"", version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + rest


def key(name: str, value: bytes) -> bytes:
    return head(0, 1, gguf_text(name) + value)


HUGE = struct.pack("<Q", 2**63)
LIES = {
    "magic": (b"GGML" + bytes(40), "magic"),
    "version": (head(0, 0, version=1), "version: 1 "),
    "big endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "version"),
    "tensor count": (head(2**60, 0), "tensor count: claims"),
    "metadata count": (head(0, 2**60), "metadata count: claims"),
    "key length": (head(0, 1, HUGE + bytes(20)), "metadata key 0: claims"),
    "key not text": (head(0, 1, struct.pack("<Q", 2) + b"\xff\xff" + bytes(20)), "metadata key 0: .*UTF-8"),
    "text length": (key("k", struct.pack("<I", 8) + HUGE), "k: claims"),
    "list length": (key("k", struct.pack("<II", 9, 4) + HUGE), "k: claims"),
    "texts length": (key("k", struct.pack("<II", 9, 8) + HUGE), "k: claims"),
    "text in list": (key("k", struct.pack("<IIQ", 9, 8, 1) + HUGE), "k: .*past the end"),
    "list of lists": (key("k", struct.pack("<IIQ", 9, 9, 1) + bytes(20)), "k: is a list of value type 9"),
    "value type": (key("k", struct.pack("<I", 77) + bytes(8)), "k: .*unknown value type 77"),
    "alignment": (key("general.alignment", gguf_value(("u32", 3))), "general.alignment"),
    "alignment zero": (key("general.alignment", gguf_value(("u32", 0))), "general.alignment"),
    "alignment text": (key("general.alignment", gguf_value("32")), "general.alignment"),
    "key twice": (head(0, 2, (gguf_text("k") + gguf_value("v")) * 2), "k: occurs twice"),
    "dimensions": (head(1, 0, gguf_text("w") + struct.pack("<I", 1_000_000) + bytes(64)), "w: has 1000000 dimensions"),
    "kind": (head(1, 0, gguf_tensor("w", (4,), 9999, 0) + bytes(64)), "w: kind 9999"),
    "kind not read": (head(1, 0, gguf_tensor("w", (32,), 9, 0) + bytes(64)), "w: kind 9 is not one of"),
    "overflow": (head(1, 0, gguf_tensor("w", (2**40, 2**40), 0, 0) + bytes(64)), "w: .*too many"),
    "range": (head(1, 0, gguf_tensor("w", (2**20,), 0, 0) + bytes(64)), "w: .*outside"),
    "offset": (head(1, 0, gguf_tensor("w", (4,), 0, 2**63) + bytes(64)), "w: .*outside"),
    "unaligned": (head(1, 0, gguf_tensor("w", (4,), 0, 4) + bytes(64)), "w: offset 4"),
    "part of a block": (head(1, 0, gguf_tensor("w", (33,), 8, 0) + bytes(99)), "w: rows of .* whole blocks"),
    "overlap": (
        head(2, 0, gguf_tensor("v", (16,), 0, 0) + gguf_tensor("w", (16,), 0, 32) + bytes(256)),
        "w: .*overlap",
    ),
    "name twice": (
        head(2, 0, gguf_tensor("w", (4,), 0, 0) + gguf_tensor("w", (4,), 0, 32) + bytes(99)),
        "w: two tensors",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_refused_before_memory_is_given(tmp_path: Path, lie: str) -> None:
    content, match = LIES[lie]
    path = write(tmp_path / "a.gguf", content)
    tracemalloc.start()
    with pytest.raises(CheckpointError, match=match) as caught:
        open_gguf(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_long_lists_of_numbers_take_the_bytes_they_have(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gguf", key("k", struct.pack("<IIQ", 9, 0, 4_000_000) + bytes(4_000_000)))
    tracemalloc.start()
    open_gguf(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000


def test_reading_many_pieces_keeps_memory_small(tmp_path: Path) -> None:
    path = one_tensor(tmp_path, "Q8_0", bytes(34 << 18), (32, 1 << 18))
    file = open_gguf(path)
    file.read("w", torch.bfloat16)
    tracemalloc.start()  # numpy's work is traced, torch's result is not
    file.read("w", torch.bfloat16)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6_000_000  # a sixth of the values in float32, however long the tensor
