"""`headwise generate`: a model goes on with a text, or answers it."""

import sys
import time
from typing import Annotated, Any

import typer

from headwise.errors import HeadwiseError

_HELP = """Let a model write: the text streams to standard output, and the speed is told on standard error.

The prompt is wrapped in the model's own chat template where it has one; --raw continues it exactly as given.

[bold]Examples[/bold]

  headwise generate "Name three rivers of France."

  headwise generate --raw "Once upon a time" --temperature 0.8 --top-p 0.95 --seed 7

  echo "The house is wonderful." | headwise generate --model ./my-translator - --beams 4
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("generate", help=_HELP)(generate)


def generate(
    prompt: Annotated[str, typer.Argument(help="The text, or - for standard input.", show_default=False)],
    model: Annotated[str, typer.Option(help="A name, a directory, a .gguf file or a hub id.")] = "smollm2",
    max_tokens: Annotated[int | None, typer.Option(help="New tokens at most.", show_default="256")] = None,
    temperature: Annotated[float, typer.Option(help="0: always the best token; above: drawn.")] = 0.0,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k best.", show_default=False)] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw from the best of this mass.", show_default=False)] = None,
    min_p: Annotated[
        float | None, typer.Option(help="Draw from those of this share of the best.", show_default=False)
    ] = None,
    repetition_penalty: Annotated[
        float | None, typer.Option(help="Above 1: tokens come less often twice.", show_default=False)
    ] = None,
    no_repeat_ngram: Annotated[
        int | None, typer.Option(help="No run of so many tokens twice.", show_default=False)
    ] = None,
    stop: Annotated[
        list[str] | None, typer.Option(help="End before this text; may be repeated.", show_default=False)
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed draws the same tokens.", show_default=False)] = None,
    beams: Annotated[int | None, typer.Option(help="Beams to search with.", show_default=False)] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="Above 1 prefers longer beams.", show_default=False)
    ] = None,
    ignore_end: Annotated[bool, typer.Option("--ignore-end", help="Go on past the end, for benchmarks.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="No chat template.")] = False,
) -> None:
    """Parse, load, stream."""
    text = _read_standard_input() if prompt == "-" else prompt
    wishes: dict[str, Any] = {
        name: value for name, value in locals().items() if name not in ("prompt", "model", "stop", "raw", "text")
    }
    from headwise.checkpoints.load import load_for_writing
    from headwise.generation.own import read_own
    from headwise.generation.prompts import check_writer, encode
    from headwise.generation.settings import settle

    writer = check_writer(load_for_writing(model))
    settings = settle(read_own(writer), stop or (), **wishes)
    ids = encode(writer, text, settings.own, chat=not raw and writer.tokenizer.chat_template is not None)
    _print(writer, ids, settings)


def _print(writer: Any, ids: list[int], settings: Any) -> None:
    """The pieces as they come, and then how fast they came."""
    from headwise.generation.compose import complete, pieces

    begun = time.perf_counter()
    if settings.beams > 1:
        completion = complete(writer, [ids], settings)[0]
        typer.echo(completion.text)
        _tell(len(ids), None, completion.tokens, time.perf_counter() - begun)
        return
    read, count = 0.0, 0
    for draft, piece in pieces(writer, [ids], settings):
        read = read or time.perf_counter() - begun
        count = draft.written.new
        sys.stdout.write(piece)
        sys.stdout.flush()
    typer.echo()
    _tell(len(ids), read, count, time.perf_counter() - begun)


def _tell(given: int, read: float | None, count: int, whole: float) -> None:
    """Reading ends with the first token; the rate of writing is that of the tokens after it."""
    if read is None:
        told = f"{given} tokens read and {count} written in {whole:.2f} s"
    else:
        rate = f", {(count - 1) / (whole - read):.1f} tokens/s" if count > 1 else ""
        told = f"{given} tokens read in {read:.2f} s, {given / read:.0f} tokens/s; {count} written{rate}"
    typer.echo(told, err=True)


def _read_standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise HeadwiseError(f"standard input: is not UTF-8 text: byte {error.start}") from None
