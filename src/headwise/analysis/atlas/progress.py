"""What is done so far, on disk: an atlas that was killed continues, and one that was changed is refused."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from headwise.analysis.atlas.counts import Total
from headwise.errors import HeadwiseError

_FILE = "progress.safetensors"


class Progress:
    """The state file of one atlas; `facts` is what must be the same for it to continue."""

    def __init__(self, out: Path | None, facts: dict[str, Any]) -> None:
        self.out, self.facts = out, facts

    @property
    def path(self) -> Path | None:
        """Where it is kept."""
        return None if self.out is None else self.out / _FILE

    def load(self, heads: int) -> Total:
        """What was counted before, or nothing."""
        if self.path is None or not self.path.exists():
            return Total(heads)
        try:
            from safetensors import SafetensorError, safe_open

            try:
                with safe_open(self.path, "numpy") as file:
                    plain = json.loads(file.metadata()["headwise_atlas"])
                    arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            except SafetensorError as error:
                raise ValueError(str(error)) from None
            for name, value in self.facts.items():
                if plain["facts"].get(name) != json.loads(json.dumps(value)):
                    raise HeadwiseError(
                        f"{self.path}: was begun with another {name}; choose another directory, or --restart"
                    )
            return _total(heads, plain, arrays)
        except (KeyError, ValueError, TypeError) as error:
            raise HeadwiseError(f"{self.path}: cannot be continued ({error}); --restart begins anew") from None

    def save(self, total: Total) -> None:
        """Write it, under a temporary name until it is whole."""
        if self.path is None:
            return
        from safetensors.numpy import save_file

        arrays: dict[str, Any] = {"sums": total.sums} if total.sums is not None else {}
        names = list(total.rows)
        for at, row in enumerate(names):
            counts = total.rows[row]
            used = np.flatnonzero(counts.pairs)
            arrays |= {f"{at}.blocks": used, f"{at}.pairs": counts.pairs[used], f"{at}.controls": counts.controls[used]}
            arrays |= {f"{at}.heads.{kind}": numbers[used] for kind, numbers in counts.heads.items()}
        numbers = {name: getattr(total, name) for name in _NUMBERS}
        plain = {"facts": self.facts, "rows": names, "listed": total.listed, "chunks": _ranges(total.chunks), **numbers}
        part = self.path.with_name(f".{_FILE}.part")
        try:
            save_file(arrays, part, {"headwise_atlas": json.dumps(plain)})
            part.replace(self.path)
        finally:
            part.unlink(missing_ok=True)

    def forget(self) -> None:
        """The atlas is written, or begins anew."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


_NUMBERS = ("words", "sentences", "tokens", "documents", "unaligned")


def _total(heads: int, plain: dict[str, Any], arrays: dict[str, Any]) -> Total:
    """The counts as they were."""
    total = Total(heads, sums=arrays.get("sums"))
    for at, (relation, way) in enumerate(plain["rows"]):
        begin = f"{at}.heads."
        kinds = {name.removeprefix(begin): array for name, array in arrays.items() if name.startswith(begin)}
        blocks = arrays[f"{at}.blocks"]
        own = total.row((relation, int(way)), kinds)
        own.pairs[blocks], own.controls[blocks] = arrays[f"{at}.pairs"], arrays[f"{at}.controls"]
        for kind, numbers in kinds.items():
            own.heads[kind][blocks] = numbers
    for name in _NUMBERS:
        setattr(total, name, int(plain[name]))
    total.listed = [(int(chunk), str(line)) for chunk, line in plain["listed"]]
    total.chunks = {number for first, last in plain["chunks"] for number in range(first, last + 1)}
    return total


def _ranges(numbers: set[int]) -> list[list[int]]:
    """Whole numbers as ranges from first to last."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


def file_facts(file: Path) -> dict[str, Any]:
    """What tells one corpus from another: its name, size and first million bytes."""
    with file.open("rb") as opened:
        begin = hashlib.blake2b(opened.read(1_000_000), digest_size=12).hexdigest()
    return {"name": file.name, "bytes": file.stat().st_size, "begins": begin}
