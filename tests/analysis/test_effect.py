"""What an edit does, against the same edit of the other heads, in numbers that are computed another way."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

import headwise
from headwise import Cut, Knockout
from headwise.errors import ContextError, HeadwiseError
from headwise.transformer.config import ModelConfig, Positions, StackConfig
from headwise.transformer.model import Decoder, Encoder

STACK = StackConfig(layers=2, dim=24, heads=4, hidden=32, positions=Positions(kind="learned", count=20))
WORDS = ["kids", "saw", "lions", "and", "ran", "home", "quickly", "because", "they", "were", "scared"]


class Words:
    """A tokenizer of whole words."""

    special_ids: tuple[int, ...] = ()

    def annotate(self, text: str, special: bool = True) -> Any:
        words, at, offsets = text.split(), 0, []
        for word in words:
            offsets.append((at, at + len(word)))
            at += len(word) + 1
        ids = [WORDS.index(word) for word in words]
        return SimpleNamespace(text=text, ids=ids, pieces=words, offsets=offsets, special=[False] * len(words))

    def tokens(self, ids: list[int]) -> list[str]:
        return [WORDS[id] for id in ids]


def make(kind: Any, **stack: Any) -> Any:
    torch.manual_seed(0)
    name = kind.__name__.lower()
    model = kind(ModelConfig(vocabulary=len(WORDS), context=20, **{name: STACK.__class__(**{**vars(STACK), **stack})}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.5)
    model.tokenizer = Words()
    return model.eval()


def without(model: Any, layer: int, head: int, run: Any) -> Any:
    """What `run` gives when a head's block of W_O is nought."""
    weight = model.attentions()[layer].module.output.weight
    kept = weight.detach().clone()
    with torch.no_grad():
        weight[:, head * 6 : head * 6 + 6] = 0
        found = run()
        weight.copy_(kept)
    return found


def test_the_next_words_of_a_decoder() -> None:
    model = make(Decoder, causal=True)
    ids = torch.tensor([Words().annotate("kids saw lions and").ids])

    def run() -> torch.Tensor:
        return model(ids)[0, -1].double().softmax(-1)

    with torch.no_grad():
        before = run()
        moved = [float((without(model, 1, head, run) - before).abs().sum() / 2) for head in (2, 3, 0, 1)]
        found = headwise.effect(model, "kids saw lions and", Knockout(1, 2), top=3)
    assert [found.moved, *found.others] == pytest.approx(moved, abs=1e-6)
    assert found.rank == 1 + sum(other > moved[0] for other in moved[1:])
    assert len(found.next_words) == 3
    for word in found.next_words:
        assert word.before == pytest.approx(float(before[WORDS.index(word.word)]), abs=1e-6)
    changes = [abs(word.after - word.before) for word in found.next_words]
    assert changes == sorted(changes, reverse=True)
    assert f"place {found.rank} of 4" in str(found)


def test_the_final_vector_of_a_word_of_an_encoder() -> None:
    model = make(Encoder)
    text = "kids ran because they were scared"
    ids = torch.tensor([Words().annotate(text).ids])

    def run() -> torch.Tensor:
        return model(ids)[0, 3].double()

    with torch.no_grad():
        before = run()
        others = [without(model, 0, head, run) for head in (1, 2, 3, 0)]
        found = headwise.effect(model, text, [Knockout(0, 1)], word="they")
    expected = [1 - float(before @ after / (before.norm() * after.norm())) for after in others]
    assert [found.moved, *found.others] == pytest.approx(expected, abs=1e-6)
    assert found.word == "they"
    whole = headwise.effect(model, text, [Cut(0, 1, 3, 0), Knockout(1, 0)])
    assert whole.moved > 0
    assert len(whole.others) == 3


@pytest.mark.parametrize(
    ("text", "edits", "word", "error", "message"),
    [
        ("  ", [Knockout(0, 0)], None, HeadwiseError, "text: is empty"),
        ("kids ran", [], None, HeadwiseError, "edits: got none"),
        ("kids ran", Knockout(0, 9), None, HeadwiseError, "head: wanted 0 to 3"),
        ("kids ran", Knockout(0, 0), "lion", HeadwiseError, "word: 'lion' is not in the text"),
        ("kids " * 21, Knockout(0, 0), None, ContextError, "text: has 21 tokens, and the model allows 20"),
    ],
)
def test_what_cannot_be_asked_is_said(text: str, edits: Any, word: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        headwise.effect(make(Encoder), text, edits, word=word)
