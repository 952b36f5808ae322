"""Traces for the pages of the tests: real models that read and write, and small ones of any shape and text."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

import headwise
from headwise.tracing.arrays import Stream

KIDS = "The kids were scared of the lions, so they left right away."
STORY = "A lion walked out of the woods. The children, who had never seen one, ran back to the hippopotamuses' house. "


def recorded(model: Any, text: str, most: int | None = None) -> Any:
    """One text read; of more than `most` tokens the first ones and the last."""
    ids = model.tokenizer.encode(text)
    if most is not None and len(ids) > most:
        ids = ids[: most - 1] + ids[-1:]
    with torch.no_grad(), headwise.record(model) as recording:
        model(torch.tensor([ids]))
    return recording.trace


def written_by(model: Any, text: str, count: int) -> Any:
    """A prompt read and `count` tokens written with a cache; the last of them was read again."""
    ids = torch.tensor([model.tokenizer.encode(text)])
    with torch.no_grad(), headwise.record(model) as recording:
        cache = model.new_cache()
        for _ in range(count + 1):
            ids = model(ids, cache=cache)[:, -1:].argmax(-1)
    return recording.trace


def lively(model: Any) -> Any:
    """Weights large enough that heads look somewhere."""
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.35)
    return model.eval()


def stack(**fields: Any) -> headwise.StackConfig:
    return headwise.StackConfig(**{"layers": 2, "dim": 24, "heads": 3, "hidden": 32, **fields})


def small_cross() -> Any:
    """An encoder-decoder with a bias by distance; its decoder sees two tokens back at most."""
    config = headwise.ModelConfig(
        vocabulary=60,
        encoder=stack(positions=headwise.Positions(kind="buckets")),
        decoder=stack(causal=True, cross=True, windows=(3, 3), positions=headwise.Positions(kind="buckets")),
    )
    model = lively(headwise.EncoderDecoder(config))
    with torch.no_grad(), headwise.record(model) as recording:
        model(torch.arange(5, 14)[None], torch.arange(20, 26)[None])
    return recording.trace


def small_encoder(tokens: list[str]) -> Any:
    """A small encoder that read these words, with spaces between them."""
    torch.manual_seed(len(tokens))
    config = headwise.ModelConfig(vocabulary=60, encoder=stack(positions=headwise.Positions(kind="alibi")), head="none")
    model = lively(headwise.Encoder(config))
    with torch.no_grad(), headwise.record(model) as recording:
        model(torch.randint(0, 60, (1, len(tokens))))
    ends = np.cumsum([len(token) + 1 for token in tokens]) - 1
    offsets = np.array([(end - len(token), end) for token, end in zip(tokens, ends, strict=True)])
    stream = Stream(tuple(tokens), text=" ".join(tokens), offsets=offsets)
    return replace(recording.trace, streams={"encoder": stream})


def random_trace(layers: int, heads: int, tokens: int, dim: int) -> Any:
    """A trace of the size of a real model, and of nothing in particular; only good for its size."""
    random = np.random.default_rng(0)

    def numbers(*shape: int) -> Any:
        return random.standard_normal(shape, dtype=np.float32)

    source = small_encoder(["one", "two"])
    place = source.places["encoder", 0]
    width = dim // heads
    places = {
        ("encoder", layer): replace(
            place,
            layer=layer,
            query=numbers(heads, tokens, width),
            key=numbers(heads, tokens, width),
            value=numbers(heads, tokens, width),
            mixed=numbers(heads, tokens, width),
            bias=None,
            output_weight=numbers(dim, dim),
            output_bias=numbers(dim),
            output=numbers(tokens, dim),
            input=numbers(tokens, dim),
        )
        for layer in range(layers)
    }
    stream = Stream(tuple(f"word{at}" for at in range(tokens)))
    return replace(source, places=places, streams={"encoder": stream}, again=None)
