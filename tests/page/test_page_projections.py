"""q, k and v in the page: the very products that made them, and where those of another head can be had."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from page_models import lively, stack

import headwise
from headwise.tracing.projections import projected, projections_of
from headwise.views.page.from_trace import page_data
from headwise.views.page.pack import pack

TURNED = headwise.Positions(kind="rotary", dims=6)


def small(mode: str) -> tuple[Any, Any]:
    """A decoder with grouped heads, norms and a partial rotation, or an encoder-decoder; and what it read."""
    torch.manual_seed(7)
    causal = stack(causal=True, key_value_heads=1, query_key_norm=True, positions=TURNED)
    if mode == "decoder":
        model = lively(headwise.Decoder(headwise.ModelConfig(vocabulary=60, decoder=causal)))
        inputs = [torch.arange(5, 14)[None]]
    else:
        both = {"encoder": stack(), "decoder": stack(causal=True, cross=True)}
        model = lively(headwise.EncoderDecoder(headwise.ModelConfig(vocabulary=60, **both)))
        inputs = [torch.arange(5, 14)[None], torch.arange(20, 26)[None]]
    with torch.no_grad(), headwise.record(model) as recording:
        model(*inputs)
    return model, recording.trace


def shown(page: Any, what: str, key: int | None, element: int) -> float:
    """The number that the page adds up, after the one asked for was chosen."""
    place = f".vector[data-what='{what}']" if key is None else f"td[data-what='{what}'][data-key='{key}']"
    page.tab.locator(f"#table {place}").click()
    page.tab.locator("#table .provenance input").fill(str(element))
    page.tab.locator("#table .provenance input").press("Enter")
    assert f"[{element}] of" in page.text("#table .provenance h3")
    return float(page.tab.locator("#table .provenance output").get_attribute("data-value"))


def number(text: str) -> float:
    return float(text.replace("−", "-"))


@pytest.mark.parametrize("mode", ["encoder", "decoder", "cross"])
def test_every_number_of_q_k_and_v(show: Any, folder: Path, mode: str) -> None:
    model, trace = small(mode)
    focus = {"mode": mode, "layer": 1, "head": 2, "token": 3}
    page = show(headwise.write_page(trace, folder / f"projected-{mode}.html", focus=focus, model=model))
    found, place = projections_of(model, trace, mode, 1), trace.place(1, mode)
    parts = {
        "query": (found.query, found.x, 2, 3, place.query),
        "key": (found.key, found.memory, place.shared(2), 4, place.key),
        "value": (found.value, found.memory, place.shared(2), 4, place.value),
    }
    for name, (projection, rows, head, row, recorded) in parts.items():
        wanted = projected(projection, found, rows, recorded.shape[2])[head, row]
        for element in (0, 4, 7):
            got = shown(page, name, None if name == "query" else 4, element)
            assert got == pytest.approx(wanted[element], rel=1e-6, abs=1e-9), name
            assert abs(got - recorded[head, row, element]) <= found.allowed


@pytest.mark.weights
def test_the_products_of_a_real_model_add_up(show: Any, folder: Path, minilm: Any, kids_trace: Any) -> None:
    focus = {"mode": "encoder", "layer": 3, "head": 5, "token": 10}
    page = show(headwise.write_page(kids_trace, folder / "kids-projected.html", focus=focus, model=minilm))
    result = shown(page, "value", 2, 9)
    place, module = kids_trace.places["encoder", 3], minilm.attentions()[3].module
    row = module.value.weight[5 * 32 + 9].double().detach().numpy()
    assert result == pytest.approx(place.input[2] @ row + module.value.bias[5 * 32 + 9].item(), rel=1e-6)
    assert abs(result - place.value[5, 2, 9]) < 2e-6
    cells = page.tab.locator("#table .provenance tbody td").all_inner_texts()
    x, weights, products = (np.array([number(cell) for cell in cells[3 + at :: 3]]) for at in range(3))
    np.testing.assert_allclose(x, place.input[2], rtol=1e-6)
    np.testing.assert_allclose(weights, row, rtol=1e-6)
    assert products.sum() + number(cells[2]) == pytest.approx(result, rel=1e-5)
    assert "apart" in page.text("#table .provenance .recorded")


def test_another_head_says_where_it_can_be_had(show: Any, folder: Path) -> None:
    model, trace = small("decoder")
    focus = {"mode": "decoder", "layer": 1, "head": 2, "token": 3}
    path = headwise.write_page(trace, folder / "other.html", focus=focus, model=model, command="headwise explain 'A b'")
    page = show(path, "#layer=0&head=1&token=3")
    page.tab.locator("#table td[data-what='key'][data-key='2']").click()
    assert "for layer 1, head 2 alone" in page.text("#table .provenance")
    assert page.text("#table .provenance code") == "headwise explain 'A b' --layer 0 --head 1"
    page = show(headwise.write_page(trace, folder / "none.html", focus=focus))
    page.tab.locator("#table td[data-what='key'][data-key='2']").click()
    assert "write_page(trace, path, model=model)" in page.text("#table .provenance")


def test_they_are_left_out_where_they_have_no_room() -> None:
    model, trace = small("decoder")
    data = page_data(trace, model=model)
    size = sum(map(len, pack(data, 0).blocks))
    found = {}
    for limit in range(size // 2, size + 1, size // 20):
        packed = pack(data, 0, limit)
        assert sum(map(len, packed.blocks)) <= limit
        held = any(place["projected"] for place in packed.places)
        assert held == (packed.unprojected is None)
        found[held] = packed.unprojected
    assert found[True] is None
    assert found[False].startswith("W_Q, W_K and W_V had no room in this page; choose less with --layers")


@pytest.mark.weights
def test_the_command_puts_them_in(command: Any, tmp_path: Path) -> None:
    path = tmp_path / "attention.html"
    assert command("explain", "It works", "--layer", "2", "--head", "7", "--page", path).code == 0
    header = json.loads(re.search(r'id="header">(.*?)</script>', path.read_text())[1])
    assert header["unprojected"] is None
    held = {place["layer"]: place["projected"] for place in header["places"]}
    assert held.pop(2)["head"] == 7
    assert set(held.values()) == {None}
