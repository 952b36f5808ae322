"""`headwise models`: what is told of models, from headers alone, without a download and without torch."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from headwise.checkpoints import registry, store

Command = Callable[..., Any]
CONFIG = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "n_layer": 2,
    "n_head": 4,
    "n_embd": 16,
    "n_positions": 32,
    "vocab_size": 50,
}


@pytest.fixture
def gpt2(tmp_path: Path) -> Path:
    """A directory as the reference library saves it; its weights are zeros."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path / "gpt2"
    transformers.GPT2LMHeadModel(transformers.GPT2Config.from_dict(CONFIG)).save_pretrained(folder)
    return folder


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADWISE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    return tmp_path


def test_registered_models_are_listed(command: Command, empty_home: Path) -> None:
    answer = command("models")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0].split() == ["NAME", "SIZE", "LAYERS", "×", "HEADS", "LICENCE", "FETCHED"]
    assert lines[1].startswith("minilm   91.6 MB  6 × 12          Apache-2.0  no ")
    assert lines[2].startswith("smollm2  98.4 MB  30 × 9          Apache-2.0  no ")
    assert len(lines) == 3


def test_the_list_as_json(command: Command, empty_home: Path) -> None:
    rows = json.loads(command("models", "--json").out)
    assert [(row["name"], row["layers"], row["heads"], row["fetched"]) for row in rows] == [
        ("minilm", 6, 12, "no"),
        ("smollm2", 30, 9, "no"),
    ]


def test_a_damaged_model_is_called_so(command: Command, empty_home: Path) -> None:
    place = store.place(registry.SMOLLM2)
    place.mkdir(parents=True)
    (place / registry.SMOLLM2.opens).write_bytes(b"short")
    assert json.loads(command("models", "--json").out)[1]["fetched"] == "damaged"
    assert "delete it and fetch the model again" in command("models", "show", "smollm2").err


def test_models_in_the_hubs_cache_are_listed(command: Command, empty_home: Path, gpt2: Path) -> None:
    hub = empty_home / "hf" / "hub"
    (hub / "models--org--tiny" / "snapshots").mkdir(parents=True)
    gpt2.rename(hub / "models--org--tiny" / "snapshots" / "abc")
    (hub / "models--org--broken" / "snapshots" / "abc").mkdir(parents=True)
    rows = json.loads(command("models", "--json").out)
    assert [(row["name"], row["layers"], row["heads"], row["summary"]) for row in rows[2:]] == [
        ("org/tiny", 2, 4, "gpt2")
    ]
    assert "decoder     2 layers × 4 heads of 4, width 16" in command("models", "show", "org/tiny").out


def test_show_tells_what_the_headers_hold(command: Command, gpt2: Path) -> None:
    answer = command("models", "show", gpt2)
    assert (answer.code, answer.err) == (0, "")
    theirs = pytest.importorskip("transformers").GPT2LMHeadModel.from_pretrained(gpt2)
    count = sum(weight.numel() for weight in theirs.parameters())
    told = dict(line.split(None, 1) for line in answer.out.splitlines())
    assert told["family"] == "gpt2"
    assert told["decoder"] == "2 layers × 4 heads of 4, width 16, feed-forward 64, positions: learned"
    assert (told["context"], told["vocabulary"], told["parameters"]) == ("32 tokens", "50 tokens", f"{count:,}")
    assert told["stored"] == f"as   F32 ({count:,})"


def test_show_as_json(command: Command, gpt2: Path) -> None:
    facts = json.loads(command("models", "show", gpt2, "--json").out)
    size = (gpt2 / "model.safetensors").stat().st_size
    assert (facts["family"], facts["path"], facts["bytes"], facts["licence"]) == ("gpt2", str(gpt2), size, None)
    assert facts["decoder"] == {
        "layers": 2,
        "heads": 4,
        "key_value_heads": 4,
        "head_size": 4,
        "width": 16,
        "feed_forward": 64,
        "positions": "learned",
    }


def test_show_imports_no_torch_and_reads_no_weights(gpt2: Path) -> None:
    program = (
        "import sys\nfrom headwise.cli import main\n"
        "try:\n    main(['models', 'show', sys.argv[1]])\n"
        "except SystemExit as end:\n    assert not end.code\n"
        "heavy = {'torch', 'numpy', 'gguf', 'transformers', 'huggingface_hub', 'tokenizers'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program, str(gpt2)], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["show", "minilm"],
            "minilm: all-MiniLM-L6-v2.* 6 layers × 12 heads.*not fetched yet: headwise models pull minilm",
        ),
        (["show", "org/name"], "org/name: is not on this machine; fetch it with: headwise models pull org/name"),
        (["show", "minlm"], "minlm: no model found"),
        (["pull", "minlm"], "minlm: no model found.*did you mean minilm"),
        (["show", "bad"], "bad/config.json: model_type 'mamba'; supported are"),
        (["show", "none"], "none: weights: found no .safetensors file"),
    ],
)
def test_refusals_are_one_line(
    command: Command, empty_home: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], told: str
) -> None:
    monkeypatch.chdir(empty_home)
    for name in ("bad", "none"):
        (empty_home / name).mkdir()
    save_file({"a": torch.zeros(2)}, empty_home / "bad" / "model.safetensors")
    (empty_home / "bad" / "config.json").write_text('{"model_type": "mamba"}')
    answer = command("models", *words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("\n") == 1
    assert re.search(told, answer.err), answer.err


@pytest.mark.weights
def test_the_registry_tells_the_truth(command: Command) -> None:
    for name, family, parameters in (("minilm", "bert", 22_713_216), ("smollm2", "llama", 134_515_008)):
        path = command("models", "pull", name).out.strip()
        facts = json.loads(command("models", "show", name, "--json").out)
        entry = registry.REGISTRY[name]
        stack = facts.get("decoder") or facts["encoder"]
        assert (facts["path"], facts["family"], facts["parameters"]) == (path, family, parameters)
        assert (stack["layers"], stack["heads"], facts["licence"]) == (entry.layers, entry.heads, entry.licence)
