"""Text files that are there whole or not at all."""

from pathlib import Path

from headwise.errors import HeadwiseError


def write_text(path: Path, text: str) -> None:
    """Write under a temporary name and rename; what fails is said in one line, and nothing half-written stays."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise HeadwiseError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)
