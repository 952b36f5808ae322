"""The cache on disk: one directory for each model, which is there whole or not at all."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from headwise.checkpoints.registry import Registered
from headwise.errors import SourceError

VARIABLE = "HEADWISE_HOME"


def home() -> Path:
    """Where headwise keeps what it fetched; HEADWISE_HOME overrides the system's place for caches."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("headwise")


def place(entry: Registered) -> Path:
    """The directory of a registered model."""
    return home() / "models" / entry.key


def stored(entry: Registered) -> Path | None:
    """What is to be opened of a model in the cache, or None when it was not fetched yet."""
    directory = place(entry)
    if not _is_real(directory, stat.S_ISDIR):
        return None
    for name, size in entry.files.items():
        file = directory
        for part in name.split("/")[:-1]:
            file = file / part
            if not _is_real(file, stat.S_ISDIR):
                raise _damaged(file, "is missing")
        file = directory / name
        if not _is_real(file, stat.S_ISREG):
            raise _damaged(file, "is missing")
        if file.stat().st_size != size:
            raise _damaged(file, f"has {file.stat().st_size} bytes and should have {size}")
    return directory / entry.opens if entry.opens else directory


def _is_real(path: Path, right: Callable[[int], bool]) -> bool:
    """Whether it is there; what is a link, or of another kind, is refused, since headwise never writes such."""
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from error
    if stat.S_ISLNK(mode):
        raise _damaged(path, "is a symbolic link, which headwise never puts into its cache")
    if not right(mode):
        raise _damaged(path, "is not what headwise put there")
    return True


def _damaged(path: Path, problem: str) -> SourceError:
    return SourceError(f"{path}: {problem}; delete it and fetch the model again")


def store(entry: Registered, fill: Callable[[Path, Path], None]) -> Path:
    """The model in the cache; `fill(work, result)` fetches it when no other process has, and is called at most once."""
    models = home() / "models"
    try:
        models.mkdir(parents=True, exist_ok=True)
        with locked(models / f".{entry.key}.lock"):
            for left in models.glob(f".{entry.key}.*.part"):  # of a process that was killed: only we hold the lock
                shutil.rmtree(left, ignore_errors=True)
            if (found := stored(entry)) is not None:
                return found
            _fill(entry, models, fill)
    except OSError as error:
        raise SourceError(f"{models}: {error.strerror or error} (set {VARIABLE} to use another directory)") from error
    found = stored(entry)
    if found is None:
        raise SourceError(f"{place(entry)}: vanished while it was stored")
    return found


def _fill(entry: Registered, models: Path, fill: Callable[[Path, Path], None]) -> None:
    work = Path(tempfile.mkdtemp(prefix=f".{entry.key}.", suffix=".part", dir=models))
    try:
        result = work / "result"
        result.mkdir()
        fill(work, result)
        result.rename(place(entry))
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold a lock that the system gives back when this process ends, however it ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
    try:
        _lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt
        import time

        taken = False
        while not taken:
            try:
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
                taken = True
            except OSError:
                time.sleep(0.2)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)
