"""The numbers of the reference library, in one pass: alone, padded on either side, and packed."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from reference_models import BOTH, DECODERS, ENCODERS, Case, draw, rectangle

LENGTHS = (3, 9, 17)


def name(case: Case) -> str:
    return case.name


@pytest.fixture(params=[False, True], ids=["right", "left"])
def left(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.mark.parametrize("case", ENCODERS, ids=name)
def test_an_encoder_and_its_head(case: Case, pair: Callable[..., Any], close: Callable[..., None]) -> None:
    theirs, ours = pair(case)
    ids, kinds = draw(2, 17), draw(2, 17) % getattr(theirs.config, "type_vocab_size", 1)
    extra = {} if case.architecture == "distilbert" else {"token_type_ids": kinds}
    wanted = theirs(ids, output_hidden_states=True, **extra)
    hidden = ours(ids, token_types=kinds if extra else None)
    close(hidden, wanted.hidden_states[-1])
    if case.model.endswith(("ForMaskedLM", "ForPreTraining")):
        close(ours.masked_logits(hidden), wanted.logits if "Masked" in case.model else wanted.prediction_logits)
    elif case.architecture != "distilbert":
        close(ours.pooler(hidden), wanted.pooler_output)


@pytest.mark.parametrize("case", ENCODERS, ids=name)
def test_a_padded_encoder(case: Case, pair: Callable[..., Any], close: Callable[..., None], left: bool) -> None:
    theirs, ours = pair(case)
    rows = [draw(length, seed=length) for length in LENGTHS]
    ids, padding = rectangle(rows, left)
    hidden = ours(ids, padding)
    for number, row in enumerate(rows):
        close(hidden[number][padding[number]], theirs(row[None], output_hidden_states=True).hidden_states[-1][0])


@pytest.mark.parametrize("case", DECODERS, ids=name)
def test_a_decoder(case: Case, pair: Callable[..., Any], close: Callable[..., None]) -> None:
    theirs, ours = pair(case)
    ids = draw(2, 23)
    close(ours(ids), theirs(ids).logits)
    close(ours.head(ours.hidden(ids)), theirs(ids).logits)


@pytest.mark.parametrize("case", DECODERS, ids=name)
def test_a_padded_decoder(case: Case, pair: Callable[..., Any], close: Callable[..., None], left: bool) -> None:
    theirs, ours = pair(case)
    rows = [draw(length, seed=length) for length in LENGTHS]
    ids, padding = rectangle(rows, left)
    logits = ours(ids, padding)
    for number, row in enumerate(rows):
        close(logits[number][padding[number]], theirs(row[None]).logits[0])


@pytest.mark.parametrize("case", DECODERS, ids=name)
def test_a_padded_decoder_beside_theirs(case: Case, pair: Callable[..., Any], close: Callable[..., None]) -> None:
    theirs, ours = pair(case)
    ids, padding = rectangle([draw(length, seed=length) for length in (17, 16, 12)], left=True)
    positions = (padding.long().cumsum(1) - 1).clamp(min=0)
    wanted = theirs(ids, attention_mask=padding.long(), position_ids=positions).logits
    if case.name == "llama-dynamic":  # there the longest row stretches the angles of all
        close(ours(ids, padding)[0], wanted[0])
    else:
        close(ours(ids, padding)[padding], wanted[padding])


@pytest.mark.parametrize("case", DECODERS, ids=name)
def test_packed_documents(case: Case, pair: Callable[..., Any], close: Callable[..., None]) -> None:
    theirs, ours = pair(case)
    rows = [draw(length, seed=length) for length in LENGTHS]
    numbers = torch.cat([torch.full((len(row),), number) for number, row in enumerate(rows)])
    logits = ours(torch.cat(rows)[None], documents=numbers[None])[0]
    for row, part in zip(rows, logits.split(LENGTHS), strict=True):
        close(part, theirs(row[None]).logits[0])


@pytest.mark.parametrize("case", BOTH, ids=name)
def test_an_encoder_decoder(case: Case, pair: Callable[..., Any], close: Callable[..., None]) -> None:
    theirs, ours = pair(case)
    source, target = draw(2, 19), draw(2, 23, seed=1)
    wanted = theirs(source, decoder_input_ids=target)
    close(ours.encode(source), wanted.encoder_last_hidden_state)
    close(ours(source, target), wanted.logits)


@pytest.mark.parametrize("case", BOTH, ids=name)
def test_a_padded_source_and_target(
    case: Case, pair: Callable[..., Any], close: Callable[..., None], left: bool
) -> None:
    theirs, ours = pair(case)
    sources = [draw(length, seed=length) for length in (17, 4, 11)]
    targets = [draw(length, seed=length + 50) for length in (2, 13, 7)]
    source, source_padding = rectangle(sources, left)
    target, target_padding = rectangle(targets, left)
    logits = ours(source, target, source_padding, target_padding)
    for number in range(3):
        wanted = theirs(sources[number][None], decoder_input_ids=targets[number][None]).logits[0]
        close(logits[number][target_padding[number]], wanted)
