"""The page of an atlas: heads × relations as a grid, a head's profile, and sentences where it is right and wrong."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from headwise.views.page.assemble import Parts, assemble
from headwise.views.page.encode import encode
from headwise.written import write_text

ATLAS = Parts("atlas.html", ("base.css", "atlas.css"), "atlas.js")


def write_atlas_page(header: dict[str, Any], arrays: Mapping[str, NDArray[Any]], path: Path) -> None:
    """Write one HTML file that needs no network."""
    blocks: list[str] = []
    named: dict[str, dict[str, Any]] = {}
    for name, array in arrays.items():
        named[name] = {"block": len(blocks), "type": str(array.dtype), "shape": list(array.shape)}
        blocks.append(encode(array))
    write_text(path, assemble({**header, "arrays": named}, blocks, ATLAS))
