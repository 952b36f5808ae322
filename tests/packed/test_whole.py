"""Packed weights in a whole model: recorded generation with a receipt, and next to no loss."""

from pathlib import Path
from typing import Any

import pytest
import torch
from small_decoders import pack, small_decoder
from test_step import LLAMA

import headwise
from headwise.generation.engine import DecoderEngine
from headwise.generation.sampling import best
from headwise.packed.levels import available
from headwise.transformer.model import Decoder

PROMPTS = [[3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1, 8]]


def written(model: Decoder, tokens: int = 12) -> torch.Tensor:
    """Greedy ids, [row, tokens]."""
    engine = DecoderEngine(model, PROMPTS, tokens)
    scores, ids = engine.start(), []
    for _ in range(tokens):
        ids.append(best(scores))
        scores = engine.step(ids[-1])
    return torch.stack(ids, dim=1)


@pytest.mark.parametrize("level", [*available(), "torch"])
@torch.inference_mode()
def test_a_recorded_generation_has_a_receipt_and_writes_the_same(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWISE_PACKED", level)
    model: Any = pack(small_decoder(**LLAMA))
    unwatched = written(model)
    with headwise.record(model) as recording:
        watched = written(model)
    assert torch.equal(watched, unwatched)
    assert recording.trace.receipt().ok, recording.trace.receipt()
    assert torch.equal(written(model), unwatched)


@pytest.mark.weights
@torch.inference_mode()
def test_a_thousand_positions_lose_nothing_visible(smollm2: Decoder) -> None:
    """The bounds: a median of 1/30 of the scores' spread, 95 of 100 next words equal, a fiftieth of a nat."""
    packed: Any = headwise.load("smollm2", weights="packed")
    docs = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
    ids = torch.tensor([packed.tokenizer.encode("\n".join(doc.read_text() for doc in docs))[:1000]])
    found, wanted = packed(ids)[0], smollm2(ids)[0]
    assert float((found - wanted).abs().median()) < float(wanted.std()) / 30
    assert float((found.argmax(-1) == wanted.argmax(-1)).float().mean()) > 0.95
    loss = [-scores.log_softmax(-1)[:-1].gather(1, ids[0, 1:, None]).mean() for scores in (found, wanted)]
    assert abs(float(loss[0] - loss[1])) < 0.02
