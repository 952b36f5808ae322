"""Extract: a summary of sentences taken from the document itself, which cannot invent.

Each sentence is weighed by its likeness to all others, the mean cosine of their embeddings (degree centrality, Erkan
and Radev 2004). The heaviest is taken; every further one loses what it repeats of those taken (Carbonell and Goldstein
1998). They are given in the order of the document.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from torch import Tensor

from headwise.generation.support import embed
from headwise.transformer.model import Encoder

REPETITION = 0.5
"""How much of its likeness to a sentence already taken a sentence loses."""
FEW_WORDS = 5
"""A sentence of fewer words is a heading or a fragment, and is taken only where there is nothing else."""

_MARK = re.compile(r"^(?:[-*•]|\d+[.)])\s+")


def extract(document: Sequence[str], count: int, encoder: Encoder) -> list[str]:
    """The `count` most central sentences, in their order, without the marks of lists."""
    plain = [_MARK.sub("", sentence) for sentence in document]
    full = [sentence for sentence in plain if len(sentence.split()) >= FEW_WORDS] or plain
    if len(full) <= count:
        return full
    vectors = embed(full, encoder)
    return [full[place] for place in sorted(central(vectors @ vectors.T, count))]


def central(likeness: Tensor, count: int) -> list[int]:
    """The places of the most central sentences, the most central first, from likeness [sentence, sentence]."""
    weights = likeness.mean(1)
    chosen: list[int] = []
    for _ in range(min(count, len(weights))):
        best = int(weights.argmax())
        chosen.append(best)
        weights = weights - REPETITION * likeness[best].clamp(min=0)
        weights[chosen] = -float("inf")
    return chosen
