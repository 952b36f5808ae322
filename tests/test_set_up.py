"""The set-up: what is required is pinned, and what is pinned satisfies what is required."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINNED = dict(re.findall(r"^([a-z0-9-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M))


def requirements() -> list[Requirement]:
    """What the project and its extras ask for, but for itself."""
    extras = PROJECT["optional-dependencies"].values()
    lines = [*PROJECT["dependencies"], *(line for lines in extras for line in lines)]
    found = [Requirement(line) for line in lines]
    return [requirement for requirement in found if requirement.name != "headwise"]


def test_every_requirement_is_pinned_within_its_range() -> None:
    wrong = []
    for requirement in requirements():
        version = PINNED.get(canonicalize_name(requirement.name))
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{requirement}: constraints.txt has {version}")
    assert not wrong, "\n".join(wrong) + "\nrun: make pin"


def test_every_requirement_has_a_lower_bound() -> None:
    assert [str(r) for r in requirements() if not any(s.operator in (">=", "==") for s in r.specifier)] == []


def test_constraints_fit_every_build_of_torch() -> None:
    """With +cpu in it, pip would refuse the build for a GPU."""
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert lines
    assert not any("+" in line for line in lines)


def test_all_holds_every_extra_that_users_want() -> None:
    extras = set(PROJECT["optional-dependencies"]) - {"all", "test", "check", "bench"}
    (everything,) = PROJECT["optional-dependencies"]["all"]
    assert Requirement(everything).extras == extras
