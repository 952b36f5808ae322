"""Learning and judging: the same seed gives the same model, and right answers are counted where they belong."""

from typing import Any

import pytest
import torch
from single_thread import one_thread as one_thread

from headwise.errors import HeadwiseError
from headwise.training.compare import Wanted, compare
from headwise.training.compare_learn import Effort, judge, learn
from headwise.training.compare_models import Shape, config_of
from headwise.training.compare_tasks import Agreement, Copying

EFFORT = Effort(steps=6, rate=2e-3, tokens=128, asked=50)


def test_the_same_seed_gives_the_same_model_bit_for_bit() -> None:
    task = Copying()
    config = config_of("gru", 16, len(task.words), Shape(layers=1))
    one, two, other = (learn(config, task, task, (8, 16), EFFORT, seed) for seed in (1, 1, 2))
    assert one.losses == two.losses
    assert one.points == two.points
    assert one.losses != other.losses
    assert all(torch.equal(a, b) for a, b in zip(one.model.parameters(), two.model.parameters(), strict=True))


def test_learning_learns() -> None:
    task = Agreement()
    config = config_of("attention", 32, len(task.words), Shape(heads=2))
    learned = learn(config, task, task, (8,), Effort(steps=60, rate=4e-3, tokens=256, asked=200), 0)
    assert learned.points[0].accuracy > 0.95
    assert learned.tokens == pytest.approx(60 * 256, rel=0.1)
    assert len(learned.losses) == 60


def test_answers_are_judged_at_their_distance() -> None:
    """A reader that looks back at most 20 words is right up to there, and beyond it never."""
    task = Copying()

    def answer(ids: torch.Tensor) -> torch.Tensor:
        logits = torch.zeros(*ids.shape, len(task.words))
        distance = ids.shape[1] - task.length + 1
        if distance > 20:
            logits[:, :, -1] = 50.0
        else:
            logits[:, distance - 1 :] = 50.0 * torch.nn.functional.one_hot(ids[:, : task.length], len(task.words))
        return logits

    near, far = judge(answer, task, (16, 32), EFFORT, 0)  # type: ignore[arg-type]
    assert (near.distance, near.accuracy, far.distance, far.accuracy) == (16, 1.0, 32, 0.0)
    assert near.bits < 1e-9
    assert far.bits > 10
    assert min(near.answers, far.answers) >= EFFORT.asked


def test_everything_asked_for_is_compared_and_every_tick_comes() -> None:
    heard: list[str] = []
    wanted = Wanted(mixers=("attention", "dilated"), tasks=("agreement",), distances=(8, 16), lengths=(8, 16), steps=2)
    found = compare(wanted, heard.append)
    assert len(heard) == wanted.ticks() == 2 * (2 + 2)
    assert set(found.models("agreement")) == {"attention", "dilated"}
    assert found.models("recall") == {}
    plain = found.as_dict()
    assert plain["paths"]["attention"] == [{"distance": far, "mixings": 1} for far in (1, 2, 4, 8, 16)]
    assert plain["reach"] == {"attention": None, "dilated": 143}
    curve = plain["tasks"][0]["curves"]["dilated"]
    assert [point["distance"] for point in curve] == [8, 16]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"mixers": ("conv",)}, "--mixers: got 'conv', wanted one or more of attention, convolution"),
        ({"mixers": ("gru", "gru")}, "--mixers: got gru, gru, wanted each of them once"),
        ({"tasks": ()}, "--tasks: got none"),
        ({"tasks": ("books",)}, "--tasks: got 'books'"),
        ({"steps": 0}, "--steps: got 0, wanted at least 1"),
        ({"distances": (16, 8)}, "distances: got"),
    ],
)
def test_what_there_is_not_is_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(HeadwiseError, match=told):
        compare(Wanted(**change))
