"""Beam search gives the reference library's own beams, with their scores."""

from typing import Any

import pytest
import torch
from beam_models import DECODERS, ENCODER_DECODERS, END, Pair, make, rows

from headwise.generation.beams import search
from headwise.generation.engine import DecoderEngine, EncoderDecoderEngine
from headwise.generation.own import read_own
from headwise.generation.settings import Settings, settle

LENGTHS = (7, 3, 11)
MOST = 12
WAYS: list[dict[str, Any]] = [
    {"beams": 3},
    {"beams": 4, "length_penalty": 2.0},
    {"beams": 4, "length_penalty": 0.0, "early_stopping": True},
    {"beams": 2, "length_penalty": -1.0, "early_stopping": "never"},
    {"beams": 3, "length_penalty": 0.6, "early_stopping": "never"},
    {"beams": 3, "repetition_penalty": 1.7},
    {"beams": 3, "no_repeat_ngram": 2, "min_tokens": 5},
]
THEIR_NAMES = {"beams": "num_beams", "no_repeat_ngram": "no_repeat_ngram_size", "min_tokens": "min_new_tokens"}


@pytest.fixture(scope="module", params=[*ENCODER_DECODERS, *DECODERS])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make(request.param, tmp_path_factory.mktemp(request.param))


Beams = list[tuple[list[int], float]]


def their_beams(pair: Pair, text: list[int], way: dict[str, Any], **more: Any) -> Beams:
    named = {THEIR_NAMES.get(name, name): value for name, value in way.items()}
    answer = pair.theirs.generate(
        torch.tensor([text]), attention_mask=torch.ones(1, len(text)), **named, **more, max_new_tokens=MOST,
        num_return_sequences=way["beams"], output_scores=True, return_dict_in_generate=True, do_sample=False,
    )  # fmt: skip
    skip = 1 if pair.theirs.config.is_encoder_decoder else len(text)
    new = [until_end(ids[skip:].tolist()) for ids in answer.sequences]
    return list(zip(new, answer.sequences_scores.tolist(), strict=True))


def until_end(ids: list[int], *more: int) -> list[int]:
    found = [ids.index(end) for end in (END, *more) if end in ids]
    return ids[: min(found) + 1] if found else ids


def our_beams(pair: Pair, texts: list[list[int]], settings: Settings) -> list[Beams]:
    start = settings.own.start
    if start:
        engine: Any = EncoderDecoderEngine(pair.ours, texts, start, MOST)
    else:
        engine = DecoderEngine(pair.ours, texts, MOST)
    given = [list(start) or text for text in texts]
    found = search(engine, given, [MOST] * len(texts), settings)
    return [[(one.ids, one.score) for one in beams] for beams in found]


def check_equal(ours: Beams, theirs: Beams) -> None:
    assert [ids for ids, _ in ours] == [ids for ids, _ in theirs]
    torch.testing.assert_close([score for _, score in ours], [score for _, score in theirs], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_batch_gives_the_beams_that_the_reference_gives_to_each_alone(pair: Pair, way: dict[str, Any]) -> None:
    texts = rows(3, LENGTHS)
    found = our_beams(pair, texts, settle(read_own(pair.ours), (), **way))
    for text, ours in zip(texts, found, strict=True):
        check_equal(ours, their_beams(pair, text, way))


def test_some_beams_end_and_some_are_cut(pair: Pair) -> None:
    """Or the tests above would say little."""
    found = our_beams(pair, rows(3, LENGTHS), settle(read_own(pair.ours), (), beams=4))
    ended = [ids[-1] == END for beams in found for ids, _ in beams]
    assert any(ended)
    assert not all(ended)
    assert len({tuple(ids) for beams in found for ids, _ in beams}) > 4


OWN: dict[str, Any] = {
    "forced_eos_token_id": END,
    "forced_bos_token_id": 7,
    "bad_words_ids": [[5], [6, 9], [END]],
    "suppress_tokens": [11, 12],
    "begin_suppress_tokens": [13, 14, 15],
    "min_length": 4,
    "renormalize_logits": True,
    "num_beams": 3,
    "length_penalty": 1.5,
}


def test_the_models_own_settings_are_followed(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(pair.ours, "generation", {**pair.ours.generation, **OWN})
        own = read_own(pair.ours)
    texts = rows(5, LENGTHS)
    for text, ours in zip(texts, our_beams(pair, texts, settle(own, ())), strict=True):
        check_equal(ours, their_beams(pair, text, {**OWN, "beams": 3, "num_beams": 3}))
        assert ours[0][0][-1] == END


def test_as_many_ends_as_the_model_has(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """With more end tokens more continuations are looked at."""
    monkeypatch.setattr(pair.ours, "generation", {**pair.ours.generation, "eos_token_id": [END, 20, 30]})
    texts = rows(6, LENGTHS)
    found = our_beams(pair, texts, settle(read_own(pair.ours), (), beams=3))
    for text, ours in zip(texts, found, strict=True):
        theirs = their_beams(pair, text, {"beams": 3}, eos_token_id=[END, 20, 30])
        assert [ids for ids, _ in ours] == [until_end(ids, 20, 30) for ids, _ in theirs]
