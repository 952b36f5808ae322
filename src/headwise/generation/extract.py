"""Extract: a summary of sentences taken from the document itself, which cannot invent.

Each sentence is weighed by its likeness to all others, the mean cosine of their embeddings (degree centrality, Erkan
and Radev 2004), and more where it announces what the text is about ("we propose", "this article", "in short": the cues
of Edmundson 1969). The heaviest is taken; every further one loses what it repeats of those taken (Carbonell and
Goldstein 1998). They are given in the order of the document.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import Tensor

from headwise.generation.support import embed
from headwise.transformer.model import Encoder

REPETITION = 0.5
"""How much of its likeness to a sentence already taken a sentence loses."""
ANNOUNCED = 0.1
"""How much a sentence that announces weighs more; from 0.08 to 0.15 it hardly matters."""
FEW_WORDS = 5
"""A sentence of fewer words is a heading or a fragment, and is taken only where there is nothing else."""

_MARK = re.compile(r"^(?:[-*•]|\d+[.)])\s+")
_CUES = re.compile(
    r"\b(?:we|I) (?:\w+ly |also |then |here |now |therefore |first |thus )?(?:propose|present|introduce|show|"
    r"demonstrate|find|found|describe|study|develop|investigate|argue|prove|report|conclude|explore|examine|analy[sz]e|offer|"
    r"suggest|provide|address|aim|consider|design|derive|establish|recommend)|"
    r"\bthis (?:paper|article|report|study|work|thesis|essay|chapter|book|letter|document|note)\b|"
    r"\bin (?:summary|conclusion|short|brief)\b|\bto (?:summari[sz]e|conclude|sum up)\b|"
    r"\b(?:main|key) (?:result|finding|point|idea|message|contribution)s?\b",
    re.IGNORECASE,
)


def extract(document: Sequence[str], count: int, encoder: Encoder) -> list[str]:
    """The `count` most central sentences, in their order, without the marks of lists."""
    plain = [_MARK.sub("", sentence) for sentence in document]
    full = [sentence for sentence in plain if len(sentence.split()) >= FEW_WORDS] or plain
    if len(full) <= count:
        return full
    vectors = embed(full, encoder)
    bonus = torch.tensor([ANNOUNCED * announces(sentence) for sentence in full])
    return [full[place] for place in sorted(heaviest(vectors @ vectors.T, bonus, count))]


def announces(sentence: str) -> bool:
    """Whether it says what the text is about; somebody quoted speaks of something else."""
    return _CUES.search(sentence) is not None and not any(mark in sentence for mark in '"“”«»')


def heaviest(likeness: Tensor, bonus: Tensor, count: int) -> list[int]:
    """The places of the heaviest, the heaviest first, from likeness [sentence, sentence] and bonus [sentence]."""
    weights = likeness.mean(1) + bonus
    chosen: list[int] = []
    for _ in range(min(count, len(weights))):
        best = int(weights.argmax())
        chosen.append(best)
        weights = weights - REPETITION * likeness[best].clamp(min=0)
        weights[chosen] = -float("inf")
    return chosen
