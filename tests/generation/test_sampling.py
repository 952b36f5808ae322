"""What may be drawn, how often it is, and that a seed says which."""

from collections import Counter
from typing import Any

import pytest
import torch
import transformers
from beam_models import DECODERS, ENCODER_DECODERS, END, Pair, make, rows
from hypothesis import given
from hypothesis import settings as trials
from hypothesis import strategies as st

from headwise.generation.compose import complete
from headwise.generation.own import Own, read_own
from headwise.generation.rules import Written, apply, make_rules
from headwise.generation.sampling import choose, draw, keep_min_p, keep_top_k, keep_top_p
from headwise.generation.settings import Settings, settle

SEEDS = st.integers(0, 10_000)


def scores_of(seed: int, ties: bool) -> torch.Tensor:
    """Three rows of thirty scores; with ties they are whole numbers."""
    drawn = torch.randn(3, 30, generator=torch.Generator().manual_seed(seed)) * 3
    return drawn.round() if ties else drawn


@trials(deadline=None, max_examples=40)
@given(SEEDS, st.integers(1, 40), st.booleans())
def test_top_k_keeps_what_the_reference_keeps(seed: int, count: int, ties: bool) -> None:
    scores = scores_of(seed, ties)
    theirs = transformers.TopKLogitsWarper(count)(torch.zeros(3, 1), scores)
    torch.testing.assert_close(keep_top_k(scores, count), theirs, rtol=0, atol=0)


@trials(deadline=None, max_examples=40)
@given(SEEDS, st.floats(0.01, 0.99))
def test_top_p_keeps_what_the_reference_keeps(seed: int, mass: float) -> None:
    scores = scores_of(seed, ties=False).double()
    theirs = transformers.TopPLogitsWarper(mass)(torch.zeros(3, 1), scores)
    torch.testing.assert_close(keep_top_p(scores, mass), theirs, rtol=0, atol=0)


@trials(deadline=None, max_examples=40)
@given(SEEDS, st.floats(0.05, 1))
def test_top_p_keeps_the_fewest_that_hold_the_mass(seed: int, mass: float) -> None:
    scores = scores_of(seed, ties=True).double()
    kept = keep_top_p(scores, mass).isfinite()
    for row, keep in zip(scores.softmax(-1), kept, strict=True):
        assert float(row[keep].sum()) >= mass - 1e-9
        assert float(row[keep].sum() - row[keep].min()) < mass
        assert float(row[keep].min()) >= float(row[~keep].max() if bool((~keep).any()) else 0)


@trials(deadline=None, max_examples=40)
@given(SEEDS, st.floats(0, 1), st.booleans())
def test_min_p_keeps_what_the_reference_keeps(seed: int, share: float, ties: bool) -> None:
    scores = scores_of(seed, ties)
    theirs = transformers.MinPLogitsWarper(share)(torch.zeros(3, 1), scores)
    torch.testing.assert_close(keep_min_p(scores, share), theirs, rtol=0, atol=0)


def test_draws_fall_as_often_as_the_probabilities_say() -> None:
    scores = torch.tensor([[1.0, -torch.inf, 0.0, 2.0]])
    marks = [(place + 0.5) / 10_000 for place in range(10_000)]
    counts = Counter(draw(scores.expand(10_000, -1), marks).tolist())
    for id, share in enumerate(scores[0].softmax(0).tolist()):
        assert counts[id] == pytest.approx(10_000 * share, abs=1)
    # The ends of the line fall on tokens that may come.
    assert draw(torch.tensor([[-torch.inf, 0.0, -torch.inf]] * 2), [0.0, 1 - 2**-53]).tolist() == [1, 1]


def test_temperature_makes_the_best_surer() -> None:
    scores = torch.tensor([[1.0, 2.0]])
    settings = Settings(temperature=0.5)
    share = float((scores / 0.5).softmax(-1)[0, 0])
    assert choose(scores, settings, [share - 1e-6]).tolist() == [0]
    assert choose(scores, settings, [share + 1e-6]).tolist() == [1]


@trials(deadline=None, max_examples=40)
@given(SEEDS)
def test_rules_are_those_of_the_reference(seed: int) -> None:
    ids = torch.randint(0, 6, (3, 9), generator=torch.Generator().manual_seed(seed))
    scores = scores_of(seed, ties=False)
    own = Own(bad_words=((4,), (1, 2), (0, 1, 5)), suppressed=(9,), ends=frozenset([3]))
    settings = Settings(repetition_penalty=1.3, no_repeat_ngram=3, min_tokens=4, own=own)
    found = apply(make_rules(settings), scores, [Written(row, 6, 20) for row in ids.tolist()])
    for rule in (
        transformers.RepetitionPenaltyLogitsProcessor(1.3),
        transformers.NoRepeatNGramLogitsProcessor(3),
        transformers.NoBadWordsLogitsProcessor([[4], [1, 2], [0, 1, 5]], 3),
        transformers.MinNewTokensLengthLogitsProcessor(6, 4, 3),
        transformers.SuppressTokensLogitsProcessor([9]),
    ):
        scores = rule(ids, scores)
    torch.testing.assert_close(found, scores, rtol=1e-6, atol=1e-6)


def test_no_rule_no_copy() -> None:
    scores = torch.ones(1, 3)
    assert apply(make_rules(Settings()), scores, [Written([1], 1, 5)]) is scores


class Bytes:
    """Ids as text, so that texts can be compared; what the tests ask of a tokenizer and no more."""

    is_byte_level = False
    end_ids = frozenset([END])

    def decode(self, ids: list[int], skip_special: bool = True) -> str:
        return "".join(chr(0x4E00 + id) for id in ids if not (skip_special and id == END))

    def is_byte(self, id: int) -> bool:
        return False


def text_of(ids: list[int]) -> str:
    return Bytes().decode(ids)


@pytest.fixture(scope="module", params=[*ENCODER_DECODERS, *DECODERS])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    pair = make(request.param, tmp_path_factory.mktemp(request.param))
    pair.ours.tokenizer = Bytes()
    return pair


def ours(pair: Pair, texts: list[list[int]], batch: int = 8, **wishes: Any) -> list[str]:
    settings = settle(read_own(pair.ours), (), max_tokens=14, **wishes)
    return [done.text for done in complete(pair.ours, texts, settings, batch)]


GREEDY: list[dict[str, Any]] = [{}, {"repetition_penalty": 1.5, "no_repeat_ngram": 2, "min_tokens": 6}]


@pytest.mark.parametrize("way", GREEDY, ids=str)
def test_greedy_texts_are_the_references(pair: Pair, way: dict[str, Any]) -> None:
    names = {"no_repeat_ngram": "no_repeat_ngram_size", "min_tokens": "min_new_tokens"}
    texts = rows(1, (5, 2, 17))
    for text, found in zip(texts, ours(pair, texts, **way), strict=True):
        answer = pair.theirs.generate(
            torch.tensor([text]), attention_mask=torch.ones(1, len(text)), max_new_tokens=14, do_sample=False,
            **{names.get(name, name): value for name, value in way.items()},
        )  # fmt: skip
        skip = 1 if pair.theirs.config.is_encoder_decoder else len(text)
        assert found == text_of(answer[0, skip:].tolist())


@pytest.mark.parametrize("way", [{}, {"temperature": 1.3, "seed": 5, "top_k": 20, "top_p": 0.9}, {"beams": 3}], ids=str)
def test_in_a_batch_each_becomes_what_it_becomes_alone(pair: Pair, way: dict[str, Any]) -> None:
    texts = rows(2, (1, 20, 7, 7, 30))
    alone = [ours(pair, [text], **way)[0] for text in texts]
    assert ours(pair, texts, **way) == alone
    assert ours(pair, texts, batch=2, **way) == alone
    assert len(set(alone)) > 1


def test_a_seed_draws_the_same_and_another_draws_others(pair: Pair) -> None:
    texts = rows(3, (6,))
    drawn = [ours(pair, texts, temperature=1.5, seed=seed)[0] for seed in (1, 1, 2, 3, 4)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 2
    assert len({ours(pair, texts, temperature=1.5)[0] for _ in range(6)}) > 1


def test_nearly_no_temperature_is_greedy(pair: Pair) -> None:
    texts = rows(4, (6, 3))
    assert ours(pair, texts, temperature=1e-4, seed=0) == ours(pair, texts)
    assert ours(pair, texts, temperature=9.0, top_k=1, seed=0) == ours(pair, texts)
