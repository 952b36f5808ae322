"""Saved by one library and opened by the other: equal tensors and equal numbers."""

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import transformers
from reference_models import BOTH, DECODERS, ENCODERS, Case, draw
from torch import Tensor

import headwise

ALL = [*ENCODERS, *DECODERS, *BOTH]


def name(case: Case) -> str:
    return case.name


def numbers(model: Any) -> Tensor:
    """What a model of the reference library says of some ids."""
    extra = {"decoder_input_ids": draw(2, 9, seed=1)} if model.config.is_encoder_decoder else {}
    return model(draw(2, 21), **extra)[0]


def ours(model: Any) -> Tensor:
    """What a model of ours says of the same."""
    if isinstance(model, headwise.EncoderDecoder):
        return model(draw(2, 21), draw(2, 9, seed=1))
    return model(draw(2, 21))


def opened(directory: Path, kind: str = "AutoModel") -> Any:
    """By the reference library, which complains of tensors that it misses or does not know."""
    model, about = getattr(transformers, kind).from_pretrained(directory, output_loading_info=True)
    assert not about["missing_keys"]
    # BERT's files in use hold a pooler beside a head that does not need it.
    assert not [key for key in about["unexpected_keys"] if "pooler" not in key]
    assert not about["mismatched_keys"]
    return model.eval()


@pytest.mark.parametrize("case", [case for case in ALL if case.name != "bert-untied"], ids=name)
def test_their_file_through_our_hands(
    case: Case, pair: Callable[..., Any], close: Callable[..., None], tmp_path: Path
) -> None:
    theirs, model = pair(case)
    headwise.save(model, tmp_path / "ours")
    before = safetensors.torch.load_file(tmp_path / "theirs" / "model.safetensors")
    after = safetensors.torch.load_file(tmp_path / "ours" / "model.safetensors")
    # A head for another task than ours is not kept, and the file does not claim it.
    before = {key: tensor for key, tensor in before.items() if "seq_relationship" not in key}
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    kind = json.loads((tmp_path / "ours" / "config.json").read_text())["architectures"][0]
    assert kind == case.model.replace("ForPreTraining", "ForMaskedLM")
    close(numbers(opened(tmp_path / "ours", kind)), numbers(theirs))


def test_a_head_with_a_bias_of_its_own(pair: Callable[..., Any], close: Callable[..., None], tmp_path: Path) -> None:
    case = next(case for case in ENCODERS if case.name == "bert-untied")
    theirs, model = pair(case)
    headwise.save(model, tmp_path / "ours")
    close(numbers(transformers.BertForMaskedLM.from_pretrained(tmp_path / "ours").eval()), numbers(theirs))


@pytest.mark.parametrize("case", [ENCODERS[0], ENCODERS[4], *DECODERS[:2], DECODERS[10], *BOTH[:3]], ids=name)
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
def test_half_precision_stays_what_it_is(case: Case, kind: torch.dtype, tmp_path: Path) -> None:
    theirs = case.build().to(kind)
    theirs.save_pretrained(tmp_path / "theirs")
    model = headwise.load(tmp_path / "theirs", dtype=kind)
    assert {parameter.dtype for parameter in model.parameters()} == {kind}
    headwise.save(model, tmp_path / "ours")
    before = safetensors.torch.load_file(tmp_path / "theirs" / "model.safetensors")
    after = safetensors.torch.load_file(tmp_path / "ours" / "model.safetensors")
    assert all(torch.equal(before[key], after[key]) for key in after)
    assert json.loads((tmp_path / "ours" / "config.json").read_text())["dtype"] == str(kind).removeprefix("torch.")


@pytest.mark.parametrize("case", [DECODERS[0], DECODERS[4], BOTH[0]], ids=name)
def test_shards(case: Case, close: Callable[..., None], tmp_path: Path) -> None:
    theirs = case.build()
    theirs.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    close(ours(headwise.load(tmp_path)), numbers(theirs))


def test_older_names_of_norms(pair: Callable[..., Any], close: Callable[..., None], tmp_path: Path) -> None:
    theirs, _ = pair(ENCODERS[0])
    file = tmp_path / "theirs" / "model.safetensors"
    tensors = safetensors.torch.load_file(file)
    older = {
        key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for key, tensor in tensors.items()
    }
    assert older.keys() != tensors.keys()
    safetensors.torch.save_file(older, file)
    model = headwise.load(tmp_path / "theirs")
    close(model.masked_logits(ours(model)), numbers(theirs))


def small(preset: str, **changes: Any) -> headwise.ModelConfig:
    """A preset with few words and narrow layers."""
    config = headwise.presets[preset]
    sizes = {"layers": 2, "dim": 32, "hidden": 48, "heads": 4, **changes}
    stacks = {kind: replace(stack, **sizes) for kind, stack in config.stacks.items()}
    if preset.startswith("transformer"):
        stacks = {kind: replace(stack, embedding_scale=32**0.5) for kind, stack in stacks.items()}
    return replace(config, vocabulary=61, **stacks)


@pytest.mark.parametrize("preset", ["gpt2", "gpt2-tiny", "transformer-base", "transformer-big", "transformer-small"])
def test_a_preset_from_scratch(preset: str, close: Callable[..., None], tmp_path: Path) -> None:
    config = small(preset)
    torch.manual_seed(1)
    model = (headwise.EncoderDecoder if config.encoder else headwise.Decoder)(config).eval()
    headwise.save(model, tmp_path)
    again = headwise.load(tmp_path)
    assert torch.equal(ours(again), ours(model))
    kind = "GPT2LMHeadModel" if preset.startswith("gpt2") else "MarianMTModel"
    close(ours(model), numbers(opened(tmp_path, kind)))


def test_a_configuration_without_a_family_finds_one(close: Callable[..., None], tmp_path: Path) -> None:
    stack = headwise.StackConfig(
        layers=2, dim=32, heads=4, hidden=48, causal=True, norm="rms", activation="silu", gated=True,
        attention_bias=False, output_bias=False, feedforward_bias=False, query_key_norm=True, head_dim=6,
        positions=headwise.Positions(kind="rotary"),
    )  # fmt: skip
    model = headwise.Decoder(headwise.ModelConfig(vocabulary=61, decoder=stack, tied=False)).eval()
    headwise.save(model, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        theirs = opened(tmp_path, "AutoModelForCausalLM")
    assert theirs.config.model_type == "qwen3"
    close(ours(model), numbers(theirs))
