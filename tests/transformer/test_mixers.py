"""What stands in the place of attention: the equations, nothing of the future, filling, documents, and refusals."""

from dataclasses import replace

import pytest
import torch
from kinds_of_models import BASE, drawn, encoder_decoder, ids
from torch import Tensor

import headwise
from headwise import Decoder, Encoder, EncoderDecoder, ModelConfig, Positions
from headwise.attention.masks import Mask
from headwise.errors import HeadwiseError, UnsupportedError
from headwise.packed.step import DecodeStep
from headwise.transformer.mixers import Convolution, Recurrence

MIXERS = ("convolution", "dilated", "lstm", "gru")
CAUSAL = Mask(causal=True)


def decoder(mixer: str, **more) -> Decoder:
    stack = replace(BASE, mixer=mixer, **more)
    return drawn(Decoder(ModelConfig(vocabulary=50, decoder=stack)))


def test_convolution_is_its_equation() -> None:
    torch.manual_seed(0)
    layer, x = Convolution(dim=4, width=3, dilation=2).double(), torch.randn(1, 9, 4, dtype=torch.float64)
    for place in range(9):
        wide = layer.filters.bias.clone()
        for filter in range(8):
            for tap, weight in enumerate(layer.taps(filter)):
                if place - 2 * tap >= 0:
                    wide[filter] = wide[filter] + weight @ x[0, place - 2 * tap]
        expected = layer.output(wide[:4] * torch.sigmoid(wide[4:]))
        torch.testing.assert_close(layer(x, CAUSAL)[0, place], expected, rtol=1e-12, atol=1e-12)


def lstm_by_hand(layer: Recurrence, x: Tensor) -> Tensor:
    """i, f, g, o in torch's order; c = f·c + i·g; h = o·tanh(c)."""
    cell, rows = layer.cell, []
    h = c = torch.zeros(x.shape[1], dtype=x.dtype)
    for token in x:
        given = cell.weight_ih_l0 @ token + cell.bias_ih_l0 + cell.weight_hh_l0 @ h + cell.bias_hh_l0
        i, f, g, o = given.chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        rows.append(layer.output(h))
    return torch.stack(rows)


def gru_by_hand(layer: Recurrence, x: Tensor) -> Tensor:
    """r, z, n in torch's order; h = (1 - z)·n + z·h."""
    cell, rows = layer.cell, []
    h = torch.zeros(x.shape[1], dtype=x.dtype)
    for token in x:
        new, old = cell.weight_ih_l0 @ token + cell.bias_ih_l0, cell.weight_hh_l0 @ h + cell.bias_hh_l0
        (r, z, n), (old_r, old_z, old_n) = new.chunk(3), old.chunk(3)
        z = (z + old_z).sigmoid()
        h = (1 - z) * (n + (r + old_r).sigmoid() * old_n).tanh() + z * h
        rows.append(layer.output(h))
    return torch.stack(rows)


@pytest.mark.parametrize(("gru", "by_hand"), [(False, lstm_by_hand), (True, gru_by_hand)])
def test_recurrence_is_its_equation(gru: bool, by_hand) -> None:
    torch.manual_seed(0)
    layer, x = Recurrence(5, gru).double(), torch.randn(1, 7, 5, dtype=torch.float64)
    torch.testing.assert_close(layer(x, CAUSAL)[0], by_hand(layer, x[0]), rtol=1e-12, atol=1e-12)


def test_the_forget_gate_begins_open_and_all_other_biases_closed() -> None:
    biases = {name: bias for name, bias in Recurrence(3, gru=False).named_parameters() if "cell.bias" in name}
    assert {name: bias.tolist() for name, bias in biases.items()} == {
        "cell.bias_ih_l0": [0.0] * 3 + [1.0] * 3 + [0.0] * 6,
        "cell.bias_hh_l0": [0.0] * 12,
    }


def test_dilated_filters_stand_further_apart_with_each_layer() -> None:
    blocks = decoder("dilated", layers=3, filter_width=4).decoder.blocks
    assert [block.mixer.dilation for block in blocks] == [1, 4, 16]
    assert [block.mixer.dilation for block in decoder("convolution").decoder.blocks] == [1, 1]


@pytest.mark.parametrize("mixer", MIXERS)
def test_nothing_of_the_future_and_something_of_the_past(mixer: str) -> None:
    model, row = decoder(mixer), ids(1, 10)
    other = row.clone()
    other[0, 6] = (row[0, 6] + 1) % 50
    with torch.no_grad():
        one, two = model(row), model(other)
    assert torch.equal(one[:, :6], two[:, :6])
    assert (one[:, 6:8] != two[:, 6:8]).any(-1).all()


@pytest.mark.parametrize("mixer", MIXERS)
@pytest.mark.parametrize("kind", ["none", "learned"])
def test_filling_on_either_side_changes_nothing(mixer: str, kind: str) -> None:
    model = decoder(mixer, positions=Positions(kind=kind, count=20))
    row, wanted = ids(1, 8), None
    with torch.no_grad():
        wanted = model(row)
        for before, after in ((3, 0), (0, 3), (2, 2)):
            filling = ids(1, 8, seed=1)
            padded = torch.cat([filling[:, :before], row, filling[:, :after]], dim=1)
            padding = torch.zeros(1, padded.shape[1], dtype=torch.bool)
            padding[:, before : before + 8] = True
            found = model(torch.cat([padded, padded.flip(1)]), torch.cat([padding, padding.flip(1)]))
            torch.testing.assert_close(found[:1, before : before + 8], wanted, rtol=1e-5, atol=1e-5)
            assert found.isfinite().all()


@pytest.mark.parametrize("mixer", MIXERS)
def test_documents_of_a_row_are_read_apart(mixer: str) -> None:
    model, row = decoder(mixer, positions=Positions(kind="sinusoidal")), ids(2, 9)
    documents = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 2, 2], [4, 4, 4, 4, 4, 4, 3, 3, 3]])
    with torch.no_grad():
        packed = model(row, documents=documents)
        for line, first, last in ((0, 0, 3), (0, 3, 7), (0, 7, 9), (1, 0, 6), (1, 6, 9)):
            alone = model(row[line : line + 1, first:last])
            torch.testing.assert_close(packed[line : line + 1, first:last], alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mixer", MIXERS)
def test_a_text_of_filling_alone_is_finite(mixer: str) -> None:
    model = decoder(mixer)
    assert model(ids(1, 4), torch.zeros(1, 4, dtype=torch.bool)).isfinite().all()


def test_a_block_with_memory_keeps_its_attention_to_it() -> None:
    config = encoder_decoder().config
    model = EncoderDecoder(replace(config, decoder=replace(config.decoder, mixer="convolution")))
    assert [place[:2] for place in model.attentions()] == [("encoder", 0), ("cross", 0), ("cross", 1)]
    assert model(ids(1, 5), ids(1, 4)).shape == (1, 4, 50)


def test_begins_as_deep_stacks_do() -> None:
    stack = replace(BASE, dim=256, hidden=64, mixer="gru")
    model = Decoder(ModelConfig(vocabulary=50, decoder=stack, initialisation="normal_by_depth"))
    assert model.decoder.blocks[0].mixer.output.weight.std().item() == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize("mixer", MIXERS)
def test_what_needs_attention_says_that_there_is_none(mixer: str, tmp_path) -> None:
    model = decoder(mixer)
    with pytest.raises(UnsupportedError, match=f"cache: got mixer='{mixer}', and only attention keeps keys"):
        model.new_cache()
    with pytest.raises(HeadwiseError, match=f"no attention in it: its tokens are mixed by mixer='{mixer}'"):
        headwise.record(model).__enter__()
    with pytest.raises(UnsupportedError, match=rf"decoder\.mixer is '{mixer}'"):
        headwise.save(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()
    reason = DecodeStep(model).reason
    assert reason is not None
    assert f"{mixer} in the place of attention" in reason or "no C kernel" in reason


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"mixer": "conv"}, "mixer: got 'conv', wanted one of attention, convolution, dilated, lstm, gru"),
        ({"causal": False}, "causal: got False beside mixer='convolution', wanted True"),
        ({"windows": (3, None)}, r"windows: got \(3, None\) beside mixer='convolution'"),
        ({"positions": Positions(kind="rotary")}, "positions: got 'rotary' beside mixer='convolution'"),
        ({"filter_width": 1}, "filter_width: got 1, wanted at least 2"),
    ],
)
def test_what_only_attention_can_do_is_refused(change: dict, told: str) -> None:
    stack = replace(BASE, **({"mixer": "convolution"} | change))
    kind = Decoder if stack.causal else Encoder
    name = "decoder" if stack.causal else "encoder"
    with pytest.raises(ValueError, match=told):
        kind(ModelConfig(vocabulary=50, head="language" if stack.causal else "none", **{name: stack}))
