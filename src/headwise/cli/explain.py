"""`headwise explain`: every step of every head of a model, on your text, with a receipt."""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.errors import HeadwiseError

if TYPE_CHECKING:
    from headwise.tracing.trace import Trace
    from headwise.views.explanation import Explanation

_HELP = """Every step of every head, with the real numbers of a real model, and a receipt.

[bold]Examples[/bold]

  headwise explain "The kids were scared of the lions, so they left right away."

  headwise explain "Action gets results" --model smollm2

  headwise explain "Love Apple phones" --moved "Apple pie with cream"

  headwise explain "They left." --word They --layer 3 --head 1 --full
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("explain", help=_HELP)(explain)


@dataclass(frozen=True)
class _Asked:
    """The options that say what to run."""

    text: str | None
    model: str
    transformers: Path | None
    target: str | None
    trace: Path | None


def explain(
    text: Annotated[str | None, typer.Argument(help="The text, or - to read it.", show_default=False)] = None,
    model: Annotated[str, typer.Option(help="A name such as minilm or smollm2, a directory, a .gguf file.")] = "minilm",
    transformers: Annotated[
        Path | None, typer.Option(help="The directory of a model that the transformers library runs.")
    ] = None,
    word: Annotated[str | None, typer.Option(help="The word to follow, by text or number.", show_default=False)] = None,
    layer: Annotated[int | None, typer.Option(help="Counted from 0.", show_default=False)] = None,
    head: Annotated[int | None, typer.Option(help="Counted from 0.", show_default=False)] = None,
    mode: Annotated[str | None, typer.Option(help="encoder, decoder or cross.", show_default=False)] = None,
    target: Annotated[
        str | None, typer.Option(help="What the decoder of an encoder-decoder reads.", show_default=False)
    ] = None,
    moved: Annotated[
        str | None, typer.Option(help="Another text: how the word's vector moved in both.", show_default=False)
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Show every row, and vectors whole.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON, with full precision.")] = False,
    save: Annotated[Path | None, typer.Option(help="Save the trace to this file.", show_default=False)] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Explain a saved trace in place of TEXT.", show_default=False)
    ] = None,
) -> None:
    """Record the text, check the record, and show it."""
    from headwise.analysis.explain import Wanted

    asked = _Asked(_read(text, trace), model, transformers, target, trace)
    recorded, other = _record(asked, moved)
    wanted = Wanted(word, layer, head, mode)
    shown = _explain(recorded, other, wanted, shlex.join(["headwise", *sys.argv[1:]]))
    if save is not None:
        recorded.save(save)
    if as_json:
        from headwise.views.explanation_json import to_json

        sys.stdout.write(to_json(shown) + "\n")
    else:
        _print(shown, full)


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


def _record(asked: _Asked, moved: str | None) -> tuple["Trace", "Trace | None"]:
    """The trace of the text, and that of the text it is compared with."""
    if asked.trace is not None:
        from headwise.tracing.trace import Trace

        if moved is not None:
            raise HeadwiseError("--moved: needs a model, and --trace has none; give TEXT instead")
        return Trace.load(asked.trace), None
    assert asked.text is not None
    if asked.transformers is not None:
        from headwise.analysis.run import trace_library_text
        from headwise.tracing.huggingface import load_library

        library_model, tokenizer = load_library(str(asked.transformers))
        texts = [asked.text] if moved is None else [asked.text, moved]
        traces = [trace_library_text(library_model, tokenizer, text) for text in texts]
    else:
        from headwise.analysis.run import trace_text
        from headwise.checkpoints.load import load

        loaded: Any = load(asked.model)
        traces = [trace_text(loaded, asked.text, asked.target)]
        if moved is not None:
            traces.append(trace_text(loaded, moved, asked.target))
    return traces[0], traces[1] if moved is not None else None


def _explain(trace: "Trace", other: "Trace | None", wanted: Any, command: str) -> "Explanation":
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
