"""Small real files of weights, made by hand so that a test can break any part of them."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

NUMBERS = {"u8": (0, "B"), "i8": (1, "b"), "u32": (4, "I"), "i32": (5, "i"), "f32": (6, "f"), "bool": (7, "?")}


def safetensors_bytes(tensors: dict[str, np.ndarray], metadata: dict[str, str] | None = None) -> bytes:
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    data = b""
    for name, value in tensors.items():
        kind = {"float32": "F32", "float16": "F16", "int64": "I64", "uint8": "U8"}[value.dtype.name]
        header[name] = {
            "dtype": kind,
            "shape": list(value.shape),
            "data_offsets": [len(data), len(data) + value.nbytes],
        }
        data += value.tobytes()
    return raw_safetensors(header, data)


def raw_safetensors(header: dict[str, Any] | str, data: bytes) -> bytes:
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def gguf_text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def gguf_value(value: Any) -> bytes:
    """A value with its type: text, (kind, number), or a list of texts, or (kind, [numbers])."""
    if isinstance(value, str):
        return struct.pack("<I", 8) + gguf_text(value)
    if isinstance(value, list):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(gguf_text, value))
    kind, content = value
    number, letter = NUMBERS[kind]
    if isinstance(content, list):
        return struct.pack("<IIQ", 9, number, len(content)) + struct.pack(f"<{len(content)}{letter}", *content)
    return struct.pack("<I" + letter, number, content)


def gguf_tensor(name: str, dims: tuple[int, ...], kind: int, offset: int) -> bytes:
    return gguf_text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def gguf_bytes(
    metadata: dict[str, Any], tensors: dict[str, tuple[tuple[int, ...], int, bytes]], alignment: int = 32
) -> bytes:
    """A GGUF file; tensors are name -> (dims as the file has them, kind number, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        head += gguf_text(key) + gguf_value(value)
    data = b""
    for name, (dims, kind, content) in tensors.items():
        data += b"\0" * (-len(data) % alignment)
        head += gguf_tensor(name, dims, kind, len(data))
        data += content
    return head + b"\0" * (-len(head) % alignment) + data


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path
