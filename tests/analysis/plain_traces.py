"""Traces made by hand: heads that look exactly where a test wants them to."""

from collections.abc import Sequence

import numpy as np

from headwise.tracing.arrays import Place, Stream, Visibility
from headwise.tracing.trace import Trace


def stream_of(text: str, special: bool = False) -> Stream:
    """Words at single spaces are tokens; a + inside a word cuts it into several."""
    tokens, offsets, at = [], [], 0
    for word in text.split():
        for part in word.split("+"):
            tokens.append(part)
            offsets.append((at, at + len(part)))
            at += len(part)
        at += 1
    plain = text.replace("+", "")
    flags = [False] * len(tokens)
    if special:
        tokens, flags = ["[CLS]", *tokens, "[SEP]"], [True, *flags, True]
        offsets = [(0, 0), *offsets, (len(plain), len(plain))]
    return Stream(
        tuple(tokens),
        np.arange(len(tokens)),
        plain,
        np.array(offsets, dtype=np.int64).reshape(-1, 2),
        np.array(flags),
    )


def looking(weights: Sequence[Sequence[Sequence[float]]], stream: Stream, mode: str = "encoder") -> Trace:
    """A trace whose heads have exactly these weights [head, query, key]: k are unit vectors, q the logarithms."""
    wanted = np.array(weights, dtype=np.float64)
    heads, count, _ = wanted.shape
    query = np.log(np.maximum(wanted, 1e-30))
    key = np.repeat(np.eye(count)[None], heads, 0)
    value = np.random.default_rng(0).normal(size=(heads, count, 2))
    mixed = wanted / wanted.sum(-1, keepdims=True) @ value
    mask = Visibility(causal=mode == "decoder")
    place = Place(mode, 0, query, key, value, mixed, 1.0, mask)
    return Trace({(mode, 0): place}, {mode: stream}, {"dtype": "float64"})
