"""The command `headwise`: parse, call one function, print. Each command has a file; heavy imports happen inside."""

import sys
from importlib import import_module
from typing import Annotated, NoReturn

import typer

from headwise.errors import HeadwiseError

app = typer.Typer(
    name="headwise",
    help="Multi-head attention computed, shown and trusted, head by head.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS: tuple[str, ...] = ()

for _name in COMMANDS:
    import_module(f"headwise.cli.{_name}").register(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"headwise {version('headwise')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Multi-head attention computed, shown and trusted, head by head."""


def fail(message: object) -> NoReturn:
    """One line on standard error and exit code 2."""
    line = " ".join(str(message).split())
    typer.echo(f"headwise: {line}", err=True)
    raise SystemExit(2)


def main() -> None:
    """Run the command line; an error that a user can cause is one line."""
    try:
        app()
    except HeadwiseError as error:
        fail(error)
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        typer.echo("headwise: stopped", err=True)
        raise SystemExit(130) from None
