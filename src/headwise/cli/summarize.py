"""`headwise summarize`: documents become a few sentences each, with a word on which of them are borne out."""

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.errors import HeadwiseError
from headwise.written import write_text

if TYPE_CHECKING:
    from headwise.generation.summarize import Summary
    from headwise.generation.summarizer import Summarizer, Task
    from headwise.transformer.model import Encoder

_HELP = """Summarize documents: text, Markdown or HTML, of any length, on this machine.

Beside the summary stands which of its sentences have no sentence in the document that supports them; this is found \
by likeness of meaning (MiniLM) and by names and numbers, and --no-check leaves it out. --extract takes sentences from \
the document itself and cannot invent.

Exit code 0: all summarized; 1: some file was not, and which is told; 2: wrong options.

[bold]Examples[/bold]

  headwise summarize article.txt

  headwise summarize *.md notes.html --length short --out summaries

  curl -s https://example.org | headwise summarize - --extract --json
"""


@dataclass
class Document:
    """A file, its text, and what became of it."""

    name: str
    text: str
    task: "Task | None" = None


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("summarize", help=_HELP)(summarize)


def summarize(
    files: Annotated[list[str], typer.Argument(help="Files, or - for standard input.", show_default=False)],
    model: Annotated[str, typer.Option(help="A name, a directory, a .gguf file or a hub id.")] = "smollm2",
    length: Annotated[str, typer.Option(help="short, medium or long.")] = "medium",
    extract: Annotated[bool, typer.Option("--extract", help="Take sentences of the document.")] = False,
    check: Annotated[bool, typer.Option("--check/--no-check", help="Look for support in the document.")] = True,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line for each document.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write a file for each document here.", show_default=False)] = None,
    batch: Annotated[int, typer.Option(help="Documents read at a time.", min=1)] = 8,
) -> None:
    """Read all files, summarize those that could be read, and say which could not."""
    from headwise.generation.manner import size_of

    try:
        size_of(length)
    except ValueError as error:
        raise HeadwiseError(f"--{error}") from None
    if files.count("-") > 1:
        raise HeadwiseError("files: got - twice, and standard input can be read once")
    failed: list[str] = []
    documents = list(_readable(files, failed))
    if documents:
        printer = _Printer(json, out, alone=len(files) == 1, checked=check or extract)
        if extract:
            _extract(documents, length, printer)
        else:
            _write(documents, model, length, batch, check, printer, failed)
    if failed:
        typer.echo(f"headwise: {len(failed)} of {len(files)} not summarized: {', '.join(failed)}", err=True)
        raise typer.Exit(1)


def _readable(files: list[str], failed: list[str]) -> Iterator[Document]:
    """The documents that can be read; the others are told of at once."""
    from headwise.generation.documents import read_document

    for name in files:
        try:
            yield Document(name, read_document(name))
        except (HeadwiseError, OSError) as error:
            reason = f"{name}: {error.strerror}" if isinstance(error, OSError) else error
            typer.echo(f"headwise: {reason}", err=True)
            failed.append(name)


def _extract(documents: list[Document], length: str, printer: "_Printer") -> None:
    from headwise.generation.summarize import open_encoder, taken

    encoder = open_encoder()
    with _progress(len(documents)) as advance:
        for document in documents:
            printer.print(document.name, taken(document.text, length, encoder))
            advance()


def _write(
    documents: list[Document], model: str, length: str, batch: int, check: bool, printer: "_Printer", failed: list[str]
) -> None:
    """One document streams; of several, as many as a few batches hold are on the way at a time."""
    from headwise.generation.summarize import open_model
    from headwise.generation.summarizer import Summarizer

    summarizer = Summarizer(open_model(model), length, batch)
    documents = [document for document in documents if _plan(document, summarizer, failed)]
    encoder: list[Encoder | None] = []
    tasks = [document.task for document in documents if document.task]
    if len(tasks) == 1 and printer.streams:
        with _progress(tasks[0].parts) as advance:
            summarizer.read_parts(tasks, advance)
        printer.stream(summarizer.stream(tasks[0]))
        printer.print(documents[0].name, _judge(documents[0], check, encoder))
        return
    # What is read in parts is read once more, as the summaries of them.
    with _progress(sum(task.parts + (task.parts > 1) for task in tasks)) as advance:
        for first in range(0, len(tasks), 4 * batch):
            summarizer.run(tasks[first : first + 4 * batch], advance)
            for document in documents[first : first + 4 * batch]:
                printer.print(document.name, _judge(document, check, encoder))


def _plan(document: Document, summarizer: "Summarizer", failed: list[str]) -> bool:
    try:
        document.task = summarizer.task(document.text)
    except HeadwiseError as error:
        typer.echo(f"headwise: {document.name}: {error}", err=True)
        failed.append(document.name)
    return document.task is not None


def _judge(document: Document, check: bool, encoder: "list[Encoder | None]") -> "Summary":
    """The encoder is opened when it is first needed, after the first summary stands on the screen."""
    from headwise.generation.summarize import judged, open_encoder

    if not encoder:
        try:
            encoder.append(open_encoder() if check else None)
        except (HeadwiseError, OSError) as error:
            typer.echo(f"headwise: support was not looked for: {error}", err=True)
            encoder.append(None)
    assert document.task is not None
    return judged(document.task, document.text, encoder[0])


class _Printer:
    """Where summaries go: the screen or a directory, as text or as JSON."""

    def __init__(self, json: bool, out: Path | None, alone: bool, checked: bool) -> None:
        self._json, self._out, self._alone, self._checked = json, out, alone, checked
        self._streamed = False
        self._taken: set[str] = set()
        self.streams = alone and not json and out is None
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)

    def stream(self, pieces: Iterator[str]) -> None:
        """Write the pieces as they come."""
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()
        typer.echo()
        self._streamed = True

    def print(self, name: str, summary: "Summary") -> None:
        """One finished summary."""
        if self._out is not None:
            self._save(name, summary)
        elif self._json:
            typer.echo(_as_json(name, summary))
        else:
            if not self._streamed:
                typer.echo(summary.text if self._alone else f"{name}\n{summary.text}")
            for line in [*_remarks(summary), *([] if self._alone else [""])]:
                typer.echo(line)

    def _save(self, name: str, summary: "Summary") -> None:
        assert self._out is not None
        stem = "standard-input" if name == "-" else Path(name).name
        suffix = "json" if self._json else "txt"
        file, number = f"{stem}.summary.{suffix}", 1
        while file in self._taken:  # two files of one name, from two directories
            number += 1
            file = f"{stem}-{number}.summary.{suffix}"
        self._taken.add(file)
        text = _as_json(name, summary) if self._json else "\n".join([summary.text, *_remarks(summary)])
        write_text(self._out / file, text + "\n")


def _remarks(summary: "Summary") -> list[str]:
    """What stands beside a summary: its parts, and what the document does not bear out."""
    lines = [f"(read in {summary.parts} parts)"] if summary.parts > 1 else []
    for sentence in summary.unsupported:
        if sentence.missing:
            why = f"not said there: {', '.join(sentence.missing)}"
        else:
            why = f"nothing there is like it; nearest ({sentence.likeness:.2f}): {sentence.nearest}"
        lines.append(f"[no support] {sentence.text}\n             {why}")
    return lines


def _as_json(name: str, summary: "Summary") -> str:
    import json

    fields: dict[str, Any] = {
        "file": name,
        "summary": summary.text,
        "sentences": [
            {**sentence._asdict(), "likeness": round(sentence.likeness, 4)}
            if sentence.supported is not None
            else {"text": sentence.text, "supported": None}
            for sentence in summary.sentences
        ],
        "prompt_tokens": summary.prompt_tokens,
        "tokens": summary.tokens,
        "parts": summary.parts,
    }
    return json.dumps(fields, ensure_ascii=False)


@contextmanager
def _progress(count: int) -> Generator[Any, None, None]:
    """A bar on standard error, where that is a terminal and there is more than one thing to wait for."""
    if count < 2 or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("summarizing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # On the same screen the summaries come above the bar; in a file or a pipe they stay what they are.
    both = sys.stdout.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=both) as bar:
        task = bar.add_task("", total=count)
        yield lambda: bar.advance(task)
