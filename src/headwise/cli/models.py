"""`headwise models`: what can be opened by name, what is on this machine, and what a model is made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.errors import HeadwiseError, SourceError

if TYPE_CHECKING:
    from headwise.checkpoints.describe import Description
    from headwise.checkpoints.registry import Registered

_HELP = """Models by name, and those on this machine.

[bold]Examples[/bold]

  headwise models

  headwise models pull smollm2

  headwise models show smollm2

  headwise models show ./my-model --json
"""
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    models = typer.Typer(help=_HELP, rich_markup_mode="rich", invoke_without_command=True)
    models.callback(invoke_without_command=True, help=_HELP)(list_models)
    models.command("pull", help="Fetch a model: a registered name, or org/name of the hub.")(pull)
    models.command("show", help="What a model is made of, from its headers alone.")(show)
    app.add_typer(models, name="models")


def list_models(context: typer.Context, as_json: _Json = False) -> None:
    """Print the registered models and those in the hub's cache."""
    if context.invoked_subcommand is not None:
        return
    rows = [*_registered(), *_cached()]
    if as_json:
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    head = ["NAME", "SIZE", "LAYERS × HEADS", "LICENCE", "FETCHED", ""]
    lines = [
        [
            str(row["name"]),
            _bytes(row["bytes"]),
            _grid(row),
            row["licence"] or "unknown",
            row["fetched"],
            row["summary"],
        ]
        for row in rows
    ]
    widths = [max(len(line[column]) for line in [head, *lines]) for column in range(len(head))]
    for line in [head, *lines]:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _registered() -> list[dict[str, Any]]:
    from headwise.checkpoints.registry import REGISTRY

    return [
        {
            "name": entry.name,
            "bytes": entry.size,
            "layers": entry.layers,
            "heads": entry.heads,
            "licence": entry.licence,
            "fetched": _state(entry),
            "summary": entry.summary,
        }
        for entry in REGISTRY.values()
    ]


def _state(entry: Registered) -> str:
    from headwise.checkpoints.store import stored

    try:
        return "yes" if stored(entry) else "no"
    except SourceError:
        return "damaged"


def _cached() -> list[dict[str, Any]]:
    """The hub's models on this machine that headwise can open."""
    from headwise.checkpoints.describe import describe
    from headwise.checkpoints.hub import cached_models, choose

    rows: list[dict[str, Any]] = []
    for name, folder in cached_models():
        try:
            about = describe(choose(folder, name))
        except (HeadwiseError, OSError):
            continue
        row = {"name": name, "bytes": about.size, "layers": about.config.layers, "heads": about.config.heads}
        rows.append(row | {"licence": about.licence, "fetched": "yes", "summary": about.config.architecture})
    return rows


def pull(
    name: Annotated[str, typer.Argument(help="minilm, smollm2, or org/name.", show_default=False)],
) -> None:
    """Fetch a model, and print where it is."""
    from headwise.checkpoints.sources import find

    typer.echo(find(name))


def show(
    name: Annotated[str, typer.Argument(metavar="PATH_OR_NAME", help="A path, or a name.", show_default=False)],
    as_json: _Json = False,
) -> None:
    """Print what a model is made of."""
    from headwise.checkpoints.describe import describe

    path = _on_this_machine(name)
    facts = _facts(name, describe(path))
    if as_json:
        typer.echo(json.dumps(facts, ensure_ascii=False, indent=2))
        return
    for key, value in _told(facts).items():
        typer.echo(f"{key:<12}{value}")


def _on_this_machine(name: str) -> Path:
    """Where the model is; showing it never starts a download."""
    from headwise.checkpoints.hub import cached_models, choose
    from headwise.checkpoints.registry import REGISTRY
    from headwise.checkpoints.sources import find
    from headwise.checkpoints.store import stored

    if name in REGISTRY:
        entry = REGISTRY[name]
        if (path := stored(entry)) is not None:
            return path
        shape = f"{entry.layers} layers × {entry.heads} heads, {_bytes(entry.size)}, {entry.licence}"
        raise SourceError(f"{name}: {entry.summary}; {shape}; not fetched yet: headwise models pull {name}")
    if not Path(name).expanduser().exists():
        cached = dict(cached_models())
        if name in cached:
            return choose(cached[name], name)
        if name.count("/") == 1 and not name.startswith((".", "/", "~")):
            raise SourceError(f"{name}: is not on this machine; fetch it with: headwise models pull {name}")
    return find(name)


def _facts(name: str, about: Description) -> dict[str, Any]:
    config = about.config
    stacks = {
        kind: {
            "layers": stack.layers,
            "heads": stack.heads,
            "key_value_heads": stack.shared_heads,
            "head_size": stack.size_of_head,
            "width": stack.dim,
            "feed_forward": stack.hidden,
            "positions": stack.positions.kind,
        }
        for kind, stack in config.stacks.items()
    }
    return {
        "name": name,
        "path": str(about.path),
        "family": config.family,
        "architecture": config.architecture,
        **stacks,
        "context": config.context or None,
        "vocabulary": config.vocabulary,
        "parameters": about.parameters,
        "kinds": dict(about.kinds),
        "bytes": about.size,
        "licence": _licence(name, about),
    }


def _licence(name: str, about: Description) -> str | None:
    from headwise.checkpoints.registry import REGISTRY

    return REGISTRY[name].licence if name in REGISTRY else about.licence


def _told(facts: dict[str, Any]) -> dict[str, str]:
    told = {"name": facts["name"], "path": facts["path"], "family": facts["family"]}
    if facts["architecture"] != facts["family"]:
        told["family"] += f" ({facts['architecture']})"
    for kind in ("encoder", "decoder"):
        if kind in facts:
            told[kind] = _stack(facts[kind])
    told["context"] = f"{facts['context']} tokens" if facts["context"] else "unknown"
    told["vocabulary"] = f"{facts['vocabulary']} tokens"
    told["parameters"] = f"{facts['parameters']:,}"
    told["stored as"] = ", ".join(f"{kind} ({count:,})" for kind, count in facts["kinds"].items())
    told["size"] = _bytes(facts["bytes"])
    told["licence"] = facts["licence"] or "unknown"
    return told


def _stack(stack: dict[str, Any]) -> str:
    shared = "" if stack["key_value_heads"] == stack["heads"] else f" ({stack['key_value_heads']} with keys and values)"
    return (
        f"{stack['layers']} layers × {stack['heads']} heads of {stack['head_size']}{shared}, width {stack['width']}, "
        f"feed-forward {stack['feed_forward']}, positions: {stack['positions']}"
    )


def _grid(row: dict[str, Any]) -> str:
    return f"{row['layers']} × {row['heads']}"


def _bytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
