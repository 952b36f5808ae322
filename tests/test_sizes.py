"""A function fits on a screen, a file is one idea, and what is public says what it does."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "headwise"
LINES_OF_A_FUNCTION, LINES_OF_A_FILE = 50, 450
TEXT = {".py", ".c", ".h", ".js", ".mjs", ".css", ".html"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def texts() -> list[Path]:
    """Everything in the package that people read."""
    return sorted(path for path in SOURCE.rglob("*") if path.suffix in TEXT)


def definitions(file: Path) -> Iterator[Function | ast.ClassDef]:
    """The functions, methods and classes of a file, those inside functions left out."""
    waiting: list[ast.AST] = [ast.parse(file.read_text())]
    while waiting:
        node = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function | ast.ClassDef):
                yield child
            if not isinstance(child, Function):
                waiting.append(child)


def named(file: Path, node: Function | ast.ClassDef) -> str:
    return f"src/headwise/{file.relative_to(SOURCE)}:{node.lineno}: {node.name}"


def test_functions_fit_on_a_screen() -> None:
    long = [
        f"{named(file, node)} has {node.end_lineno - node.lineno + 1} lines"
        for file in SOURCE.rglob("*.py")
        for node in definitions(file)
        if isinstance(node, Function) and (node.end_lineno or 0) - node.lineno >= LINES_OF_A_FUNCTION
    ]
    assert not long, "\n".join(long)


def test_a_file_is_one_idea() -> None:
    long = {file.name: count for file in texts() if (count := len(file.read_text().splitlines())) > LINES_OF_A_FILE}
    assert not long


def test_every_file_class_and_public_function_says_what_it_is() -> None:
    silent = []
    for file in SOURCE.rglob("*.py"):
        tree = ast.parse(file.read_text())
        if tree.body and ast.get_docstring(tree) is None:
            silent.append(f"src/headwise/{file.relative_to(SOURCE)}")
        for node in tree.body:
            public = isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_")
            if public and ast.get_docstring(node) is None and not is_overload(node):
                silent.append(named(file, node))
    assert not silent, "\n".join(silent)


def is_overload(node: Function | ast.ClassDef) -> bool:
    return any(ast.unparse(decorator).endswith("overload") for decorator in node.decorator_list)


def test_nothing_is_left_to_do() -> None:
    left = [
        f"{file.relative_to(SOURCE)}: {word}"
        for file in texts()
        for word in re.findall(r"\b(TODO|FIXME|XXX)\b", file.read_text())
    ]
    assert not left
