"""`headwise.write_page` and the page inside a notebook."""

from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from headwise.errors import HeadwiseError
from headwise.tracing.trace import Trace
from headwise.views.page.assemble import assemble, page_script, page_style
from headwise.views.page.data import SCHEMA, PageData, Values
from headwise.views.page.from_trace import page_data
from headwise.views.page.pack import LIMIT, Packed, pack, stored_error
from headwise.written import write_text

NOTEBOOK = 3_800_000
"""Signs of a page in a notebook, where it can be that small: marimo shows at most 8 MB, and counts two bytes a sign."""


def write_page(
    trace: Trace,
    path: str | Path,
    *,
    layers: Iterable[int] | None = None,
    heads: Iterable[int] | None = None,
    focus: Values | None = None,
    command: str | None = None,
    prompt: int | None = None,
    limit: float = LIMIT / 1e6,
    model: Any = None,
) -> Path:
    """Write one HTML file that shows the trace and needs no network; at most `limit` MB.

    `layers` and `heads` keep some only. `focus` has mode, layer, head and token to open first. `command` is how to
    make it again. `prompt` is the number of tokens before those that the model wrote itself. `model` is the one that
    was recorded: with it the page can show how q, k and v of the head in focus were projected.
    """
    path = Path(path)
    data = page_data(trace, layers=layers, heads=heads, focus=focus, command=command, prompt=prompt, model=model)
    write_text(path, page_text(data, int(limit * 1e6)))
    return path


def trace_html(trace: Trace, height: int = 900) -> str:
    """The page in a frame of its own, for notebooks; the frame may run its script and save files, and nothing else."""
    try:
        data = page_data(trace)
        try:
            text = page_text(data, NOTEBOOK)
        except HeadwiseError:
            text = page_text(data)
    except HeadwiseError as error:
        return f"<pre>{escape(str(error))}</pre>"
    rights = "allow-scripts allow-downloads"
    # Its foot holds the receipt, and must be in view; the frames of some notebooks are as high as what is in them.
    style = f"width:100%;height:clamp({height * 2 // 3}px,85vh,{height}px);border:0"
    return f'<iframe title="headwise" sandbox="{rights}" style="{style}" srcdoc="{escape(text)}"></iframe>'


def page_text(data: PageData, limit: int = LIMIT) -> str:
    """The whole page as text."""
    room = len(page_script()) + len(page_style()) + 20_000
    room += sum(30 * len(stream.tokens) + len(stream.text or "") for stream in data.streams.values())
    packed = pack(data, room, limit)
    return assemble(_header(data, packed), packed.blocks)


def _header(data: PageData, packed: Packed) -> Values:
    """The header in JSON, as docs/page.md describes it."""
    names = ("text", "tokens", "offsets", "special", "words", "written_from")
    receipt = data.receipt
    return {
        "schema": SCHEMA,
        "title": data.title,
        "streams": {name: {field: getattr(stream, field) for field in names} for name, stream in data.streams.items()},
        "places": packed.places,
        "model": dict(data.model),
        "command": data.command,
        "focus": data.focus,
        "unprojected": packed.unprojected,
        "receipt": {
            "ok": receipt.ok,
            "rows": list(receipt.rows),
            "worst": receipt.worst,
            "stored": {"kept": _kept(data, packed), "errors": stored_error(data, packed)},
        },
    }


def _kept(data: PageData, packed: Packed) -> list[str]:
    """In which precision everything stands in the file, and what was left out for its size."""
    precision = packed.precision
    kept = [f"q, k and v in {precision.steps}"]
    places = [place for place in data.places if place.output]
    if places and precision.output:
        every = len(packed.output_layers) == len(places)
        which = "" if every else f", for layer {', '.join(str(layer) for _, layer in packed.output_layers)} only"
        kept.append(f"W_O in {precision.output}{which}")
    elif places:
        kept.append("W_O left out for its size")
    if packed.unprojected is None and not isinstance(data.projection, str):
        held = data.projection
        where = f"{held.mode} layer {held.layer}, head {held.facts['head']}"
        kept.append(f"W_Q, W_K, W_V and what they read in float32, for {where}")
    if any(place.input for place in data.places):
        kept.append(f"embeddings in {precision.input}" if precision.input else "embeddings left out for their size")
    return kept
