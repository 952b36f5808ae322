"""The hash of a model's files of weights, by which anybody can tell that theirs are the same."""

import hashlib
from pathlib import Path

from headwise.errors import HeadwiseError


def weights_sha256(path: Path) -> str | None:
    """Name and SHA-256 of the file at a path that `sources.find` gave; several are hashed as one, in order of name."""
    files = [path] if path.is_file() and not path.name.endswith(".index.json") else _beside(path)
    if not files:
        return None
    digest = hashlib.sha256()
    try:
        for file in files:
            with file.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
    except OSError as error:
        raise HeadwiseError(f"{path}: cannot be read: {error.strerror or error}") from None
    name = files[0].name if len(files) == 1 else f"{len(files)} files"
    return f"{name}, SHA-256 {digest.hexdigest()}"


def _beside(path: Path) -> list[Path]:
    folder = path if path.is_dir() else path.parent
    return sorted(folder.glob("*.safetensors"))
