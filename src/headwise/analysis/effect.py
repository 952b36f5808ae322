"""`headwise.effect`: what an edit does to the next word or a word's final vector, against the same edit elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from headwise.analysis.run import check_length
from headwise.analysis.words import find_word, words_of
from headwise.errors import HeadwiseError
from headwise.tracing.edit import Edit, edit
from headwise.tracing.seam import places_of
from headwise.tracing.tokens import stream_of


@dataclass(frozen=True)
class NextWord:
    """One word that may come next, before the edit and after it."""

    word: str
    before: float
    after: float


@dataclass(frozen=True)
class Effect:
    """How far an edit moved the model, and how far the same edit of every other head of its layer does."""

    measure: str
    """What `moved` is: a share of probability, or an angle as 1 - cosine."""
    moved: float
    others: tuple[float, ...]
    """The same edit with the heads next to it, one after another around the layer."""
    word: str | None
    """The word whose vector moved; None where the next word was looked at."""
    next_words: tuple[NextWord, ...] = ()
    """The words that gained or lost most, the largest change first."""

    @property
    def rank(self) -> int:
        """1 where no other head of the layer moves the model further."""
        return 1 + sum(other > self.moved for other in self.others)

    def __str__(self) -> str:
        scale = f"{min(self.others):.3g} to {max(self.others):.3g}" if self.others else "no other head"
        place = f"place {self.rank} of {len(self.others) + 1}"
        return f"{self.measure}: {self.moved:.3g}; the same edit of the other heads: {scale}; {place}"


def effect(model: Any, text: str, edits: Edit | Sequence[Edit], word: str | int | None = None, top: int = 5) -> Effect:
    """Run `text` with and without the edits, and with the same edits of every other head of their layers.

    A decoder is asked for its next word, an encoder for the final vector of `word` (None: the mean over all words).
    """
    wanted = tuple(edits) if isinstance(edits, Sequence) else (edits,)
    if not wanted:
        raise HeadwiseError("edits: got none, wanted at least one Knockout or Cut")
    if not text.strip():
        raise HeadwiseError("text: is empty; wanted at least one word")
    if model.config.encoder is not None and model.config.decoder is not None:
        raise HeadwiseError("model: effect is for encoders and decoders; use headwise.edit for one that is both")
    encoded = model.tokenizer.annotate(text)
    check_length(len(encoded.ids), model.config.context)
    ids = torch.tensor([encoded.ids], device=model.device)
    with torch.inference_mode():
        if model.config.decoder is not None:
            return _on_next_word(model, ids, wanted, top)
        words = words_of(stream_of(encoded))
        place = None if word is None else words[find_word(words, word)]
        tokens = [token for one in words if not one.special for token in one.tokens] if place is None else place.tokens
        return _on_vector(model, ids, wanted, list(tokens), None if place is None else place.text)


def _on_next_word(model: Any, ids: Tensor, wanted: tuple[Edit, ...], top: int) -> Effect:
    def probabilities() -> Tensor:
        return model.head(model.hidden(ids)[:, -1])[0].double().softmax(-1)

    before = probabilities()
    after, *others = _with_each(model, wanted, probabilities)
    most = (after - before).abs().argsort(descending=True)[:top].tolist()
    names = model.tokenizer.tokens(most)
    words = [NextWord(name, float(before[id]), float(after[id])) for name, id in zip(names, most, strict=True)]
    moved = [float((one - before).abs().sum() / 2) for one in (after, *others)]
    return Effect("probability moved to other next words", moved[0], tuple(moved[1:]), None, tuple(words))


def _on_vector(model: Any, ids: Tensor, wanted: tuple[Edit, ...], tokens: list[int], word: str | None) -> Effect:
    def vector() -> Tensor:
        return model(ids)[0, tokens].double().mean(0)

    before = vector()
    ways = _with_each(model, wanted, vector)
    moved = [float(1 - torch.cosine_similarity(before, after, dim=0)) for after in ways]
    measure = "change of the final vector, 1 - cosine"
    return Effect(measure, max(0.0, moved[0]), tuple(max(0.0, other) for other in moved[1:]), word)


def _with_each(model: Any, wanted: tuple[Edit, ...], run: Any) -> list[Any]:
    """The run with the edits, and with the same edits of the heads that follow, around each layer."""
    heads = {place.layer: place.module.heads for place in places_of(model)}
    with edit(model, *wanted):
        found = [run()]
    for shift in range(1, max(heads[one.layer] for one in wanted)):
        shifted = [replace(one, head=(one.head + shift) % heads[one.layer]) for one in wanted]
        with edit(model, *shifted):
            found.append(run())
    return found
