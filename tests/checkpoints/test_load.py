"""Loading is strict both ways: every tensor has its place, every parameter its tensor, and errors name them."""

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from checkpoint_files import write
from tiny_models import CONFIGS, llama_gguf, run, saved
from torch import Tensor

import headwise
from headwise.errors import CheckpointError, SourceError, UnsupportedError

Tensors = dict[str, Tensor]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return saved("llama", tmp_path / "model")


def change_tensors(home: Path, change: Callable[[Tensors], object]) -> None:
    tensors = dict(safetensors.torch.load_file(home / "model.safetensors"))
    change(tensors)
    safetensors.torch.save_file(tensors, home / "model.safetensors")


def change_config(home: Path, **fields: Any) -> None:
    config = json.loads((home / "config.json").read_text())
    (home / "config.json").write_text(json.dumps(config | fields))


def refused(path: Path, kind: type[Exception] = CheckpointError) -> str:
    with pytest.raises(kind) as error:
        headwise.load(path)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_was_saved_is_what_is_loaded(tmp_path: Path) -> None:
    for family in CONFIGS:
        one = headwise.load(saved(family, tmp_path / family))
        again = headwise.load(headwise.save(one, tmp_path / f"{family} again"))
        assert torch.equal(run(one), run(again))
        assert not one.training
        assert one.source == str(tmp_path / family)
        assert one.config.architecture == family


def test_an_unknown_tensor_is_named(home: Path) -> None:
    change_tensors(home, lambda tensors: tensors.update({"model.layers.0.adapter.weight": torch.ones(2)}))
    assert refused(home) == (
        f"{home / 'model.safetensors'}: model.layers.0.adapter.weight: "
        "unknown tensor: this architecture has none of that name"
    )


def test_a_missing_tensor_is_named(home: Path) -> None:
    change_tensors(home, lambda tensors: tensors.pop("model.layers.0.mlp.up_proj.weight"))
    assert refused(home).endswith("model.layers.0.mlp.up_proj.weight: missing tensor")


def test_a_misshapen_tensor_is_named(home: Path) -> None:
    change_tensors(home, lambda tensors: tensors.update({"model.layers.0.mlp.up_proj.weight": torch.ones(12, 9)}))
    assert refused(home).endswith("up_proj.weight: has the shape [12, 9], wanted [12, 8]")


def test_whole_numbers_are_no_weights(home: Path) -> None:
    change_tensors(home, lambda tensors: tensors.update({"model.norm.weight": torch.ones(8, dtype=torch.int8)}))
    assert "model.norm.weight: holds I8" in refused(home)


def test_a_repeated_embedding_must_repeat_it(tmp_path: Path) -> None:
    home = saved("gpt2", tmp_path)
    change_tensors(home, lambda tensors: tensors.update({"lm_head.weight": tensors["transformer.wte.weight"].clone()}))
    headwise.load(home)
    change_tensors(home, lambda tensors: tensors.update({"lm_head.weight": tensors["lm_head.weight"] + 1}))
    assert "lm_head.weight: differs from embedding.weight" in refused(home)


def test_a_table_of_positions_must_be_the_one_computed(tmp_path: Path) -> None:
    home = saved("marian", tmp_path)
    table = torch.arange(1024).unsqueeze(1) / 10000.0 ** (torch.arange(4) / 4)
    table = torch.cat([table.sin(), table.cos()], dim=1)
    name = "model.encoder.embed_positions.weight"
    change_tensors(home, lambda tensors: tensors.update({name: table}))
    headwise.load(home)
    change_tensors(home, lambda tensors: tensors.update({name: table.flip(0).contiguous()}))
    assert "embed_positions.weight: is not the table" in refused(home)


def test_more_layers_than_tensors(home: Path) -> None:
    change_config(home, num_hidden_layers=2000)
    assert "the configuration has 2000 layers, and the file only 12 tensors" in refused(home)


def test_an_unknown_architecture_is_refused_with_the_list(home: Path) -> None:
    change_config(home, model_type="mamba")
    message = refused(home, UnsupportedError)
    known = "bert, roberta, distilbert, gpt2, llama, mistral, qwen2, qwen3, t5, bart, marian, pegasus"
    assert message == f"{home / 'config.json'}: model_type 'mamba'; supported are {known}"


def test_a_head_for_another_task_is_refused(home: Path) -> None:
    change_config(home, architectures=["LlamaForSequenceClassification"])
    assert "'LlamaForSequenceClassification' is not one of LlamaForCausalLM, LlamaModel" in refused(
        home, UnsupportedError
    )


def test_a_body_without_any_head(home: Path) -> None:
    change_config(home, architectures=["LlamaModel"])
    assert "LlamaModel is a body whose head" in refused(home, UnsupportedError)


def test_a_gguf_of_another_architecture(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gguf", llama_gguf().replace(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0mamba", 1))
    assert "general.architecture 'mamba'; supported in GGUF are gpt2, llama, qwen2, qwen3" in refused(
        path, UnsupportedError
    )


def test_a_gguf_field_that_might_change_the_result(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gguf", llama_gguf().replace(b"llama.rope.freq_base", b"llama.logit_scale_xx"))
    assert "llama.logit_scale_xx: unknown field" in refused(path)


def test_a_directory_without_configuration(home: Path) -> None:
    (home / "config.json").unlink()
    assert "config.json" in refused(home, (CheckpointError, SourceError))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_the_dtype_that_was_asked_for(home: Path, kind: torch.dtype, tmp_path: Path) -> None:
    for path in (home, write(tmp_path / "a.gguf", llama_gguf())):
        model = headwise.load(path, dtype=kind)
        assert {parameter.dtype for parameter in model.parameters()} == {kind}
        assert run(model).dtype == kind


def test_arguments_that_do_not_fit(home: Path) -> None:
    with pytest.raises(ValueError, match="weights: got 'int3'"):
        headwise.load(home, weights="int3")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"dtype: got torch\.int64"):
        headwise.load(home, dtype=torch.int64)
    with pytest.raises(ValueError, match="wanted one of the two"):
        headwise.load(home, dtype=torch.float16, weights="bfloat16")


def test_weights_may_be_written_to_and_the_file_stays(home: Path) -> None:
    before = (home / "model.safetensors").read_bytes()
    model = headwise.load(home)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        for parameter in model.parameters():
            parameter.zero_()
    assert (home / "model.safetensors").read_bytes() == before


def test_marian_opens_without_the_tokenizer_that_is_not_read(tmp_path: Path) -> None:
    home = saved("marian", tmp_path)
    for name in ("source.spm", "target.spm", "vocab.json"):
        (home / name).write_text("{}")
    model = headwise.load(home)
    assert model.tokenizer is None
    with pytest.raises(UnsupportedError, match="came without a tokenizer"):
        headwise.generate(model, "Hello")
    with pytest.raises(UnsupportedError, match="came without a tokenizer"):
        headwise.load(saved("bert", tmp_path / "bert")).embed("Hello")


LIMITED = """
import resource, sys
from pathlib import Path
import headwise.checkpoints.load
from headwise.errors import HeadwiseError
home = Path(sys.argv[1])
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (256 << 20), -1))
try:
    headwise.load(home)
except HeadwiseError as error:
    print(error)
"""


@pytest.mark.parametrize(
    "fields",
    [{"hidden_size": 1 << 24}, {"vocab_size": 1 << 24}, {"intermediate_size": 1 << 24}, {"num_hidden_layers": 3}],
)
def test_no_memory_for_what_the_file_does_not_hold(home: Path, fields: dict[str, int]) -> None:
    change_config(home, **fields, head_dim=4)
    done = subprocess.run([sys.executable, "-c", LIMITED, str(home)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "model.safetensors: " in done.stdout


IMPORTED = """
import sys
import headwise
for home in sys.argv[1:]:
    headwise.load(home)
assert "torch._dynamo" not in sys.modules, "the compiler was imported"
"""


def test_loading_imports_no_compiler(tmp_path: Path) -> None:
    """That takes a second and a hundred megabytes; a random start on the meta device does it."""
    homes = [str(saved(family, tmp_path / family)) for family in CONFIGS]
    done = subprocess.run([sys.executable, "-c", IMPORTED, *homes], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
