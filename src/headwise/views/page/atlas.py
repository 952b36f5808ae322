"""The page of an atlas: heads × relations as a grid, a head's profile, and sentences where it is right and wrong."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from headwise.errors import HeadwiseError
from headwise.views.page.assemble import Parts, assemble
from headwise.views.page.encode import encode

ATLAS = Parts("atlas.html", ("base.css", "atlas.css"), "atlas.js")


def write_atlas_page(header: dict[str, Any], arrays: Mapping[str, NDArray[Any]], path: Path) -> None:
    """Write one HTML file that needs no network."""
    blocks: list[str] = []
    named: dict[str, dict[str, Any]] = {}
    for name, array in arrays.items():
        named[name] = {"block": len(blocks), "type": str(array.dtype), "shape": list(array.shape)}
        blocks.append(encode(array))
    text = assemble({**header, "arrays": named}, blocks, ATLAS)
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise HeadwiseError(f"{path}: cannot be written: {error.strerror or error}") from None
