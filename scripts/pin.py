"""Print the version of every package that headwise and its extras bring, as installed here: python scripts/pin.py"""

import re
import sys
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EXTRAS = ("all", "test", "check", "bench")
HEADER = """\
# Every version that the tests ran with, those of indirect requirements included. Written by `make pin`.
# For use with pip's -c. torch stands without the +cpu that the CPU-only wheel adds: pip accepts either."""


def reach(name: str, extras: frozenset[str], found: dict[str, str], seen: set[tuple[str, frozenset[str]]]) -> None:
    """Add the installed version of everything that `name` with these extras requires."""
    if (name, extras) in seen:
        return
    seen.add((name, extras))
    for line in distribution(name).requires or []:
        needed = Requirement(line)
        if needed.marker and not any(needed.marker.evaluate({"extra": extra}) for extra in (*extras, "")):
            continue
        required = canonicalize_name(needed.name)
        try:
            version = distribution(required).version
        except PackageNotFoundError:
            sys.exit(f"{required}: wanted by {name}, and not installed; run: pip install -e '.[{','.join(EXTRAS)}]'")
        if required != "headwise":
            found[required] = re.sub(r"\+.*", "", version)
        reach(required, frozenset(needed.extras), found, seen)


def main() -> None:
    """Print the header and one sorted line for each package."""
    found: dict[str, str] = {}
    reach("headwise", frozenset(EXTRAS), found, set())
    print(HEADER)
    print("\n".join(f"{name}=={found[name]}" for name in sorted(found)))


main()
