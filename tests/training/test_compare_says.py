"""The sentences are chosen by the numbers: other numbers, other sentences."""

from typing import Any

import pytest

from headwise.training.compare_says import say

MIXERS = ["attention", "dilated", "gru"]


def results(**changed: Any) -> dict[str, Any]:
    """Attention solves recall, the others know nothing beyond 16 words; all else is equal."""
    right = {"attention": [1.0, 1.0, 1.0], "dilated": [1.0, 0.99, 0.1], "gru": [0.3, 0.2, 0.1]} | changed.get(
        "right", {}
    )
    bits = {"attention": 2.0, "dilated": 2.0, "gru": 2.0} | changed.get("bits", {})
    training = dict.fromkeys(MIXERS, 2e-5) | changed.get("training", {})
    seconds = dict.fromkeys(MIXERS, (0.1, 0.2)) | changed.get("seconds", {})
    held = dict.fromkeys(MIXERS, 1 << 20) | changed.get("held", {})

    def curve(shares: list[float], bits: float = 1.0) -> list[dict[str, Any]]:
        return [
            {"distance": 8 << at, "accuracy": share, "bits": bits, "answers": 100} for at, share in enumerate(shares)
        ]

    def task(name: str, curves: dict[str, Any]) -> dict[str, Any]:
        return {"name": name, "chance": 0.1, "steps": 500, "curves": curves}

    return {
        "mixers": MIXERS,
        "reach": {"attention": None, "dilated": 20, "gru": None},
        "tasks": [
            task("recall", {mixer: curve(right[mixer]) for mixer in MIXERS}),
            task("text", {mixer: curve([0.5, 0.5, 0.5], bits[mixer]) for mixer in MIXERS}),
        ],
        "training_seconds_per_token": training,
        "reading": {
            mixer: [
                {"tokens": 512 << at, "seconds": time, "bytes": held[mixer]} for at, time in enumerate(seconds[mixer])
            ]
            for mixer in MIXERS
        },
    }


def said(**changed: Any) -> str:
    return "\n".join(say(results(**changed)))


def test_who_holds_who_loses_and_who_never_learned() -> None:
    told = said()
    assert "Recall: attention answers at every distance up to 32 (95% or more)." in told
    assert "The dilated convolution falls to 10% at distance 32: its filters reach 20 words back" in told
    assert "Not solved in 500 steps by the GRU (at 32: the GRU 10%" in told
    told = said(right={"attention": [0.2, 0.2, 0.2], "gru": [1.0, 1.0, 0.97]})
    assert "Recall: the GRU answers at every distance" in told
    assert "Not solved in 500 steps by attention" in told


def test_a_link_lost_within_reach_is_not_blamed_on_it() -> None:
    told = said(right={"dilated": [1.0, 0.5, 0.4]})
    assert "falls to 50% at distance 16 and to 40% at 32." in told
    assert "filters reach" not in told


def test_where_attention_loses() -> None:
    assert said().endswith("Attention was not beaten in anything that was measured here.")
    told = said(bits={"gru": 1.5}, right={"attention": [1.0, 0.5, 0.5], "gru": [1.0, 1.0, 1.0]})
    assert "Where attention loses: recall (100% right for the GRU, 67% for attention); " in told
    assert "text (1.50 bits a character for the GRU, 2.00 for attention)" in told
    told = said(training={"attention": 4e-5}, seconds={"attention": (0.1, 0.8)}, held={"attention": 3 << 20})
    assert "time to train (up to 2.0 times that of the dilated convolution and the GRU)" in told
    assert "time to read 1,024 words (up to 4.0 times that of the dilated convolution and the GRU)" in told
    assert "memory to read 1,024 words (up to 3.0 times that of the dilated convolution and the GRU)" in told


def test_costs_are_told_as_measured() -> None:
    told = said(seconds={"attention": (0.1, 0.4), "gru": (0.1, 0.15)}, held={"dilated": 5 << 20})
    assert "Reading 1,024 words: the GRU needs 150 ms, attention 400 ms, attention holds 1.0 MiB, the dilated" in told
    assert "From 512 to 1,024 words the time grows 4.0 times for attention, 2.0 times for the dilated" in told
    assert "Training: all take about 20 µs for a token." in told
    assert "takes attention 20 µs and the GRU 60 µs, 3.0 times as long" in said(training={"gru": 6e-5})


def test_text_from_best_to_worst() -> None:
    assert "the fewer the better: the GRU 1.50, the dilated convolution 1.75, attention 2.00." in said(
        bits={"gru": 1.5, "dilated": 1.75}
    )


def test_without_attention_nothing_is_said_of_it() -> None:
    found = results()
    found["mixers"] = ["gru"]
    for task in found["tasks"]:
        task["curves"] = {"gru": task["curves"]["gru"]}
    found["reading"] = {"gru": found["reading"]["gru"]}
    found["training_seconds_per_token"] = {"gru": 1e-5}
    assert "ttention" not in "\n".join(say(found))


@pytest.mark.parametrize("task", [0, 1])
def test_a_single_task_is_enough(task: int) -> None:
    found = results()
    found["tasks"] = [found["tasks"][task]]
    assert say(found)
