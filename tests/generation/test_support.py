"""What the document bears out and what it does not, and sentences taken from it."""

from typing import Any

import pytest
import torch

import headwise
from headwise.generation.extract import announces, heaviest
from headwise.generation.support import judge, names_and_numbers

STORY = [
    "The old lighthouse at Cape Mero will be lit again on 14 March, thirty-one years after it went dark.",
    "The town of Sallow Bay bought the tower in 2019 and has since spent 420,000 euros on its repair.",
    "A convolutional neural network counts the birds that pass.",
    "Curator Ines Brandt found the lamp behind a collection of anchors.",
]


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("The town of Sallow Bay paid 420,000 euros.", ["Sallow", "Bay", "420,000"]),
        ("In 2019: They trained BERT-2 and a GPU on ImageNet.", ["BERT-2", "GPU", "ImageNet", "2019", "2"]),
        ("Paris is far. London is near, said I.", []),
        ("GPUs are fast (Turing found).", ["GPUs", "Turing"]),
        ("It costs 3.5 or 1/2.", ["3.5", "1/2"]),
    ],
)
def test_names_and_numbers(sentence: str, found: list[str]) -> None:
    assert names_and_numbers(sentence) == found


@pytest.mark.weights
@pytest.mark.parametrize(
    ("sentence", "supported", "missing"),
    [
        (STORY[0], True, ()),
        ("The lighthouse at Cape Mero will shine again after 31 years.", True, ()),
        ("Sallow Bay's tower cost 420000 euros in repairs since 2019.", True, ()),
        ("The tower bought by Sallow Bay will be lit on 14 March.", True, ()),
        ("Birds that pass are counted by a CNN.", True, ()),
        ("The lighthouse at Cape Mero will shine again after 35 years.", False, ("35",)),
        ("The town of Hollow Bay bought the tower in 2019.", False, ("Hollow",)),
        ("Curator Ines Keller found the lamp behind anchors.", False, ("Keller",)),
        ("Fishermen protested against the price of fuel.", False, ()),
    ],
)
def test_what_the_document_bears_out(minilm: Any, sentence: str, supported: bool, missing: tuple[str, ...]) -> None:
    (found,) = judge([sentence], STORY, minilm)
    assert (found.supported, found.missing) == (supported, missing)
    assert found.nearest in STORY
    assert found.text == sentence


def test_nothing_to_compare_with() -> None:
    assert judge([], ["A."], None) == []  # type: ignore[arg-type]
    (found,) = judge(["A."], [], None)  # type: ignore[arg-type]
    assert found.supported is False


@pytest.mark.weights
def test_summarize_says_what_is_supported_unless_it_is_told_not_to(minilm: Any) -> None:
    from reciting_models import SEP, recite, reciting_decoder

    text = " ".join(STORY)
    model = reciting_decoder(headwise={"task": "summarize", "separator": SEP}, max_new_tokens=100)
    said = "Fishermen protested in Rome."
    recite(model, said, after=len(text) + 1)
    found = headwise.summarize(text, model, "short", check=minilm)
    assert found.unsupported == found.sentences
    assert found.text == said
    assert headwise.summarize(text, model, "short", check=False).sentences[0].supported is None


@pytest.mark.weights
@pytest.mark.parametrize(("length", "count"), [("short", 1), ("medium", 3)])
def test_extracts_are_sentences_of_the_document(minilm: Any, length: str, count: int) -> None:
    text = "Heading\n\n" + "\n".join(f"- {sentence}" for sentence in STORY)
    found = headwise.summarize(text, length=length, take=True, check=minilm)
    taken = [sentence.text for sentence in found.sentences]
    assert taken == [sentence for sentence in STORY if sentence in taken]
    assert len(taken) == count
    assert found.unsupported == ()
    assert (found.prompt_tokens, found.parts) == (0, 1)


def test_the_most_central_and_not_the_same_twice() -> None:
    vectors = torch.nn.functional.normalize(
        torch.tensor([[1.0, 0.2, 0.2], [1.0, 0.21, 0.2], [0.3, 1.0, 0.1], [0.2, 0.1, 1.0]]), dim=-1
    )
    likeness, none = vectors @ vectors.T, torch.zeros(4)
    chosen = heaviest(likeness, none, 2)
    assert len({0, 1} & set(chosen)) == 1
    assert chosen[0] in (0, 1)
    assert sorted(heaviest(likeness, none, 9)) == [0, 1, 2, 3]
    assert heaviest(likeness, torch.tensor([0.0, 0.0, 0.0, 1.0]), 1) == [3]


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("Here we thus introduce a lamp.", True),
        ("In short, the lamp shines.", True),
        ("This article is about a lamp.", True),
        ("The key findings are two.", True),
        ('"Now we show the lamp," she said.', False),
        ("Yesterday we shone a lamp at this papershop.", False),
    ],
)
def test_sentences_that_announce(sentence: str, found: bool) -> None:
    assert announces(sentence) is found
