"""Models to compare: equal in parameters, different in the mixer alone; the paths that gradients confirm; the costs."""

from dataclasses import replace
from itertools import combinations

import pytest
import torch
from single_thread import one_thread as one_thread
from torch import Tensor

from headwise import Decoder, StackConfig
from headwise.training.compare_cost import peak_bytes, read_costs
from headwise.training.compare_models import Shape, config_of, matched, parameters
from headwise.training.compare_paths import path_length, reach
from headwise.transformer.config import MIXERS
from headwise.transformer.mixers import Convolution, Recurrence
from headwise.transformer.stack import Stack

SMALL = StackConfig(layers=2, dim=4, heads=2, hidden=8, causal=True, filter_width=3)


@pytest.mark.parametrize("mixer", MIXERS)
@pytest.mark.parametrize(("vocabulary", "shape"), [(16, Shape()), (97, Shape()), (97, Shape(dim=128, layers=4))])
def test_equal_in_parameters_within_five_percent(mixer, vocabulary: int, shape: Shape) -> None:
    config = matched(mixer, vocabulary, shape)
    wanted = parameters(config_of("attention", shape.dim, vocabulary, shape))
    assert sum(parameter.numel() for parameter in Decoder(config).parameters()) == parameters(config)
    assert parameters(config) == pytest.approx(wanted, rel=0.05)


def test_they_differ_in_the_mixer_and_the_width_alone() -> None:
    own, other = matched("attention", 30, Shape()).decoder, matched("gru", 30, Shape()).decoder
    assert own is not None
    assert other is not None
    same = replace(other, mixer=own.mixer, dim=own.dim, hidden=own.hidden, positions=own.positions)
    assert same == own
    assert other.hidden / other.dim == own.hidden / own.dim


def test_a_width_too_small_to_be_equal_is_refused() -> None:
    with pytest.raises(ValueError, match="dim: got 2, too small to make convolution equal"):
        matched("convolution", 30, Shape(dim=2, heads=1))


def linked(stack: Stack, distance: int) -> bool:
    """Whether the first token has any influence on the one so far behind it, by the gradient."""
    x = torch.randn(1, distance + 1, 4, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(stack(x)[0, -1].square().sum(), x)
    return bool(gradient[0, 0].abs().sum() > 0)


@pytest.mark.parametrize("mixer", ["convolution", "dilated"])
def test_the_mixings_of_a_convolution_are_those_its_gradient_needs(mixer) -> None:
    """A signal arrives through n layers that mix, and through no fewer; the others are cut out."""
    config = replace(SMALL, mixer=mixer, layers=3)
    torch.manual_seed(0)
    stack = Stack(config).double()
    outputs = [block.mixer.output for block in stack.blocks]
    weights = [output.weight.detach().clone() for output in outputs]
    for distance in (1, 2, 3, 5, 6, 7, 9, 13, 19, 26, 27):
        fewest = None
        for kept in sorted((kept for n in range(4) for kept in combinations(range(3), n)), key=len):
            for at, output in enumerate(outputs):
                output.weight.data = weights[at] if at in kept else torch.zeros_like(weights[at])
            if linked(stack, distance):
                fewest = len(kept)
                break
        assert path_length(config, distance) == fewest, distance
    assert reach(config) == (6 if mixer == "convolution" else 26)


def test_the_mixings_of_attention_are_one() -> None:
    torch.manual_seed(0)
    config = replace(SMALL, layers=1)
    for distance in (1, 7, 40):
        assert path_length(config, distance) == 1
        assert linked(Stack(config).double(), distance)
    assert reach(config) is None


@pytest.mark.parametrize("gru", [False, True])
def test_a_recurrence_passes_a_signal_through_every_word_between(gru: bool) -> None:
    """Whichever one of the n states on the way is cut, the link is gone: so n mixings, and no way around them."""
    torch.manual_seed(0)
    cell = Recurrence(4, gru).double().cell
    config = replace(SMALL, mixer="gru" if gru else "lstm")
    for distance in (1, 5):
        assert path_length(config, distance) == distance
        for cut in [*range(1, distance + 1), None]:
            assert has_gradient(cell, distance, cut) == (cut is None)
    assert linked(Stack(config).double(), 40)


def has_gradient(cell: torch.nn.Module, distance: int, cut: int | None) -> bool:
    x = torch.randn(1, distance + 1, 4, dtype=torch.float64, requires_grad=True)
    state: Tensor | tuple[Tensor, ...] | None = None
    out = x
    for place in range(distance + 1):
        if place == cut:
            state = tuple(part.detach() for part in state) if isinstance(state, tuple) else state.detach()
        out, state = cell(x[:, place : place + 1], state)
    (gradient,) = torch.autograd.grad(out.sum(), x, allow_unused=True)
    return bool(gradient[0, 0].abs().sum() > 0)


def test_memory_is_what_is_alive_at_once() -> None:
    layer = torch.nn.Linear(100, 50, bias=False)
    x = torch.ones(10, 100)

    def one_after_the_other() -> None:
        for _ in range(3):
            layer(x)

    def all_together() -> Tensor:
        return torch.cat([layer(x) for _ in range(3)])

    with torch.no_grad():
        assert peak_bytes(one_after_the_other, layer) == 10 * 50 * 4
        assert peak_bytes(all_together, layer) == 6 * 10 * 50 * 4
        assert peak_bytes(lambda: layer.weight.t(), layer) == 0


def test_reading_costs_memory_by_the_word_and_not_by_the_square() -> None:
    for mixer in ("attention", "dilated", "lstm"):
        model = Decoder(config_of(mixer, 16, 20, Shape(layers=1)))
        costs = read_costs(model, (256, 1024), repeats=1)
        assert [cost.tokens for cost in costs] == [256, 1024]
        assert costs[1].bytes == pytest.approx(4 * costs[0].bytes, rel=0.2)
        assert all(cost.seconds > 0 for cost in costs)
    assert isinstance(model.decoder.blocks[0].mixer, Convolution | Recurrence)
