"""Heads beside filters: for one sentence, what one head of attention sees and what one filter of a convolution sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from headwise.errors import HeadwiseError
from headwise.tracing.record import record
from headwise.training.compare_tasks import NOUNS, Agreement
from headwise.transformer.block import Block
from headwise.transformer.mixers import Convolution
from headwise.transformer.model import Decoder

SENTENCE = "the keys on the table near the lamp behind the door under the garden ,"
LONGEST = 60
"""Words of a sentence that can be shown."""


def heads_and_filters(models: Mapping[str, Decoder], sentence: str = SENTENCE) -> dict[str, Any]:
    """For models that learned agreement: what the last word sees, by the head and by the filters that say most.

    With attention that is the head whose weight on the first noun is largest; with a convolution, the filter that
    the words move most. Every number is recorded while the model reads; the difference to a sum of the parts is told.
    """
    words = check_sentence(sentence)
    ids = torch.tensor([[Agreement().words.index(word) for word in words]])
    first = next((at for at, word in enumerate(words) if word.removesuffix("s") in NOUNS), 0)
    seen = {mixer: _seen(model, ids, first) for mixer, model in models.items()}
    return {
        "words": words,
        "asked": len(words) - 1,
        "noun": first,
        "seen": {mixer: own for mixer, own in seen.items() if own is not None},
        "answers": {mixer: _answers(model, ids) for mixer, model in models.items()},
    }


def check_sentence(sentence: str) -> list[str]:
    """Its words, or an error that says which words the models know."""
    known = Agreement().words
    words = sentence.replace(",", " , ").lower().split()
    for word in words:
        if word not in known:
            raise HeadwiseError(f"--show: got the word {word!r}, the models know {' '.join(known)}")
    if not 2 <= len(words) <= LONGEST:
        raise HeadwiseError(f"--show: got {len(words)} words, wanted 2 to {LONGEST}")
    return words


@torch.no_grad()
def _answers(model: Decoder, ids: Tensor) -> dict[str, float]:
    """How likely each pronoun is to come next."""
    shares = model(ids)[0, -1].softmax(-1)
    return {word: float(shares[Agreement().words.index(word)]) for word in ("it", "they")}


def _seen(model: Decoder, ids: Tensor, first: int) -> dict[str, Any] | None:
    mixer = model.decoder.config.mixer
    if mixer == "attention":
        return _head(model, ids, first)
    return _filter(model, ids) if mixer in ("convolution", "dilated") else None


def _head(model: Decoder, ids: Tensor, first: int) -> dict[str, Any]:
    """The weights of the head that looks most at the first noun, from the record of the run."""
    with record(model) as recording, torch.no_grad():
        model(ids)
    trace = recording.trace
    rows = {
        (layer, head): trace.weights(layer=layer, head=head, rows=ids.shape[1] - 1)
        for layer in trace.layers
        for head in range(trace.heads)
    }
    layer, head = max(rows, key=lambda place: float(rows[place][first]))
    receipt = trace.receipt()
    receipt.require()
    return {
        "kind": "head",
        "layer": layer,
        "number": head,
        "values": [float(weight) for weight in rows[layer, head]],
        "off": receipt.worst.error,
    }


@torch.no_grad()
def _filter(model: Decoder, ids: Tensor) -> dict[str, Any]:
    """What each word adds to the filter that the words move most, taken where the model computes it."""
    mixers = [block.mixer for block in model.decoder.blocks if isinstance(block, Block)]
    layers = [mixer for mixer in mixers if isinstance(mixer, Convolution)]
    seen: list[tuple[Tensor, Tensor]] = []

    def keep(module: object, args: tuple[Tensor, ...], output: Tensor) -> None:
        seen.append((args[0], output))

    handles = [layer.filters.register_forward_hook(keep) for layer in layers]
    try:
        model(ids)
    finally:
        for handle in handles:
            handle.remove()
    parts = [_parts(layer, given[0, -1]) for layer, (given, _) in zip(layers, seen, strict=True)]
    moved = [own.abs().sum(1) for own in parts]
    layer = max(range(len(moved)), key=lambda at: float(moved[at].max()))
    number, chosen = int(moved[layer].argmax()), layers[layer]
    own, bias = parts[layer][number], float(chosen.filters.bias[number])
    values: list[float | None] = [None] * ids.shape[1]
    for tap, part in enumerate(own.tolist()):
        if tap * chosen.dilation < len(values):
            values[-1 - tap * chosen.dilation] = part
    return {
        "kind": "filter",
        "layer": layer,
        "number": number,
        "values": values,
        "bias": bias,
        "off": abs(float(own.sum()) + bias - float(seen[layer][1][0, -1, number])),
    }


def _parts(layer: Convolution, given: Tensor) -> Tensor:
    """What each tap adds to each filter, [filter, tap], from the words in the window [tap · dim]; without the gates."""
    dim = layer.output.in_features
    products = layer.filters.weight[:dim].view(dim, layer.width, dim) * given.view(layer.width, dim)
    return products.sum(-1)
