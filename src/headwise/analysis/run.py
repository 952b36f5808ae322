"""Running one text through a model while it is recorded, with the text's own words as the tokens' names."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from headwise.errors import ContextError, HeadwiseError
from headwise.tracing.arrays import Stream
from headwise.tracing.record import record
from headwise.tracing.tokens import stream_of
from headwise.tracing.trace import Trace


def trace_text(model: Any, text: str, target: str | None = None, write: int = 0) -> Trace:
    """The trace of one text; the decoder of an encoder-decoder reads `target`; `write` tokens are written first."""
    _check_text(text)
    if model.tokenizer is None:
        raise HeadwiseError("model: came without a tokenizer, so it cannot read text")
    pair = model.config.encoder is not None and model.config.decoder is not None
    if target is not None and not pair:
        raise HeadwiseError("target: only an encoder-decoder reads one, and this model is none")
    if write < 0 or (write and (target is not None or model.config.decoder is None)):
        raise HeadwiseError(f"write: got {write}, wanted a number of tokens, of a model that writes, and no target")
    source = model.tokenizer.annotate(text)
    check_length(len(source.ids) + (0 if pair else write), model.config.context)
    trace = _written(model, text, write) if write else _read(model, source.ids, target if pair else None, pair)
    first = "encoder" if model.config.encoder is not None else "decoder"
    streams = dict(trace.streams)
    if first == "encoder" or not write:
        streams[first] = _named(streams[first], stream_of(source))
    if pair and not write:
        streams["decoder"] = _named(
            streams["decoder"], stream_of(model.tokenizer.annotate(target or "", special=False))
        )
    return replace(trace, streams=streams, about={**trace.about, "prompt_tokens": str(len(source.ids))})


def _read(model: Any, ids: list[int], target: str | None, pair: bool) -> Trace:
    """One pass over the text."""
    rows = [ids]
    if pair:
        rows.append([_start(model), *model.tokenizer.encode(target or "", special=False)])
        check_length(len(rows[1]), model.config.context)
    inputs = [torch.tensor([row], device=model.device) for row in rows]
    with torch.inference_mode(), record(model) as recording:
        if model.config.encoder is None:
            model.hidden(*inputs)
        else:
            model(*inputs)
    return recording.trace


def _written(model: Any, text: str, tokens: int) -> Trace:
    """The text and what the model wrote after it, or from it, the likeliest token each time."""
    from headwise.generation.generate import generate

    with record(model) as recording:
        generate(model, text, max_tokens=tokens, beams=1)
    return recording.trace


def _check_text(text: str) -> None:
    if not text.strip():
        raise HeadwiseError("text: is empty; wanted at least one word")


def check_length(tokens: int, allowed: int) -> None:
    """Raise an error that says how long the text is and what is allowed."""
    if allowed and tokens > allowed:
        raise ContextError(f"text: has {tokens} tokens, and the model allows {allowed}")
    if not tokens:
        raise HeadwiseError("text: the tokenizer made no token of it; wanted at least one")


def _start(model: Any) -> int:
    """The token that the decoder begins with."""
    config = model.config
    start = next((id for id in (config.start_id, config.begin_id, config.pad_id) if id is not None), None)
    if start is None:
        raise HeadwiseError("model: names no token that its decoder begins with (start_id)")
    return start


def _named(stream: Stream, text: Stream) -> Stream:
    """The stream with the text as it was written; a token that the model put before it keeps its name."""
    more = len(stream.tokens) - len(text.tokens)
    assert text.offsets is not None
    assert text.special is not None
    return replace(
        stream,
        tokens=stream.tokens[:more] + text.tokens,
        text=text.text,
        offsets=np.concatenate([np.zeros((more, 2), dtype=np.int64), text.offsets]),
        special=np.concatenate([np.ones(more, dtype=np.bool_), text.special]),
    )


def trace_library_text(model: Any, tokenizer: Any, text: str) -> Trace:
    """The trace of one text by a model of the transformers library."""
    _check_text(text)
    asked = {"return_offsets_mapping": tokenizer.is_fast, "return_special_tokens_mask": True}
    encoded = tokenizer(text, return_tensors="pt", **asked)
    offsets, special = encoded.pop("offset_mapping", None), encoded.pop("special_tokens_mask")
    limit = getattr(model.config, "max_position_embeddings", 0)
    check_length(int(encoded["input_ids"].shape[1]), int(limit) if isinstance(limit, int) else 0)
    if getattr(model.config, "is_encoder_decoder", False):
        encoded["decoder_input_ids"] = torch.tensor([[model.config.decoder_start_token_id or 0]])
    with torch.inference_mode(), record(model, tokenizer=tokenizer) as recording:
        model(**encoded)
    trace = recording.trace
    name = next(iter(trace.streams))
    stream = replace(trace.streams[name], special=special[0].bool().numpy())
    if offsets is not None:
        stream = replace(stream, text=text, offsets=offsets[0].numpy().astype(np.int64))
    return replace(trace, streams={**trace.streams, name: stream})
