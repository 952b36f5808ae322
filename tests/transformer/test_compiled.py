"""torch.compile takes a whole decoder step, cache and all, as one graph."""

from collections.abc import Iterator

import pytest
import torch
from kinds_of_models import STACKS, decoder, encoder, encoder_decoder, ids


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch.compiler.reset()
    with torch.no_grad():
        yield
    torch.compiler.reset()


@pytest.mark.parametrize("kind", STACKS)
def test_a_step(kind: str) -> None:
    model = decoder(kind)
    step = torch.compile(model, fullgraph=True, backend="eager")
    row = ids(2, 14)
    cache = model.new_cache(capacity=20)
    said = [model(row[:, :4], cache=cache)]
    said += [step(row[:, place : place + 1], cache=cache) for place in range(4, 14)]
    torch.testing.assert_close(torch.cat(said, dim=1), model(row), rtol=1e-4, atol=1e-5)
    assert cache.seen == 14


def test_few_graphs_serve_many_steps() -> None:
    model = decoder("rotary")
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    step, cache = torch.compile(model, fullgraph=True, backend=count), model.new_cache(capacity=40)
    for place in range(30):
        step(ids(1, 30)[:, place : place + 1], cache=cache)
    assert len(graphs) <= 3


def test_whole_models() -> None:
    padding = torch.ones(2, 7, dtype=torch.bool)
    padding[1, 4:] = False
    for model, inputs in (
        (encoder(), (ids(2, 7), padding)),
        (encoder_decoder(), (ids(2, 7), ids(2, 5), padding)),
        (decoder("window"), (ids(2, 7), padding)),
    ):
        compiled = torch.compile(model, fullgraph=True, backend="eager")
        torch.testing.assert_close(compiled(*inputs), model(*inputs))


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # of torch by torch
def test_a_step_through_the_compiler() -> None:
    model = decoder("rotary", layers=1)
    step = torch.compile(model, fullgraph=True, dynamic=True)
    row, cache = ids(2, 7), model.new_cache(capacity=8)
    said = [model(row[:, :4], cache=cache)]
    said += [step(row[:, place : place + 1], cache=cache) for place in range(4, 7)]
    torch.testing.assert_close(torch.cat(said, dim=1), model(row), rtol=1e-4, atol=1e-5)
