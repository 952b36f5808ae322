"""The weights of a trace are those of the reference library's eager attention, whichever library ran the model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from reference_models import BOTH, DECODERS, ENCODERS, Case, draw

import headwise

NEAR = 1e-5
NAMES = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}


def name(case: Case) -> str:
    return case.name


def eager(model: Any, mode: str, **inputs: Any) -> dict[tuple[str, int], Any]:
    """The weights of every layer, [row, head, query, key], as the reference library computes them one by one."""
    out = model(**inputs, output_attentions=True)
    found = {mode: out.attentions} if "attentions" in out else {}
    found |= {mode: getattr(out, name) for mode, name in NAMES.items() if getattr(out, name, None) is not None}
    return {(mode, layer): weights for mode, own in found.items() for layer, weights in enumerate(own)}


def same(trace: headwise.Trace, wanted: dict[tuple[str, int], Any], row: int = 0) -> None:
    assert set(trace.places) == set(wanted)
    for (mode, layer), weights in wanted.items():
        np.testing.assert_allclose(trace.weights(layer, mode=mode), weights[row], atol=NEAR)


@pytest.mark.parametrize("case", [*ENCODERS, *DECODERS], ids=name)
def test_one_stack(case: Case, pair: Callable[..., Any]) -> None:
    theirs, ours = pair(case)
    ids, mode = draw(2, 19), "encoder" if case in ENCODERS else "decoder"
    with headwise.record(ours) as recording:
        ours(ids)
    wanted = eager(theirs, mode, input_ids=ids)
    for row in (0, 1):
        same(recording.row(row), wanted, row)


@pytest.mark.parametrize("case", BOTH, ids=name)
def test_two_stacks_and_what_is_between(case: Case, pair: Callable[..., Any]) -> None:
    theirs, ours = pair(case)
    source, target = draw(2, 15), draw(2, 8, seed=3)
    with headwise.record(ours) as recording:
        ours(source, target)
    same(recording.row(1), eager(theirs, "decoder", input_ids=source, decoder_input_ids=target), 1)


@pytest.mark.parametrize("case", [ENCODERS[0], DECODERS[0], DECODERS[4], DECODERS[13], *BOTH[:4:3]], ids=name)
def test_the_reference_librarys_own_run_recorded(case: Case) -> None:
    theirs = case.build()
    inputs: dict[str, Any] = {"input_ids": draw(2, 13)}
    if case in BOTH:
        inputs["decoder_input_ids"] = draw(2, 7, seed=3)
    wanted = eager(theirs, "encoder" if case in ENCODERS else "decoder", **inputs)
    theirs.set_attn_implementation("sdpa")
    with headwise.record(theirs) as recording:
        theirs(**inputs)
    same(recording.trace, wanted)


SUBJECTS = ["The kids", "Two old lions", "My neighbour's dog", "Nobody", "The unbelievably slow train"]
ACTIONS = ["left right away", "was scared of them", "eats, sleeps and eats again", "got results", "did not stop"]
ENDS = [".", " because the lights went out; it was late!"]


@pytest.mark.weights
def test_fifty_sentences_of_minilm(minilm: Any) -> None:
    theirs = transformers.AutoModel.from_pretrained(minilm.source, attn_implementation="eager")
    sentences = [f"{subject} {action}{end}" for subject in SUBJECTS for action in ACTIONS for end in ENDS]
    assert len(set(sentences)) == 50
    for sentence in sentences:
        ids = torch.tensor([minilm.tokenizer.encode(sentence)])
        with headwise.record(minilm) as recording:
            minilm(ids)
        same(recording.trace, eager(theirs, "encoder", input_ids=ids))


@pytest.mark.weights
def test_three_hundred_tokens_of_smollm2(smollm2: Any, tmp_path: Path) -> None:
    headwise.save(smollm2, tmp_path / "saved")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "saved", attn_implementation="eager")
    text = " ".join(f"{subject} {action}{end}" for subject in SUBJECTS for action in ACTIONS for end in ENDS)
    ids = torch.tensor([smollm2.tokenizer.encode(text)[:300]])
    assert ids.shape[1] == 300
    with headwise.record(smollm2) as recording:
        smollm2(ids)
    same(recording.trace, eager(theirs, "decoder", input_ids=ids))
