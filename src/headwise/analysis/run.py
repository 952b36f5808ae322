"""Running one text through a model while it is recorded, with the text's own words as the tokens' names."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from headwise.errors import ContextError, HeadwiseError
from headwise.tracing.arrays import Stream
from headwise.tracing.record import record
from headwise.tracing.trace import Trace


def trace_text(model: Any, text: str, target: str | None = None, layers: list[int] | None = None) -> Trace:
    """The trace of one text; `target` is what the decoder of an encoder-decoder reads."""
    if not text.strip():
        raise HeadwiseError("text: is empty; wanted at least one word")
    tokenizer = model.tokenizer
    if tokenizer is None:
        raise HeadwiseError("model: came without a tokenizer, so it cannot read text")
    source = tokenizer.annotate(text)
    streams = {"encoder" if model.config.encoder is not None else "decoder": source}
    inputs = [source.ids]
    if model.config.encoder is not None and model.config.decoder is not None:
        streams["decoder"] = tokenizer.annotate(target or "", special=False)
        inputs.append([_start(model), *streams["decoder"].ids])
    elif target is not None:
        raise HeadwiseError("target: only an encoder-decoder reads one; this model has no such pair")
    for ids in inputs:
        check_length(len(ids), model.config.context)
    with torch.inference_mode(), record(model, layers) as recording:
        if len(inputs) == 1 and model.config.decoder is not None:
            model.hidden(*map(_batch(model), inputs))
        else:
            model(*map(_batch(model), inputs))
    trace = recording.trace
    named = {name: _named(stream, streams[name]) for name, stream in trace.streams.items()}
    return replace(trace, streams=named)


def check_length(tokens: int, allowed: int) -> None:
    """Raise an error that says how long the text is and what is allowed."""
    if allowed and tokens > allowed:
        raise ContextError(f"text: has {tokens} tokens, and the model allows {allowed}")
    if not tokens:
        raise HeadwiseError("text: the tokenizer made no token of it; wanted at least one")


def _start(model: Any) -> int:
    start = model.config.start_id
    if start is None:
        start = model.config.begin_id if model.config.begin_id is not None else model.config.pad_id
    if start is None:
        raise HeadwiseError("model: names no token that its decoder begins with (start_id)")
    return start


def _batch(model: Any) -> Any:
    return lambda ids: torch.tensor([ids], device=model.device)


def _named(stream: Stream, encoded: Any) -> Stream:
    """The stream with the text as it was written; tokens that the model put before it keep their names."""
    more = len(stream.tokens) - len(encoded.ids)
    start = [(0, 0)] * more
    return replace(
        stream,
        tokens=stream.tokens[:more] + tuple(encoded.pieces),
        text=encoded.text,
        offsets=np.array([*start, *encoded.offsets], dtype=np.int64).reshape(-1, 2),
        special=np.array([True] * more + list(encoded.special)),
    )


def trace_library_text(model: Any, tokenizer: Any, text: str) -> Trace:
    """The trace of one text by a model of the transformers library."""
    if not text.strip():
        raise HeadwiseError("text: is empty; wanted at least one word")
    encoded = tokenizer(text, return_tensors="pt", return_offsets_mapping=tokenizer.is_fast)
    offsets = encoded.pop("offset_mapping", None)
    limit = getattr(model.config, "max_position_embeddings", 0)
    check_length(int(encoded["input_ids"].shape[1]), int(limit) if isinstance(limit, int) else 0)
    with torch.inference_mode(), record(model, tokenizer=tokenizer) as recording:
        model(**encoded)
    trace = recording.trace
    if offsets is None:
        return trace
    name = next(iter(trace.streams))
    stream = replace(trace.streams[name], text=text, offsets=offsets[0].numpy().astype(np.int64))
    return replace(trace, streams={**trace.streams, name: stream})
