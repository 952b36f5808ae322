"""What the numbers say, in sentences that are chosen by the numbers: also where attention loses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

HOLDS = 0.95
"""From this share of right answers on, a task counts as solved."""
NEAR = 1.1
"""Figures of time within this factor are called equal: a clock is no more exact."""
CALLED = {
    "attention": "attention",
    "convolution": "the plain convolution",
    "dilated": "the dilated convolution",
    "lstm": "the LSTM",
    "gru": "the GRU",
}
Curve = Sequence[Mapping[str, Any]]


def say(found: Mapping[str, Any]) -> list[str]:
    """One sentence or two for each part, and at last where attention was not the best."""
    tasks = found["tasks"]
    said = [sentence for task in tasks if not _is_text(task) for sentence in _linked(task, found["reach"])]
    said += [sentence for task in tasks if _is_text(task) for sentence in _text(task)]
    said += _training(found["training_seconds_per_token"])
    said += _reading(found["reading"])
    return [*said, *_where_attention_loses(found)]


def _is_text(task: Mapping[str, Any]) -> bool:
    return task["name"].endswith("text")


def _linked(task: Mapping[str, Any], reach: Mapping[str, int | None]) -> list[str]:
    """Who holds the link to the end, who loses it and from where on, and who never had it."""
    curves: Mapping[str, Curve] = task["curves"]
    last = max(curve[-1]["distance"] for curve in curves.values())
    holds = [mixer for mixer, curve in curves.items() if all(point["accuracy"] >= HOLDS for point in curve)]
    never = [mixer for mixer, curve in curves.items() if all(point["accuracy"] < HOLDS for point in curve)]
    said: list[str] = []
    if holds:
        said.append(f"{names(holds)} {_answer(holds)} at every distance up to {last} ({HOLDS:.0%} or more).")
    for mixer in curves:
        if mixer in holds or mixer in never:
            continue
        lost = next(point for point in curves[mixer] if point["accuracy"] < HOLDS)
        why = _why(curves[mixer], lost, reach.get(mixer))
        said.append(f"{CALLED[mixer]} falls to {lost['accuracy']:.0%} at distance {lost['distance']}{why}.")
    if never:
        shares = ", ".join(f"{CALLED[mixer]} {curves[mixer][-1]['accuracy']:.0%}" for mixer in never)
        guess = f"a guess that does not know where to look is right in {task['chance']:.0%}"
        said.append(f"not solved in {task['steps']} steps by {names(never)} (at {last}: {shares}; {guess}).")
    return [f"{_upper(task['name'])}: {' '.join([said[0], *map(_upper, said[1:])])}"]


def _why(curve: Curve, lost: Mapping[str, Any], reach: int | None) -> str:
    """The cause, where the structure gives one: the words stand beyond what its filters reach."""
    if reach is not None and lost["distance"] > reach:
        return f": its filters reach {reach} words back, and {curve[-1]['accuracy']:.0%} remain at the end"
    return f" and to {curve[-1]['accuracy']:.0%} at {curve[-1]['distance']}" if lost is not curve[-1] else ""


def _text(task: Mapping[str, Any]) -> list[str]:
    """Who predicts held-out text best, and what more context gives."""
    bits = {mixer: mean_bits(curve) for mixer, curve in task["curves"].items()}
    order = sorted(bits, key=lambda mixer: bits[mixer])
    listed = ", ".join(f"{CALLED[mixer]} {bits[mixer]:.2f}" for mixer in order)
    return [f"{_upper(task['name'])}: bits for each character of text held out, the fewer the better: {listed}."]


def mean_bits(curve: Curve) -> float:
    """Over all distances, each answer counted once."""
    return sum(point["bits"] * point["answers"] for point in curve) / sum(point["answers"] for point in curve)


def mean_accuracy(curve: Curve) -> float:
    """Over all distances, each distance counted once."""
    return sum(point["accuracy"] for point in curve) / len(curve)


def _training(seconds: Mapping[str, float]) -> list[str]:
    order = sorted(seconds, key=lambda mixer: seconds[mixer])
    if len(order) < 2:
        return []
    fast, slow = order[0], order[-1]
    factor = seconds[slow] / seconds[fast]
    if factor < NEAR:
        return [f"Training: all take about {1e6 * seconds[fast]:.0f} µs for a token."]
    return [
        f"Training: a token takes {CALLED[fast]} {1e6 * seconds[fast]:.0f} µs and {CALLED[slow]} "
        f"{1e6 * seconds[slow]:.0f} µs, {factor:.1f} times as long."
    ]


def _reading(reading: Mapping[str, Curve]) -> list[str]:
    """How the time grows with the text, who needs the least of it, and who of the memory."""
    last = {mixer: points[-1] for mixer, points in reading.items()}
    longest = next(iter(last.values()))["tokens"]
    quick, slow = (choose(last, key=lambda mixer: last[mixer]["seconds"]) for choose in (min, max))
    small, large = (choose(last, key=lambda mixer: last[mixer]["bytes"]) for choose in (min, max))
    said = [f"Reading {longest:,} words: {CALLED[quick]} needs {1e3 * last[quick]['seconds']:.0f} ms"]
    said += [f"{CALLED[slow]} {1e3 * last[slow]['seconds']:.0f} ms"] if slow != quick else []
    said += [f"{CALLED[small]} holds {last[small]['bytes'] / 2**20:.1f} MiB"]
    said += [f"{CALLED[large]} {last[large]['bytes'] / 2**20:.1f} MiB"] if large != small else []
    growing = [f"{_growth(points)} times for {CALLED[mixer]}" for mixer, points in reading.items() if len(points) > 1]
    if not growing:
        return [f"{', '.join(said)}."]
    half = next(iter(reading.values()))[-2]["tokens"]
    return [f"{', '.join(said)}.", f"From {half:,} to {longest:,} words the time grows {', '.join(growing)}."]


def _growth(points: Curve) -> str:
    return f"{points[-1]['seconds'] / points[-2]['seconds']:.1f}"


def _where_attention_loses(found: Mapping[str, Any]) -> list[str]:
    """Every measure in which another mixer was better, by how much."""
    if "attention" not in found["mixers"]:
        return []
    others = [mixer for mixer in found["mixers"] if mixer != "attention"]
    if not others:
        return []
    lost = [*_lost_tasks(found["tasks"], others), *_lost_costs(found, others)]
    if not lost:
        return ["Attention was not beaten in anything that was measured here."]
    return [f"Where attention loses: {'; '.join(lost)}."]


def _lost_tasks(tasks: Iterable[Mapping[str, Any]], others: Sequence[str]) -> list[str]:
    lost: list[str] = []
    for task in tasks:
        measure: Callable[[Curve], float] = mean_bits if _is_text(task) else lambda curve: -mean_accuracy(curve)
        found = {mixer: measure(task["curves"][mixer]) for mixer in ("attention", *others)}
        best = min(found, key=lambda mixer: found[mixer])
        # Half a point in a hundred is within the spread of so many answers.
        if best == "attention" or found["attention"] - found[best] < 0.005:
            continue
        if _is_text(task):
            told = f"{found[best]:.2f} bits a character for {CALLED[best]}, {found['attention']:.2f} for attention"
        else:
            told = f"{-found[best]:.0%} right for {CALLED[best]}, {-found['attention']:.0%} for attention"
        lost.append(f"{task['name']} ({told})")
    return lost


def _lost_costs(found: Mapping[str, Any], others: Sequence[str]) -> list[str]:
    lost: list[str] = []
    training = found["training_seconds_per_token"]
    faster = [mixer for mixer in others if training["attention"] > NEAR * training[mixer]]
    if faster:
        factor = max(training["attention"] / training[mixer] for mixer in faster)
        lost.append(f"time to train (up to {factor:.1f} times that of {names(faster)})")
    reading = found["reading"]
    last = reading["attention"][-1]
    for field, what in (("seconds", "time"), ("bytes", "memory")):
        better = [mixer for mixer in others if last[field] > NEAR * reading[mixer][-1][field]]
        if better:
            factor = max(last[field] / reading[mixer][-1][field] for mixer in better)
            lost.append(f"{what} to read {last['tokens']:,} words (up to {factor:.1f} times that of {names(better)})")
    return lost


def names(mixers: Sequence[str]) -> str:
    """One, two, or several of them as a list in a sentence."""
    called = [CALLED[mixer] for mixer in mixers]
    return called[0] if len(called) == 1 else f"{', '.join(called[:-1])} and {called[-1]}"


def _answer(mixers: Sequence[str]) -> str:
    return "answers" if len(mixers) == 1 else "answer"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
