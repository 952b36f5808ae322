"""The hub, through a stand-in on this machine: safe files only, offline mode respected, errors that say what to do."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hub_makers import Hub, running
from tiny_models import run, saved

import headwise
from headwise.checkpoints import hub as hub_source
from headwise.checkpoints import sources
from headwise.errors import SourceError

INDEX = {"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
PICKLES = dict.fromkeys(("pytorch_model.bin", "training_args.bin", "model.pt", "x.pkl", "run.py"), b"evil")
REPOSITORIES = {
    "org/plain": {
        "config.json": b"{}",
        "model.safetensors": b"weights",
        "model.fp16.safetensors": b"other weights",
        "tokenizer.json": b'{"a": 1}',
        "1_Pooling/config.json": b'{"b": 2}',
        "onnx/model.onnx": b"graph",
        **PICKLES,
    },
    "org/shards": {
        "config.json": b"{}",
        "model.safetensors.index.json": json.dumps(INDEX).encode(),
        "one.safetensors": b"1",
        "two.safetensors": b"2",
        "consolidated.safetensors": b"12",
    },
    "org/lie": {"model.safetensors.index.json": b'{"weight_map": {"a": "pytorch_model.bin"}}', **PICKLES},
    "org/gguf": {"README.md": b"", "small.Q4_1.gguf": b"GGUF"},
    "org/many": {"a.Q4_1.gguf": b"GGUF4", "deep/a.Q8_0.gguf": b"GGUF8"},
    "org/pickles": {"config.json": b"{}", **PICKLES},
}
CHILD = """
import sys
from headwise.checkpoints.sources import find
from headwise.errors import SourceError
try:
    print(find(sys.argv[1]))
except SourceError as error:
    print(error, file=sys.stderr)
    sys.exit(2)
"""


LOADED = """
import sys
import headwise
from tiny_models import run
print(run(headwise.load(sys.argv[1])).tolist())
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model as the hub holds one."""
    return saved("llama", tmp_path_factory.mktemp("tiny") / "llama")


@pytest.fixture(scope="module")
def hub(tiny: Path) -> Generator[Hub]:
    held = {path.name: path.read_bytes() for path in tiny.iterdir()}
    with running(REPOSITORIES | {"org/tiny": held}) as server:
        yield server


@pytest.fixture
def ask(hub: Hub, tmp_path: Path):
    """Find a name in a process of its own: the hub's library reads its environment once."""
    hub.asked.clear()

    def run(name: str, program: str = CHILD, **more: str) -> "subprocess.CompletedProcess[str]":
        kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
        own = {"HF_HOME": str(tmp_path / "hf"), "HF_ENDPOINT": hub.address, "HF_HUB_OFFLINE": "0"}
        own["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-c", program, name]
        return subprocess.run(command, env=kept | own | more, capture_output=True, text=True, timeout=60)

    return run


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def test_only_the_weights_and_the_small_files_are_fetched(ask, hub: Hub) -> None:
    folder = Path(ask("org/plain").stdout.strip())
    wanted = {"config.json", "model.safetensors", "tokenizer.json", "1_Pooling/config.json"}
    assert files(folder) == hub.files() == wanted
    assert (folder / "model.safetensors").read_bytes() == b"weights"


def test_a_model_of_the_hub_is_loaded_and_found_again_without_it(ask, tiny: Path) -> None:
    answer = ask("org/tiny", LOADED)
    assert json.loads(answer.stdout) == run(headwise.load(tiny)).tolist(), answer.stderr
    assert ask("org/tiny", LOADED, HF_HUB_OFFLINE="1").stdout == answer.stdout


def test_shards_are_those_of_the_index(ask) -> None:
    folder = Path(ask("org/shards").stdout.strip())
    assert files(folder) == {"config.json", "model.safetensors.index.json", "one.safetensors", "two.safetensors"}


@pytest.mark.parametrize(
    ("name", "file"), [("org/gguf", "small.Q4_1.gguf"), ("org/many/deep/a.Q8_0.gguf", "a.Q8_0.gguf")]
)
def test_one_gguf_file(ask, name: str, file: str) -> None:
    found = Path(ask(name).stdout.strip())
    assert found.name == file
    assert found.read_bytes().startswith(b"GGUF")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("org/many", "org/many: has 2 GGUF files, name one of them: org/many/a.Q4_1.gguf, org/many/deep/a.Q8_0.gguf"),
        ("org/pickles", "org/pickles: has no .safetensors and no .gguf file; it has pytorch_model.bin"),
        ("org/lie", "org/lie: model.safetensors.index.json names 'pytorch_model.bin', which is no .safetensors file"),
        ("org/nobody", "org/nobody: the hub has no model of this name that you may read"),
        ("org/gguf/other.gguf", "org/gguf: the hub has not this file"),
    ],
)
def test_refusals_say_why(ask, hub: Hub, name: str, told: str) -> None:
    answer = ask(name)
    assert answer.returncode == 2
    assert answer.stderr.startswith(told)
    assert answer.stderr.count("\n") == 1
    assert not [file for file in hub.files() if file in PICKLES]


@pytest.mark.parametrize("lost", [{"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": "http://127.0.0.1:9"}])
def test_without_the_hub_what_is_cached_is_found(ask, hub: Hub, lost: dict[str, str]) -> None:
    first = ask("org/plain").stdout
    single = ask("org/gguf").stdout
    hub.asked.clear()
    assert ask("org/plain", **lost).stdout == first
    assert ask("org/gguf", **lost).stdout == single
    answer = ask("org/shards", **lost)
    assert answer.returncode == 2
    assert "and the model is not in the hub's cache" in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert hub.asked == []


def test_half_a_model_in_the_cache_is_told(ask) -> None:
    (Path(ask("org/plain").stdout.strip()) / "model.safetensors").unlink()
    answer = ask("org/plain", HF_HUB_OFFLINE="1")
    assert answer.returncode == 2
    assert answer.stderr.startswith("org/plain: only a part of it is in the hub's cache")


def test_cached_models_are_listed(ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(ask("org/plain").stdout.strip())
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    assert hub_source.cached_models() == [("org/plain", folder)]


@pytest.mark.parametrize(
    "name",
    [
        "nothing",
        "a/b/c",
        "/x/y",
        "a//b",
        "org/na me",
        "org/..",
        "-x/y",
        "org/a.gguf/../b.gguf",
        "x" * 5000,
        "a\0b",
    ],
)
def test_what_is_no_name_is_never_asked_for(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def never(*words: object) -> Path:
        raise AssertionError(words)

    monkeypatch.setattr(hub_source, "fetch", never)
    with pytest.raises(SourceError) as caught:
        sources.find(name)
    assert "\n" not in str(caught.value)


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("minilm", "weights", "one", "two"):
        (tmp_path / folder).mkdir()
    for file in (
        "weights/model.safetensors",
        "weights/a.gguf",
        "one/a.gguf",
        "two/a.gguf",
        "two/b.gguf",
        "model.bin",
        "notes.txt",
    ):
        (tmp_path / file).write_bytes(b"x")
    assert sources.find("weights") == Path("weights")
    assert sources.find(tmp_path / "weights" / "a.gguf") == tmp_path / "weights" / "a.gguf"
    assert sources.find("one") == Path("one/a.gguf")
    assert sources.find("./minilm") == Path("minilm")
    for name, told in {
        "two": "two: has 2 GGUF files, name one of them: two/a.gguf, two/b.gguf",
        "model.bin": "model.bin: can run code when opened",
        "notes.txt": "notes.txt: is not a directory, a .safetensors file or a .gguf file",
        "minlm": rf"minlm: no model found: not a registered name \(minilm, smollm2\).*{tmp_path}/minlm.*mean minilm\?",
    }.items():
        with pytest.raises(SourceError, match=told):
            sources.find(name)
