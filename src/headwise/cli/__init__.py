"""The command `headwise`: parse, call one function, print. Each command has a file; heavy imports happen inside."""

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, NoReturn

import typer

from headwise.errors import HeadwiseError

COMMANDS: tuple[str, ...] = (
    "atlas",
    "check",
    "compare",
    "explain",
    "generate",
    "models",
    "summarize",
    "train",
    "worksheet",
)

app = typer.Typer(
    name="headwise",
    help="Multi-head attention computed, shown and trusted, head by head.",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"headwise {version('headwise')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Multi-head attention computed, shown and trusted, head by head."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line; an error that a user can cause is one line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(arguments, prog_name="headwise", standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        _forget_output()
        code = 1
    except Exception as error:
        if os.environ.get("HEADWISE_TRACEBACK"):
            raise
        _forget_output()
        fail(_told(error))
    if code == 130:
        typer.echo("headwise: stopped", err=True)
    raise SystemExit(code if isinstance(code, int) else 0)


def fail(message: object) -> NoReturn:
    """One line on standard error and exit code 2."""
    line = " ".join(str(message).split())
    typer.echo(f"headwise: {line}", err=True)
    raise SystemExit(2)


def _told(error: Exception) -> str:
    """What happened, for people; a defect of ours is called one."""
    if hasattr(error, "format_message"):
        return _usage(error)
    if isinstance(error, OSError):
        reason = error.strerror or str(error) or type(error).__name__
        return f"{error.filename}: {reason}" if error.filename else reason
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "allocate memory" in str(error):
        return "out of memory: choose a smaller model, a shorter text or a smaller batch"
    if isinstance(error, HeadwiseError | UnicodeError) or (isinstance(error, ValueError) and _raised_here(error)):
        return str(error)
    if isinstance(error, typer.Abort):
        return "stopped"
    return f"defect in headwise: {type(error).__name__}: {error} (HEADWISE_TRACEBACK=1 shows where)"


def _usage(error: Exception) -> str:
    """What typer says of a wrong option or argument; it has no public class for it in every version."""
    told = str(error.format_message()).rstrip(" .")  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    return f"{told}; see: {context.command_path} --help" if context is not None else told


def _raised_here(error: Exception) -> bool:
    """Whether headwise itself raised it, refusing what it was given."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return place is not None and str(place.tb_frame.f_globals.get("__name__")).startswith("headwise")


def _forget_output() -> None:
    """Drop what cannot be written; the interpreter would try again when it ends, and complain."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


for _name in COMMANDS:
    import_module(f"headwise.cli.{_name}").register(app)
