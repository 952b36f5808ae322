"""The tokens of one row as a Stream: readable pieces and where they stand, joined from all calls, without filling."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from headwise.tracing.arrays import Array, Stream, Truth
from headwise.tracing.collect import to_array
from headwise.tracing.watch import Chunk

UNSEEN = "…"
"""Stands for a token that came before the recording began."""


def real_part(chunks: list[Chunk], row: int) -> slice | None:
    """Which of the tokens of this row are text, where filling stands only around them; None where it is mixed in."""
    kept = np.concatenate([_kept(chunk, row) for chunk in chunks]) if chunks else np.ones(0, dtype=np.bool_)
    found = np.flatnonzero(kept)
    if not len(found) or found[-1] - found[0] + 1 != len(found):
        return None
    return slice(int(found[0]), int(found[-1]) + 1)


def _kept(chunk: Chunk, row: int) -> Truth:
    shape: Any = chunk.ids if chunk.ids is not None else chunk.after
    if chunk.padding is None:
        return np.ones(shape.shape[1], dtype=np.bool_)
    return chunk.padding[row].cpu().numpy()


def make_stream(chunks: list[Chunk], row: int, part: slice, unseen: int, tokenizer: Any) -> Stream:
    """The stream of one row; `unseen` tokens stand before what was recorded."""
    before, after = _vectors(chunks, row, part, "before", unseen), _vectors(chunks, row, part, "after", unseen)
    if not chunks or any(chunk.ids is None for chunk in chunks):
        return Stream(tuple(f"#{number}" for number in range(part.stop - part.start)), before=before, after=after)
    ids = torch.cat([_row_of(chunk, row) for chunk in chunks])[part].cpu().tolist()
    stream = name_tokens(ids, tokenizer)
    if unseen:
        return Stream((UNSEEN,) * unseen + stream.tokens, np.array([-1] * unseen + ids, dtype=np.int64))
    return Stream(stream.tokens, stream.ids, stream.text, stream.offsets, stream.special, before, after)


def name_tokens(ids: list[int], tokenizer: Any) -> Stream:
    """The pieces of these ids by our tokenizer or one of the transformers library; without one, the numbers."""
    numbers = np.array(ids, dtype=np.int64)
    if tokenizer is None:
        return Stream(tuple(f"#{number}" for number in ids), numbers)
    if hasattr(tokenizer, "convert_ids_to_tokens"):
        special = np.isin(numbers, list(tokenizer.all_special_ids))
        return Stream(tuple(tokenizer.decode([number]) for number in ids), numbers, special=special)
    pieces = tokenizer.tokens(ids)
    text = tokenizer.decode(ids, skip_special=False)
    special = np.isin(numbers, list(tokenizer.special_ids))
    return Stream(tuple(pieces), numbers, text, np.array(pieces.offsets, dtype=np.int64).reshape(-1, 2), special)


def stream_of(encoded: Any) -> Stream:
    """The stream of a text that our tokenizer annotated."""
    return Stream(
        tuple(encoded.pieces),
        np.array(encoded.ids, dtype=np.int64),
        encoded.text,
        np.array(encoded.offsets, dtype=np.int64).reshape(-1, 2),
        np.array(encoded.special, dtype=np.bool_),
    )


def unnamed(count: int) -> Stream:
    """Tokens of which nothing is known but their number."""
    return Stream(tuple(f"#{number}" for number in range(count)))


def _row_of(chunk: Chunk, row: int) -> Tensor:
    assert chunk.ids is not None
    return chunk.ids[row]


def _vectors(chunks: list[Chunk], row: int, part: slice, field: str, unseen: int) -> Array | None:
    """[token, dim] of one row; None where some of it was not seen."""
    parts: list[Any] = [getattr(chunk, field) for chunk in chunks]
    if unseen or not parts or any(vectors is None for vectors in parts):
        return None
    return np.concatenate([to_array(vectors[row]) for vectors in parts])[part]
