"""The atlas finds the heads that a test put into a model, and nothing in models with random weights."""

from typing import Any

import numpy as np
import torch
from atlas_models import CORPUS, NEXT, PAIR, VERB, encoder, known

from headwise.analysis.atlas.corpora import chunks
from headwise.analysis.atlas.counts import RowCounts, Total
from headwise.analysis.atlas.protocol import ALPHA, Finding, Settings, find
from headwise.analysis.atlas.relations import shipped
from headwise.analysis.atlas.run import atlas
from headwise.analysis.atlas.worker import Plan, Worker, prepare


def by_row(findings: Any) -> dict[tuple[str, str], Finding]:
    return {(one.relation, one.direction): one for one in findings}


def test_heads_that_are_known_are_found() -> None:
    found = by_row(atlas(known(), CORPUS, knockouts=0).findings)

    following = found["adjective", "adjective→noun"]
    assert (following.layer, following.head) == (0, NEXT)
    assert following.held_out is not None
    assert following.held_out.accuracy == 1.0
    assert following.rules is not None
    assert following.rules["offset"] == "offset +1"
    assert following.verdict == "no"  # reads no more than the place next to it, and that rule is as good

    kind = found["subject", "subject→verb"]
    assert (kind.layer, kind.head, kind.stability) == (0, VERB, 1.0)
    assert kind.held_out is not None
    assert kind.held_out.accuracy == 1.0
    assert kind.verdict == "position"  # no offset does as well, but the nearest verb does

    pair = found["object", "verb→object"]
    assert (pair.layer, pair.head, pair.stability) == (0, PAIR, 1.0)
    assert pair.held_out is not None
    assert pair.gain is not None
    assert pair.held_out.accuracy == 1.0
    assert pair.verdict == "reads"
    assert pair.gain.low > 0
    assert pair.chance is not None
    assert pair.chance < 0.01
    assert found["coreference", "pronoun→name"].verdict == "few"
    assert found["coreference", "pronoun→name"].held_out is None


def test_random_weights_read_nothing() -> None:
    """Of 200 models, those in which anything is found are no more than the stated rate allows."""
    torch.set_num_threads(1)
    relations = {name: one for name, one in shipped().items() if name in ("subject", "object", "adjective", "space")}
    plan = Plan(relations, random=False, measures=False)
    (chunk,) = chunks([CORPUS])
    prepared = prepare(encoder(), plan, chunk, causal=False)
    settings = Settings(repeats=5, draws=200, permutations=500)
    wrong = 0
    for seed in range(200):
        worker = Worker(encoder(layers=2, heads=3, dim=24, seed=seed), plan)
        total = Total(worker.heads)
        total.add(worker.count(prepared))
        findings = find(total, relations, 3, settings)
        assert sum(one.held_out is not None for one in findings) >= 6
        wrong += any(one.verdict in ("reads", "position") for one in findings)
    assert wrong <= highest(200)


def test_heads_as_good_as_their_control_are_not_said_to_be_better() -> None:
    """The hardest case: every head is right exactly as often as the best offset, by coin."""
    random = np.random.default_rng(5)
    relation = {"subject": shipped()["subject"]}
    settings = Settings(repeats=5, draws=200, permutations=500)
    wrong = 0
    for _ in range(200):
        total = Total(24)
        for way in (0, 1):
            counts = total.row(("subject", way), ["right", "shuffled"])
            drawn(counts, random)
        wrong += any(one.verdict in ("reads", "position") for one in find(total, relation, 12, settings))
    assert wrong <= highest(200)


def drawn(counts: RowCounts, random: np.random.Generator) -> None:
    """Forty documents of three to nine pairs; heads and one offset are right half of the time."""
    counts.pairs[:40] = random.integers(3, 10, 40)
    counts.controls[:40, 3] = random.binomial(counts.pairs[:40], 0.5)
    for kind in counts.heads.values():
        kind[:40] = random.binomial(counts.pairs[:40, None, None], 0.5, size=(40, 24, 2))


def highest(trials: int) -> int:
    """So many discoveries at most, but for one time in a thousand, where each trial has one at the stated rate."""
    drawn = np.random.default_rng(0).binomial(trials, ALPHA, 100_000)
    return int(np.quantile(drawn, 0.999))


def test_the_sentences_are_enough() -> None:
    (chunk,) = chunks([CORPUS])
    assert len(chunk.records) >= 40
