"""A model and its loss as one module, which is what is wrapped to learn on several processes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from headwise.training.attend import written_out
from headwise.training.layouts import IGNORED
from headwise.training.loss import cross_entropy
from headwise.transformer.model import Decoder, Encoder, EncoderDecoder

JUDGED = 1024
"""Positions whose scores stand in memory at once."""


class Learner(nn.Module):
    """Called with a batch, it gives the summed loss of the positions that are learned."""

    def __init__(self, model: Encoder | Decoder | EncoderDecoder, smoothing: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing

    def forward(self, inputs: dict[str, Tensor], labels: Tensor, judge: bool = False) -> Any:
        """The sum; the head is computed only where something is learned. `judge`: also where the best word is right."""
        learned = labels != IGNORED
        head: Any = self.model.head
        hidden, right = head.prepare(self._hidden(**inputs)[learned]), labels[learned]
        if not judge:
            return cross_entropy(hidden, head.words.weight, head.words.bias, right, self.smoothing)
        total = torch.zeros((), dtype=torch.float64, device=labels.device)
        best: list[Tensor] = []
        for some, wanted in zip(hidden.split(JUDGED), right.split(JUDGED), strict=True):
            scores = head.words(some).float()
            total += nn.functional.cross_entropy(scores, wanted, reduction="sum")
            best.append(scores.argmax(-1) == wanted)
        correct = torch.ones_like(labels, dtype=torch.bool)
        correct[learned] = torch.cat(best)
        return total, correct

    def _hidden(self, **inputs: Any) -> Tensor:
        model = self.model
        if isinstance(model, EncoderDecoder):
            padding = inputs.get("source_padding")
            return model.hidden(inputs["target"], model.encode(inputs["source"], padding), padding)
        return model.hidden(**inputs) if isinstance(model, Decoder) else model(**inputs)


def choose_kernels(model: Encoder | Decoder | EncoderDecoder, half: bool) -> None:
    """The kernel that is fast forward and back in bfloat16 on this device; others stay as they are."""
    if half and model.device.type == "cpu":
        for place in model.attentions():
            place.module.kernel = written_out
