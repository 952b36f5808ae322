"""The order of imports: data flows downward, imports point upward only, and nothing heavy is imported early."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "headwise"

ORDER = [
    {"attention", "packed"},
    {"transformer"},
    {"families"},
    {"checkpoints"},
    {"generation", "training", "tracing"},
    {"analysis"},
    {"cli"},
]
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}

PEERS = {"transformers", "xllamacpp", "llama_cpp", "bertviz", "sentence_transformers", "curated_transformers"}
PEERS_ALLOWED = {"tracing/huggingface.py": {"transformers"}, "tracing/library_seam.py": {"transformers"}}
UNSAFE_MODULES = {"pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
UNSAFE_CALLS = {"torch.load", "torch.save", "eval", "exec", "np.load", "numpy.load"}

MODULE_OF = {"huggingface-hub": "huggingface_hub", "rouge-score": "rouge_score"}


def files() -> list[Path]:
    """Every Python file of the package, except what runs in a sandboxed process of its own."""
    return sorted(SOURCE.rglob("*.py"))


def room_of(file: Path) -> str:
    """The first folder under the package; the files beside it have none."""
    parts = file.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else ""


def imports(file: Path) -> Iterator[tuple[str, int]]:
    """The full names of the modules that a file imports anywhere in it, with their lines."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: imports are absolute"
            module = node.module or ""
            if module == "headwise":
                yield from ((f"headwise.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield module, node.lineno


def placed(file: Path, line: int) -> str:
    return f"src/headwise/{file.relative_to(SOURCE)}:{line}"


def test_every_room_has_its_place() -> None:
    rooms = {room_of(file) for file in files()} - {"", "views"}
    assert rooms <= set(RANK)


def test_imports_point_upward_only() -> None:
    wrong = []
    for file in files():
        own = room_of(file)
        if own in ("", "views"):
            continue
        for name, line in imports(file):
            if not name.startswith("headwise.") or name in ("headwise.errors", "headwise.written"):
                continue
            other = name.split(".")[1]
            if other == "views":
                right = own in ("cli", "analysis", "tracing")
            else:
                right = other == own or RANK.get(other, len(ORDER)) < RANK[own]
            if not right:
                wrong.append(f"{placed(file, line)}: {own} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_nothing_in_the_package_imports_its_own_face() -> None:
    wrong = [
        placed(file, line)
        for file in files()
        for name, line in imports(file)
        if name == "headwise" and file.name != "__main__.py"
    ]
    assert not wrong, "\n".join(wrong)


def test_the_mechanism_needs_torch_alone() -> None:
    wrong = []
    for file in (SOURCE / "attention").rglob("*.py"):
        for name, line in imports(file):
            top = name.split(".")[0]
            if top not in sys.stdlib_module_names | {"torch", "headwise"}:
                wrong.append(f"{placed(file, line)}: {name}")
    assert not wrong, "\n".join(wrong)


def test_views_see_plain_data_only() -> None:
    wrong = []
    for file in (SOURCE / "views").rglob("*.py"):
        for name, line in imports(file):
            room = name.split(".")[1] if name.startswith("headwise.") else ""
            if name.split(".")[0] in {"torch", *PEERS} or room not in ("", "views", "errors", "written", "tracing"):
                wrong.append(f"{placed(file, line)}: {name}")
    assert not wrong, "\n".join(wrong)


def test_views_bring_no_torch_when_they_are_imported() -> None:
    modules = [
        ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
        for file in sorted((SOURCE / "views").rglob("*.py"))
    ]
    assert modules
    wanted = "\n".join(f"import {module}" for module in modules)
    assert heavy_after(wanted) == []


def test_peers_are_not_imported() -> None:
    wrong = []
    for file in files():
        allowed = PEERS_ALLOWED.get(file.relative_to(SOURCE).as_posix(), set())
        for name, line in imports(file):
            if name.split(".")[0] in PEERS - allowed:
                wrong.append(f"{placed(file, line)}: {name}")
    assert not wrong, "\n".join(wrong)


def test_what_is_imported_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for name in extras for line in extras[name] if not development(name))]
    packages = {re.split(r"[<>=\[; ]", line)[0].lower() for line in lines} - {"headwise"}
    declared = {MODULE_OF.get(package, package) for package in packages}
    wrong = []
    for file in files():
        for name, line in imports(file):
            top = name.split(".")[0]
            if top not in sys.stdlib_module_names | declared | {"headwise"}:
                wrong.append(f"{placed(file, line)}: {name}")
    assert not wrong, "\n".join(wrong)


def development(extra: str) -> bool:
    return extra in ("test", "check", "bench")


def test_no_pickle_and_no_code_from_data() -> None:
    wrong = []
    for file in files():
        tree = ast.parse(file.read_text())
        calls = {(ast.unparse(node.func), node.lineno) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        wrong += [f"{placed(file, line)}: {name}" for name, line in calls if name in UNSAFE_CALLS]
        wrong += [f"{placed(file, line)}: {name}" for name, line in imports(file) if name in UNSAFE_MODULES]
    assert not wrong, "\n".join(wrong)


def test_processes_are_made_in_few_places() -> None:
    allowed = {"training/distributed.py"}
    wrong = []
    for file in files():
        place = file.relative_to(SOURCE).as_posix()
        for name, line in imports(file):
            distributed = name.startswith("torch.distributed") and place not in allowed
            if distributed or (name.split(".")[0] == "ray" and "ray" not in file.stem):
                wrong.append(f"{placed(file, line)}: {name}")
    assert not wrong, "\n".join(wrong)


HEAVY = ("torch", "transformers", "numpy", "huggingface_hub", "tokenizers", "pyarrow", "gguf")


def heavy_after(code: str, heavy: tuple[str, ...] = ("torch", "transformers")) -> list[str]:
    """The heavy modules that a fresh Python holds after running this code."""
    code += f"\nimport sys\nprint('heavy:', *[name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.rsplit("heavy:", 1)[1].split()


def test_help_answers_without_torch() -> None:
    code = """
from headwise.cli import main
try:
    main(["--help"])
except SystemExit as end:
    assert end.code == 0
"""
    assert heavy_after(code, HEAVY) == []


def test_every_command_explains_itself_without_torch() -> None:
    code = """
from headwise.cli import COMMANDS, main
for name in COMMANDS:
    try:
        main([name, "--help"])
    except SystemExit as end:
        assert end.code == 0, name
"""
    assert heavy_after(code, HEAVY) == []


def test_the_public_face_brings_nothing_heavy() -> None:
    assert heavy_after("import headwise; dir(headwise)", HEAVY) == []


def test_heavy_after_sees_what_was_imported() -> None:
    assert heavy_after("import torch") == ["torch"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import torch.nn as nn", "torch.nn"),
        ("from headwise import load", "headwise.load"),
        ("def f():\n    from headwise.cli import main", "headwise.cli"),
        ("if TYPE_CHECKING:\n    import transformers", "transformers"),
    ],
)
def test_imports_finds_every_form(tmp_path: Path, line: str, found: str) -> None:
    file = tmp_path / "module.py"
    file.write_text(line)
    assert [name for name, _ in imports(file)] == [found]
