"""What goes into the page: exact numbers, words, the size it may have, and one script that nothing can change."""

import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_models import random_trace, small_cross, small_encoder

import headwise
from headwise.errors import HeadwiseError, ReceiptError
from headwise.views.page import assemble, atlas, write
from headwise.views.page.encode import ALPHABET, encode
from headwise.views.page.from_trace import page_data
from headwise.views.page.pack import pack, stored_error
from headwise.views.page.words import words_of
from headwise.views.page.write import trace_html

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "src/headwise/views/page/assets/js").glob("*.js"))


def read(text: str, dtype: str) -> Any:
    """The numbers of a block, by a reader that shares nothing with the writer."""
    words = [0] * ((len(text) - 1) // 5)
    for at in range(len(words)):
        digits = [ALPHABET.index(sign) for sign in text[1 + 5 * at : 6 + 5 * at]]
        words[at] = sum(digit * 85**place for place, digit in enumerate(reversed(digits)))
    raw = b"".join(word.to_bytes(4, "big") for word in words)
    raw = zlib.decompress(raw[: len(raw) - ALPHABET.index(text[0])])
    width = np.dtype(dtype).itemsize
    count = len(raw) // width
    return np.frombuffer(bytes(raw[place * count + at] for at in range(count) for place in range(width)), dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 100])
def test_numbers_come_back_bit_for_bit(dtype: str, count: int) -> None:
    values = (np.random.default_rng(count).standard_normal(count) * 50).astype(dtype)
    assert read(encode(values), dtype).tobytes() == values.tobytes()


def test_blocks_need_no_escape_anywhere() -> None:
    assert len(set(ALPHABET)) == 85
    assert not set(ALPHABET) & set("<>&\"'`\\ \n")


@pytest.mark.parametrize(("tokens", "most"), [(128, 6e6), (512, 12e6)])
def test_sizes_for_all_heads_of_a_small_real_model(tokens: int, most: float, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(
        "headwise.tracing.receipt.Receipt.require", lambda _: None
    )  # random numbers reconcile with none
    trace = random_trace(6, 12, tokens, 384)
    path = headwise.write_page(trace, tmp_path / "page.html", focus={"layer": 3, "head": 1, "token": 5})
    assert path.stat().st_size <= most
    header = json.loads(re.search(r'id="header">(.*?)</script>', path.read_text())[1])
    kinds = {place["arrays"]["query"]["type"] for place in header["places"]}
    assert kinds == ({"float32"} if tokens == 128 else {"float16"})
    assert all("output_weight" in place["arrays"] for place in header["places"])
    stored = {row["what"] for row in header["receipt"]["stored"]["errors"]}
    assert stored == ({"Z_f"} if tokens == 128 else {"a weight", "z", "Z_f"})


def test_a_page_that_would_be_too_large_is_refused_before_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    with pytest.raises(
        HeadwiseError, match=r"would take .* MB .* may take 0 MB: it holds 18 heads .*--layers and --heads"
    ):
        headwise.write_page(small_cross(), path, limit=0.2)
    assert list(tmp_path.iterdir()) == []


def test_a_trace_that_does_not_reconcile_is_not_drawn(tmp_path: Path) -> None:
    trace = small_encoder(["one", "two", "three"])
    place = trace.places["encoder", 1]
    broken = replace(trace, places={**trace.places, ("encoder", 1): replace(place, mixed=place.mixed * 1.001)})
    with pytest.raises(ReceiptError, match="weights · v, encoder layer 1"):
        headwise.write_page(broken, tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []
    assert trace_html(broken).startswith("<pre>receipt: ")


def test_fewer_layers_and_heads_and_what_the_others_wrote() -> None:
    trace = small_cross()
    data = page_data(trace, layers=[1], heads=[0, 2])
    assert [(place.mode, place.layer, list(place.heads)) for place in data.places] == [
        ("encoder", 1, [0, 2]),
        ("decoder", 1, [0, 2]),
        ("cross", 1, [0, 2]),
    ]
    place, kept = trace.places["decoder", 1], data.places[1]
    np.testing.assert_array_equal(kept.steps["query"], place.query[[0, 2]])
    np.testing.assert_array_equal(kept.output["output"], place.output)
    with pytest.raises(HeadwiseError, match=r"layers: got \[7\], this trace has 0 to 1"):
        page_data(trace, layers=[7])
    with pytest.raises(HeadwiseError, match=r"heads: got \[\], this trace has 0 to 2"):
        page_data(trace, heads=[])


def test_lengths_are_those_that_python_computes() -> None:
    trace = small_cross()
    place = page_data(trace).places[-1]
    for query in range(6):
        joined = trace.joined(1, query, "cross")
        np.testing.assert_allclose(place.steps["head_norms"][:, query], np.linalg.norm(joined.parts, axis=1), rtol=1e-5)
    wrote = trace.wrote(1, 2, 3, "cross").norms
    weights = trace.steps(1, 2, 3, "cross").weights
    np.testing.assert_allclose(place.steps["key_norms"][2] * weights, wrote, rtol=1e-5)


def test_the_error_of_float16_is_found_where_it_is_largest() -> None:
    trace = small_encoder([f"word{at}" for at in range(9)])
    data = page_data(trace)
    packed = pack(data, 0, limit=int(sum(map(len, pack(data, 0).blocks)) * 0.55))
    assert packed.precision.steps == "float16"
    stated = {row["what"]: row["error"] for row in stored_error(data, packed)}
    halves = {
        name: replace(
            place,
            **{part: getattr(place, part).astype(np.float16).astype(np.float32) for part in ("query", "key", "value")},
        )
        for name, place in trace.places.items()
    }
    short = replace(trace, places=halves)
    moved = max(float(np.abs(short.weights(layer) - trace.weights(layer)).max()) for layer in (0, 1))
    assert stated["a weight"] == pytest.approx(moved, rel=0.2)  # the bias is rounded too
    assert 0 < stated["z"] < 0.1


@pytest.mark.parametrize(
    ("text", "spans", "words"),
    [
        ("un believe able", [(0, 2), (3, 10), (11, 15)], [[0], [1], [2]]),
        ("unbelievable", [(0, 2), (2, 8), (8, 12)], [[0, 1, 2]]),
        ("don't go", [(0, 3), (3, 4), (4, 5), (5, 8)], [[0, 1, 2], [3]]),
        ("a, b", [(0, 1), (1, 2), (2, 4)], [[0], [1], [2]]),
        ("孩子们", [(0, 1), (1, 2), (2, 3)], [[0], [1], [2]]),
    ],
)
def test_tokens_of_one_word(text: str, spans: list[tuple[int, int]], words: list[list[int]]) -> None:
    tokens = [text[start:end] for start, end in spans]
    assert words_of(text, tokens, spans, [False] * len(spans)) == words


def test_tokens_of_one_word_by_their_pieces() -> None:
    bytes_of_signs = [(0, 1), (1, 3), (2, 3), (2, 3), (3, 4), (3, 4), (5, 6)]
    assert words_of("A 🦁👧 x", ["?"] * 7, bytes_of_signs, [False] * 7) == [[0], [1, 2, 3], [4, 5], [6]]
    assert words_of(None, ["[CLS]", "un", "##do", "it"], None, [True, False, False, False]) == [[0], [1, 2], [3]]
    assert words_of(None, ["The", " un", "do", "."], None, [False] * 4) == [[0], [1, 2], [3]]


def test_signs_beyond_the_first_plane_move_no_word(tmp_path: Path) -> None:
    data = page_data(small_encoder(["😀😀", "after"]))
    text = data.streams["encoder"].text.encode("utf-16-le")
    start, end = data.streams["encoder"].offsets[1]
    assert text[2 * start : 2 * end].decode("utf-16-le") == "after"


def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(HeadwiseError, match=r"page\.html: cannot be written: No such file"):
        headwise.write_page(small_encoder(["a", "b"]), tmp_path / "nowhere" / "page.html")


def test_the_policy_names_the_script_and_the_style() -> None:
    page = assemble.assemble({"title": "<b>"}, ["abc"])
    policy = re.search(r'Policy" content="([^"]*)"', page)[1]
    for kind, text in (
        ("script", re.findall(r"<script>(.*?)</script>", page, re.S)[-1]),
        ("style", re.search(r"<style>(.*?)</style>", page, re.S)[1]),
    ):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "<title>&lt;b&gt;</title>" in page
    assert "http" not in re.sub(r"http://www\.w3\.org/\S+|http-equiv", "", page)


def test_every_module_is_in_a_page_and_in_none_twice() -> None:
    scripts = [assemble.page_script(parts) for parts in (assemble.PAGE, atlas.ATLAS)]
    for module in MODULES:
        counts = [script.count(f"const module_{module.stem} = (") for script in scripts]
        assert max(counts) == 1, module.name
    assert not any(re.search(r"^(import|export)\b", script, re.M) for script in scripts)


def test_what_cannot_be_inlined_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "_asset", lambda name: 'import * as all from "./data.js";\n')
    with pytest.raises(ValueError, match=r"main\.js: cannot inline 'import \* as all"):
        assemble.page_script.__wrapped__()
    monkeypatch.setattr(assemble, "_asset", lambda name: 'import { a } from "./main.js";\n')
    with pytest.raises(ValueError, match=r"main\.js: imports itself"):
        assemble.page_script.__wrapped__()


def test_the_documents_name_every_field() -> None:
    page = (ROOT / "docs" / "page.md").read_text()
    path_of_header = json.loads(re.search(r'id="header">(.*?)</script>', text_of(small_cross()))[1])
    names = {
        *path_of_header,
        *path_of_header["streams"]["encoder"],
        *path_of_header["places"][0],
        *path_of_header["receipt"],
    }
    names |= set(path_of_header["places"][0]["arrays"])
    assert sorted(name for name in names if f"`{name}`" not in page) == []


def text_of(trace: Any) -> str:
    from headwise.views.page.write import page_text

    return page_text(page_data(trace))


def test_a_page_in_a_notebook_is_small_where_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = small_encoder([f"word{at}" for at in range(60)])
    whole = len(trace_html(trace))
    numbers = sum(map(len, pack(page_data(trace), 0).blocks))
    room = len(assemble.page_script()) + len(assemble.page_style()) + 25_000
    monkeypatch.setattr(write, "NOTEBOOK", room + numbers * 3 // 4)
    assert len(trace_html(trace)) < whole - numbers // 5
    monkeypatch.setattr(write, "NOTEBOOK", 1000)
    assert len(trace_html(trace)) == whole
