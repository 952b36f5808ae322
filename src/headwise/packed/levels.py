"""Which kernel runs: the best that this processor has, or what HEADWISE_PACKED says."""

import os

from headwise.errors import HeadwiseError
from headwise.packed.build import library

LEVELS = {"plain": 0, "avx2": 1, "avx512": 2, "neon": 3}
"""By the numbers that kernel.c knows them by."""
BEST_FIRST = ("avx512", "neon", "avx2", "plain")


def available() -> list[str]:
    """The levels that this processor has, best first; none without a compiler."""
    built = library()
    return [] if built is None else [name for name in BEST_FIRST if built.headwise_has_level(LEVELS[name])]


_levels: dict[str, str] = {}


def level() -> str:
    """The level in use, or "torch": the best there is, or what HEADWISE_PACKED says."""
    wanted = os.environ.get("HEADWISE_PACKED", "")
    found = _levels.get(wanted)
    if found is None:
        found = _levels[wanted] = _choose(wanted)
    return found


def _choose(wanted: str) -> str:
    if wanted == "torch":
        return "torch"
    if not wanted:
        return (available() or ["torch"])[0]
    if wanted not in available():
        has = ", ".join([*available(), "torch"])
        raise HeadwiseError(f"HEADWISE_PACKED: got {wanted!r}, wanted one of {has}: this machine has no other")
    return wanted
