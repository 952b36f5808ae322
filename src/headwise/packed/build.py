"""The C kernel as a shared library: compiled once on the user's machine, kept in the user's cache."""

import ctypes
import hashlib
import logging
import os
import platform
import shlex
import subprocess
import tempfile
from functools import cache
from pathlib import Path

SOURCES = ("kernel.c", "attend.h", "level.h", "look.h", "pool.h", "read.h", "step.h", "types.h")
# No -march: the processor is asked at run time, so the file serves every machine of its kind.
FLAGS = ("-O2", "-std=gnu11", "-fPIC", "-shared", "-fno-math-errno", "-Wno-psabi")
LIBRARIES = ("-lpthread", "-lm")
SECONDS = 300

logger = logging.getLogger("headwise.packed")


@cache
def library() -> ctypes.CDLL | None:
    """The compiled kernel; None, said once in the log, where it cannot be had."""
    try:
        return _load(_path())
    except _CannotBuild as problem:
        logger.warning("packed weights run through torch, which is slower: %s", problem)
        return None


class _CannotBuild(Exception):
    """Why there is no kernel."""


def _load(path: Path) -> ctypes.CDLL:
    if path.exists():
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            logger.info("%s cannot be loaded and is compiled again", path)
    _compile(path)
    try:
        return ctypes.CDLL(str(path))
    except OSError as problem:
        raise _CannotBuild(f"the compiled kernel cannot be loaded ({problem})") from None


def _path() -> Path:
    """Where the library lives: the name tells sources, flags, compiler and machine apart."""
    import platformdirs

    home = os.environ.get("HEADWISE_HOME")
    base = Path(home) if home else Path(platformdirs.user_cache_dir("headwise", appauthor=False))
    digest = hashlib.sha256()
    for part in (*FLAGS, *LIBRARIES, *_compiler(), platform.system(), platform.machine()):
        digest.update(part.encode() + b"\0")
    for name in SOURCES:
        digest.update((Path(__file__).parent / name).read_bytes() + b"\0")
    return base / "kernels" / f"packed-{digest.hexdigest()[:24]}.so"


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CC", "")) or ["cc"]


def _compile(path: Path) -> None:
    """Compiled under a temporary name and renamed, so that another process never meets half a file."""
    source = Path(__file__).parent / SOURCES[0]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".tmp")
        os.close(handle)
    except OSError as problem:
        raise _CannotBuild(f"the kernel has no place to be kept ({problem})") from None
    try:
        logger.info("compiling the kernel for packed weights, once: %s", path)
        subprocess.run(
            [*_compiler(), *FLAGS, "-o", temporary, str(source), *LIBRARIES],
            check=True,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        os.chmod(temporary, 0o755)
        os.replace(temporary, path)
    except subprocess.CalledProcessError as problem:
        first = (problem.stderr or "").strip().splitlines()[:1]
        raise _CannotBuild(f"the compiler {_compiler()[0]} failed: {' '.join(first) or problem.returncode}") from None
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise _CannotBuild(f"the compiler {_compiler()[0]} cannot be run ({problem})") from None
    finally:
        Path(temporary).unlink(missing_ok=True)
