"""What models promise beside their numbers: places of attention, precision, refusals."""

import pytest
import torch
from kinds_of_models import STACKS, decoder, encoder, encoder_decoder, ids

from headwise import Decoder, ModelConfig
from headwise.errors import ContextError
from headwise.transformer.model import build, pad


def test_places_of_attention_in_the_order_of_the_run() -> None:
    model = encoder_decoder()
    places = [(place.mode, place.layer) for place in model.attentions()]
    assert places == [("encoder", 0), ("decoder", 0), ("cross", 0), ("decoder", 1), ("cross", 1)]
    seen = []
    for place in model.attentions():
        place.module.register_forward_pre_hook(lambda *_, at=place[:2]: seen.append(at))
    model(ids(1, 3), ids(1, 4))
    assert seen == places


@pytest.mark.parametrize("kind", STACKS)
def test_half_precision(kind: str) -> None:
    exact, half = decoder(kind), decoder(kind).to(torch.bfloat16)
    with torch.no_grad():
        wanted, cache = exact(ids(2, 12)), half.new_cache()
        parts = [half(part, cache=cache) for part in ids(2, 12).split(5, dim=1)]
        assert all(part.dtype == torch.bfloat16 for part in parts)
        difference = (torch.cat(parts, dim=1).float() - wanted).abs().mean()
    # bfloat16 keeps 8 bits, so each of some ten roundings on the way is off by up to 1/256.
    assert difference < 0.04 * wanted.abs().mean()


@pytest.mark.parametrize("kind", STACKS)
def test_another_device(kind: str) -> None:
    """What a model makes on its way stands where its weights are: torch refuses to mix devices."""
    model, row = decoder(kind).to("meta"), ids(2, 7).to("meta")
    kept, cache = torch.ones(2, 7, dtype=torch.bool, device="meta"), model.new_cache()
    for logits in (model(row), model(row, kept), model(row, documents=torch.zeros_like(row)), model(row, cache=cache)):
        assert logits.is_meta
    assert model(row[:, :1], cache=cache).is_meta
    assert encoder().to("meta")(row, kept).is_meta
    assert encoder_decoder(kind).to("meta")(row, row, kept).is_meta


def test_nothing_of_the_future_and_nothing_of_other_documents() -> None:
    model = decoder("window")
    row = ids(1, 10)
    other = row.clone()
    other[0, 6] = (row[0, 6] + 1) % 50
    with torch.no_grad():
        assert torch.equal(model(row)[:, :6], model(other)[:, :6])
        assert not torch.equal(model(row)[:, 6:], model(other)[:, 6:])
        numbers = torch.tensor([[0] * 5 + [1] * 2 + [2] * 3])
        one, two = model(row, documents=numbers), model(other, documents=numbers)
        assert torch.equal(one[:, [*range(6), *range(7, 10)]], two[:, [*range(6), *range(7, 10)]])


def test_a_text_beyond_the_table_of_positions() -> None:
    model = decoder("learned")
    with pytest.raises(ContextError, match="the text has 65 tokens, and the model allows 64"):
        model(ids(1, 65))
    cache = model.new_cache()
    model(ids(1, 64), cache=cache)
    with pytest.raises(ContextError, match="65"):
        model(ids(1, 1), cache=cache)


def test_filling_does_not_count_as_text() -> None:
    model = decoder("learned")
    padding = torch.ones(1, 70, dtype=torch.bool)
    padding[:, :6] = False
    with torch.no_grad():
        wanted = model(ids(1, 70)[:, 6:])
        torch.testing.assert_close(model(ids(1, 70), padding)[:, 6:], wanted, rtol=1e-4, atol=1e-5)


def test_arguments_that_do_not_fit() -> None:
    model = decoder("rotary")
    with pytest.raises(ValueError, match=r"padding: got shape \[2, 4\] of bool, wanted \[2, 5\] of bool"):
        model(ids(2, 5), torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"padding: got shape .* of int64"):
        model(ids(2, 5), torch.ones(2, 5, dtype=torch.int64))
    with pytest.raises(ValueError, match="documents: got shape"):
        model(ids(2, 5), documents=torch.zeros(1, 5, dtype=torch.int64))
    with pytest.raises(ValueError, match="documents: got them beside a cache"):
        model(ids(2, 5), cache=model.new_cache(), documents=torch.zeros(2, 5, dtype=torch.int64))
    with pytest.raises(ValueError, match="came without a head for masked words"):
        (other := encoder(masked=False)).masked_logits(other(ids(1, 3)))
    with pytest.raises(ValueError, match=r"config\.decoder: got None, wanted a StackConfig"):
        Decoder(ModelConfig(vocabulary=5, encoder=STACKS["none"]))


def test_what_is_built_follows_from_the_stacks() -> None:
    for model in (encoder(), decoder("none"), encoder_decoder()):
        assert type(build(model.config)) is type(model)


def test_pad() -> None:
    right, kept = pad([[5, 6, 7], [8]], 0)
    assert right.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert kept.tolist() == [[True, True, True], [True, False, False]]
    left, kept = pad([[5, 6, 7], [8]], 9, left=True)
    assert left.tolist() == [[5, 6, 7], [9, 9, 8]]
    assert kept.tolist() == [[True, True, True], [False, False, True]]
    assert pad([], 0)[0].shape == (0, 0)


def test_dropout_only_in_training() -> None:
    from dataclasses import replace

    stack = replace(STACKS["rotary"], dropout=0.5, attention_dropout=0.5, activation_dropout=0.5)
    model = Decoder(ModelConfig(vocabulary=50, decoder=stack))
    assert not torch.equal(model(ids(1, 6)), model(ids(1, 6)))
    model.eval()
    assert torch.equal(model(ids(1, 6)), model(ids(1, 6)))
