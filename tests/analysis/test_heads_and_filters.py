"""Heads beside filters: what is shown is what the models compute, and what a filter cannot see stays blank."""

from typing import Any

import pytest
import torch

from headwise import Decoder
from headwise.analysis.heads_and_filters import SENTENCE, check_sentence, heads_and_filters
from headwise.attention.equation import attention_steps
from headwise.attention.masks import Mask
from headwise.errors import HeadwiseError
from headwise.training.compare_models import Shape, config_of
from headwise.training.compare_tasks import Agreement
from headwise.transformer.config import MIXERS

KNOWN = Agreement().words
SHAPE = Shape(layers=2, heads=2, filter_width=4)


@pytest.fixture(scope="module")
def models() -> dict[str, Decoder]:
    torch.manual_seed(0)
    return {mixer: Decoder(config_of(mixer, 16, len(KNOWN), SHAPE)).eval() for mixer in MIXERS}


def test_the_head_is_the_one_that_looks_most_at_the_first_noun(models: dict[str, Decoder]) -> None:
    found = heads_and_filters(models, SENTENCE)
    own = found["seen"]["attention"]
    assert found["words"][found["noun"]] == "keys"
    rows: dict[tuple[int, int], torch.Tensor] = {}
    model = models["attention"]
    for place in model.attentions():

        def kernel(query: Any, key: Any, value: Any, mask: Mask, bias: Any, scale: float, _: float, at=place.layer):
            steps = attention_steps(query.double(), key.double(), value.double(), mask, bias, scale)
            rows.update({(at, head): steps.weights[0, head, -1] for head in range(2)})
            return steps.mixed.float()

        place.module.kernel = kernel
    try:
        with torch.no_grad():
            model(torch.tensor([[KNOWN.index(word) for word in found["words"]]]))
    finally:
        for place in model.attentions():
            place.module.kernel = "auto"
    best = max(rows, key=lambda place: rows[place][1].item())
    assert (own["layer"], own["number"]) == best
    assert own["values"] == pytest.approx(rows[best].tolist(), abs=1e-5)
    assert sum(own["values"]) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("mixer", ["convolution", "dilated"])
def test_what_the_words_add_is_the_filters_value(models: dict[str, Decoder], mixer: str) -> None:
    found = heads_and_filters(models, SENTENCE)
    own, model = found["seen"][mixer], models[mixer]
    block = model.decoder.blocks[own["layer"]]
    received = []
    handle = block.mixer.register_forward_pre_hook(lambda _, args: received.append(args[0][0]))
    with torch.no_grad():
        model(torch.tensor([[KNOWN.index(word) for word in found["words"]]]))
    handle.remove()
    taps = block.mixer.taps(own["number"]).detach()
    last = len(found["words"]) - 1
    expected = [None] * (last + 1)
    for tap in range(4):
        if last - tap * block.mixer.dilation >= 0:
            place = last - tap * block.mixer.dilation
            expected[place] = pytest.approx(float(taps[tap] @ received[0][place]), abs=1e-5)
    assert own["values"] == expected
    assert own["off"] < 1e-5
    assert own["values"][1] is None


def test_a_recurrence_has_neither_heads_nor_filters_but_an_answer(models: dict[str, Decoder]) -> None:
    found = heads_and_filters(models, "the lamp , ")
    assert set(found["seen"]) == {"attention", "convolution", "dilated"}
    for mixer in MIXERS:
        with torch.no_grad():
            shares = models[mixer](torch.tensor([[0, KNOWN.index("lamp"), KNOWN.index(",")]]))[0, -1].softmax(-1)
        assert found["answers"][mixer]["it"] == pytest.approx(float(shares[KNOWN.index("it")]))


def test_sentences_that_cannot_be_read() -> None:
    assert check_sentence("The Keys,") == ["the", "keys", ","]
    with pytest.raises(HeadwiseError, match="--show: got the word 'cat', the models know the key lamp"):
        check_sentence("the cat")
    for sentence in ("the", "the key " * 40):
        with pytest.raises(HeadwiseError, match="wanted 2 to 60"):
            check_sentence(sentence)
