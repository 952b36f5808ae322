"""Arrays as text that a script block can hold: bytes sorted by place, deflated, written in base 85."""

import zlib

import numpy as np
from numpy.typing import NDArray

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%()*+,-./:;=?@[]^_|~"
"""85 signs that need no escape in HTML, in an attribute or in a JavaScript string."""

_SIGNS = np.frombuffer(ALPHABET.encode(), dtype=np.uint8)


def encode(values: NDArray[np.generic]) -> str:
    """The text of an array; bytes are sorted by place first, because deflate finds more in exponents side by side."""
    flat = np.ascontiguousarray(values)
    sorted_bytes = flat.reshape(-1).view(np.uint8).reshape(-1, flat.dtype.itemsize).T
    return base85(zlib.compress(sorted_bytes.tobytes(), 6))


def base85(raw: bytes) -> str:
    """Four bytes, the highest first, as five digits; before them one digit: how many zero bytes fill the end."""
    filling = -len(raw) % 4
    padded = raw + bytes(filling)
    rest = np.frombuffer(padded, dtype=">u4").astype(np.uint32)
    digits = np.empty((len(rest), 5), dtype=np.uint8)
    for place in range(4, -1, -1):
        rest, digits[:, place] = np.divmod(rest, 85)
    return ALPHABET[filling] + _SIGNS[digits].tobytes().decode()
