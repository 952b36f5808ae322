"""`headwise explain`: every step of every head of a model, on your text, with a receipt."""

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.errors import HeadwiseError

if TYPE_CHECKING:
    from headwise.analysis.explain import Wanted
    from headwise.tracing.trace import Trace
    from headwise.views.explanation import Explanation

_HELP = """Every step of every head, with the real numbers of a real model, and a receipt.

[bold]Examples[/bold]

  headwise explain "The kids were scared of the lions, so they left right away."

  headwise explain "Action gets results" --model smollm2

  headwise explain "Love Apple phones" --moved "Apple pie with cream"

  headwise explain "The kids left, for they were scared." --word they --page attention.html
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("explain", help=_HELP)(explain)


@dataclass(frozen=True)
class _Source:
    """What is explained: a text and who reads it, or a saved trace."""

    text: str | None
    model: str | None
    transformers: Path | None
    trace: Path | None
    target: str | None
    write: int
    moved: str | None


@dataclass(frozen=True)
class _Wishes:
    """What is done with it."""

    full: bool
    json: bool
    save: Path | None
    page: Path | None
    layers: list[int] | None
    heads: list[int] | None


def explain(
    text: Annotated[str | None, typer.Argument(help="The text, or - to read it.", show_default=False)] = None,
    model: Annotated[
        str | None, typer.Option(help="A name, a directory, a .gguf file or a hub id.", show_default="minilm")
    ] = None,
    transformers: Annotated[Path | None, typer.Option(help="A directory for the transformers library.")] = None,
    word: Annotated[str | None, typer.Option(help="The word to follow, by text or number.")] = None,
    layer: Annotated[int | None, typer.Option(help="The layer to show, counted from 0.")] = None,
    head: Annotated[int | None, typer.Option(help="The head to show, counted from 0.")] = None,
    mode: Annotated[str | None, typer.Option(help="encoder, decoder or cross, where a model has several.")] = None,
    target: Annotated[str | None, typer.Option(help="What the decoder of an encoder-decoder reads.")] = None,
    write: Annotated[int, typer.Option(help="Let the model write so many tokens first.", show_default=False)] = 0,
    moved: Annotated[str | None, typer.Option(help="A second text: how the word's vector moved in both.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Every row, and vectors whole.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON, with full precision.")] = False,
    save: Annotated[Path | None, typer.Option(help="Save the trace to this file.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Explain a saved trace in place of TEXT.")] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write a page to look at and touch, such as attention.html.")
    ] = None,
    layers: Annotated[str | None, typer.Option(help="Layers on the page, such as 0,3-5; all if not given.")] = None,
    heads: Annotated[str | None, typer.Option(help="Heads on the page, such as 0-3; all if not given.")] = None,
) -> None:
    """Record the text, check the record, and show it."""
    from headwise.analysis.explain import Wanted

    source = _Source(_read(text, trace), model, transformers, trace, target, write, moved)
    chosen = _numbers("--layers", layers), _numbers("--heads", heads)
    _show(source, Wanted(word, layer, head, mode), _Wishes(full, as_json, save, page, *chosen))


def _show(source: _Source, wanted: "Wanted", wishes: _Wishes) -> None:
    recorded, other, model = _record(source)
    if wishes.page is not None:
        recorded = _with_hash(source, recorded)
    shown = _explain(recorded, other, wanted, shlex.join(["headwise", *sys.argv[1:]]))
    # First of all what may be refused, such as a page that would be too large: then nothing is written or shown.
    page = None if wishes.page is None else _write_page(source, recorded, shown, wishes, model)
    if wishes.save is not None:
        recorded.save(wishes.save)
    if wishes.json:
        from headwise.views.explanation_json import to_json

        sys.stdout.write(to_json(shown) + "\n")
    else:
        _print(shown, wishes.full)
    if page is not None:
        typer.echo(f"page: {page.absolute()} (open it in a browser; it needs no network)", err=wishes.json)


def _write_page(source: _Source, trace: "Trace", shown: "Explanation", wishes: _Wishes, model: Any) -> Path:
    """The page, open at what the explanation shows."""
    from headwise.views.page.write import write_page

    assert wishes.page is not None
    focus = {"mode": shown.mode, "layer": shown.table.layer, "head": shown.table.head, "token": shown.table.query}
    begun = _prompt(source, trace)
    return write_page(
        trace,
        wishes.page,
        layers=wishes.layers,
        heads=wishes.heads,
        focus=focus,
        command=shown.command,
        prompt=begun,
        model=model,
    )


def _read(text: str | None, trace: Path | None) -> str | None:
    """The text as given, or from standard input."""
    if (text is None) == (trace is None):
        raise HeadwiseError('text: wanted either a TEXT or --trace FILE, for example: headwise explain "It works"')
    if text != "-":
        return text
    try:
        return sys.stdin.buffer.read().decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise HeadwiseError(f"standard input: byte {error.start} is not UTF-8") from None


def _numbers(option: str, text: str | None) -> list[int] | None:
    """0,3-5 as numbers."""
    if text is None:
        return None
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdecimal() or not (last or first).isdecimal() or len(part) > 12:
            raise HeadwiseError(f"{option}: got {text[:40]!r}, wanted numbers such as 0,3-5")
        if int(last or first) - int(first) > 10_000:
            raise HeadwiseError(f"{option}: got {text[:40]!r}, wanted the numbers of layers or heads")
        found += range(int(first), int(last or first) + 1)
    return found


def _record(source: _Source) -> tuple["Trace", "Trace | None", Any]:
    """The trace of the text, that of the text it is compared with, and the model, where it is one of ours."""
    if source.trace is not None:
        trace, model = _saved(source)
        return trace, None, model
    model = None
    assert source.text is not None
    if source.transformers is not None:
        read = _library_reader(source)
    else:
        from headwise.analysis.run import trace_text
        from headwise.checkpoints.load import load

        model = load(source.model or "minilm")

        def read(text: str) -> "Trace":
            return trace_text(model, text, source.target, source.write)

    return read(source.text), None if source.moved is None else read(source.moved), model


def _saved(source: _Source) -> tuple["Trace", Any]:
    """The trace, and its model where that is named."""
    from headwise.tracing.trace import Trace

    if source.moved is not None or source.target is not None or source.write:
        raise HeadwiseError("--trace: a saved trace reads no new text; leave out --moved, --target and --write")
    assert source.trace is not None
    trace = Trace.load(source.trace)
    if source.model is None:
        return trace, None
    from headwise.checkpoints.load import load
    from headwise.tracing.identity import check_same_model

    model = load(source.model)
    check_same_model(trace, model, str(source.trace))
    return trace, model


def _library_reader(source: _Source) -> Any:
    from headwise.analysis.run import trace_library_text
    from headwise.tracing.huggingface import load_library

    if source.model is not None:
        raise HeadwiseError("--transformers: got --model too, wanted one of them")
    if source.target is not None or source.write:
        raise HeadwiseError("--transformers: --target and --write are for headwise's own models")
    model, tokenizer = load_library(str(source.transformers))
    return lambda text: trace_library_text(model, tokenizer, text)


def _prompt(source: _Source, trace: "Trace") -> int | None:
    """How many tokens of the decoder's the model did not write itself."""
    if not source.write or "decoder" not in trace.streams:
        return None
    if "encoder" in trace.streams:
        return 1
    return int(trace.about["prompt_tokens"])


def _with_hash(source: _Source, trace: "Trace") -> "Trace":
    """The trace with the hash of the model's file, where the file is known."""
    from headwise.checkpoints.digest import weights_sha256
    from headwise.checkpoints.sources import find

    if source.trace is not None and source.model is None:
        return trace
    found = weights_sha256(source.transformers or find(source.model or "minilm"))
    return replace(trace, about={**trace.about, "file": found}) if found else trace


def _explain(trace: "Trace", other: "Trace | None", wanted: "Wanted", command: str) -> "Explanation":
    from headwise.analysis.explain import choose_mode, explain_trace
    from headwise.analysis.moved import how_it_moved

    moved = None
    if other is not None:
        moved = how_it_moved(trace, other, choose_mode(trace, wanted.mode), wanted.word)
    return explain_trace(trace, wanted, command, moved)


def _print(shown: "Explanation", full: bool) -> None:
    from rich.console import Console

    from headwise.views.terminal.report import show

    show(shown, Console(), full)
