"""`headwise check`: does your attention function obey the laws?"""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.errors import HeadwiseError

if TYPE_CHECKING:
    from headwise.attention.laws import Report

_HELP = """Try the laws of attention on your own function.

The function is called as f(query, key, value, mask): tensors \\[batch, head, token, head_dim], and a mask that is \
None or bool \\[batch, head or 1, query, key], where True means "may attend". A law that is broken comes with the \
smallest failing case found and the two numbers that differ.

Exit code 0: all hold; 1: one is broken; 2: there was nothing to check.

[bold]Examples[/bold]

  headwise check my_module:my_attention

  headwise check my_module:my_attention --without grouped
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("check", help=_HELP)(check)


def check(
    target: Annotated[str, typer.Argument(help="module:function, importable from here.", show_default=False)],
    without: Annotated[
        list[str] | None,
        typer.Option(help="Leave this law out, by its short name; may be repeated.", show_default=False),
    ] = None,
) -> None:
    """Import the function, try the laws on it and print them as a table."""
    function = _imported(target)
    import torch

    from headwise.attention.laws import check_attention

    torch.set_num_threads(1)  # the cases are tiny: more threads would only wait for each other
    try:
        report = check_attention(function, without or ())
    except ValueError as error:
        raise HeadwiseError(f"--{error}") from None
    _print(report)
    raise typer.Exit(0 if report.ok else 1)


def _imported(target: str) -> Callable[..., Any]:
    module_name, colon, name = target.partition(":")
    if not (module_name and colon and name):
        raise HeadwiseError(f"target: got {target!r}, wanted module:function, for example my_module:my_attention")
    if "" not in sys.path:
        sys.path.insert(0, "")  # the current directory, as `python -m` has it
    try:
        found: Any = import_module(module_name)
    except Exception as error:  # whatever the user's module raises while it is imported
        raise HeadwiseError(f"{module_name}: cannot be imported: {type(error).__name__}: {error}") from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise HeadwiseError(f"{target}: {module_name} has no {name}")
        found = getattr(found, part)
    if not callable(found):
        raise HeadwiseError(f"{target}: got {type(found).__name__}, wanted a function f(query, key, value, mask)")
    return found


def _print(report: "Report") -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("", "name", "law", "smallest failing case")
    for row in report.rows:
        verdict = "[green]holds[/green]" if row.held else "[bold red]broken[/bold red]"
        table.add_row(verdict, row.name, row.law, "" if row.held else escape(str(row.counterexample)))
    Console().print(table)
