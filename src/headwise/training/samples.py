"""What the model writes for a few rows that it does not learn from: the best token, again and again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch

from headwise.training.layouts import IGNORED, Masked, Summarized, Translated
from headwise.training.prepare import Prepared
from headwise.transformer.model import Decoder, EncoderDecoder

Sample = dict[Literal["source", "wanted", "written"], str]


@torch.no_grad()
def write_samples(model: Any, prepared: Prepared, count: int, longest: int) -> list[Sample]:
    """The first rows of the validation part; a language model goes on with the first half of a text."""
    samples: list[Sample] = []
    layout, tokenizer = prepared.layout, prepared.tokenizer
    for row in range(min(count, len(prepared.validation[layout.columns[0]]))):
        ids = [prepared.validation[name][row].tolist() for name in layout.columns]
        if isinstance(layout, Masked):
            samples.append(_guess(model, prepared, row))
            continue
        if isinstance(layout, Translated | Summarized):
            source, target = ids
        else:
            half = max(1, len(ids[0]) // 2)
            source, target = ids[0][:half], ids[0][half:]
        written = _write(model, source, layout, longest)
        texts = [tokenizer.decode(part).strip() for part in (source, target, written)]
        samples.append({"source": texts[0], "wanted": texts[1], "written": texts[2]})
    return samples


def _guess(model: Any, prepared: Prepared, row: int) -> Sample:
    """The masked words of one row, and what the model takes them for."""
    batch = prepared.layout.collate([[row]], prepared.validation, 0).to(model.device)
    places = batch.labels[0] != IGNORED
    best = model.masked_logits(model(**batch.inputs))[0].argmax(-1)
    shown = prepared.tokenizer.decode(batch.inputs["ids"][0].tolist(), skip_special=False)
    wanted, written = (prepared.tokenizer.decode(ids[places].tolist()) for ids in (batch.labels[0], best))
    return {"source": shown, "wanted": wanted, "written": written}


def _write(model: Any, source: list[int], layout: Any, longest: int) -> list[int]:
    """Token by token until the end, with a cache."""
    device = model.device
    cache = model.new_cache()
    given = torch.tensor([source], device=device)
    memory = model.encode(given) if isinstance(model, EncoderDecoder) else None
    step = given if memory is None else torch.tensor([[layout.start]], device=device)
    room = longest if memory is not None or not model.config.context else model.config.context - len(source)
    written: list[int] = []
    for best in _best(model, step, memory, cache):
        if best == layout.end or len(written) >= min(longest, room):
            return written
        written.append(best)
    return written


def _best(model: Decoder | EncoderDecoder, step: torch.Tensor, memory: Any, cache: Any) -> Iterator[int]:
    while True:
        logits = model(step, cache=cache) if isinstance(model, Decoder) else model.decode(step, memory, cache=cache)
        step = logits[:, -1:].argmax(-1)
        yield int(step)
