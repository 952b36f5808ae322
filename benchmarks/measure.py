"""Side by side in one run: the harness that all benchmarks share.

    from measure import Table, compare, peak_memory, thread_count

    result = compare({"ours": lambda: layer(x), "theirs": lambda: other(x)}, rounds=15)
    result.seconds["ours"]              the median time of one call
    result.ratio("ours", "theirs")      the median of the rounds' ratios: below 1 is faster

Contenders take turns within each round, and another one begins each round, so that a noisy neighbour hits
all alike. A call too short for the clock is repeated within its turn. All are called once before the clock runs.
On a machine that others use too, take one thread and `clock=time.process_time`: what this process computed, not waited.

    peak_memory(__file__, "prepare_case", "blocks", 8192)      bytes

starts a fresh Python, imports that file there, calls `prepare_case("blocks", 8192)`, which returns what is to be
measured, calls that once, and returns by how much the process grew at its peak. Arguments must be plain (JSON).
`fresh_process` does the same and returns a Cost: `.peak`, the `.seconds` of that call, and those it `.computed`.

    table = Table("case", "ours ms", "ratio"); table.add("1 x 16", 0.41, 0.93); print(table)

prints Markdown; each row goes to standard error as soon as it is there. Nothing here imports torch or headwise.
"""

import gc
import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

Contender = Callable[[], object]
Clock = Callable[[], float]

SHORTEST = 0.002
"""Seconds that a turn should last at least."""


@dataclass(frozen=True)
class Comparison:
    """The time of one call of each contender, in every round."""

    rounds: dict[str, list[float]]

    @property
    def seconds(self) -> dict[str, float]:
        """The median time of one call."""
        return {name: median(times) for name, times in self.rounds.items()}

    def ratio(self, one: str, other: str) -> float:
        """How long `one` takes when `other` takes 1: the median of the rounds' ratios."""
        pairs = zip(self.rounds[one], self.rounds[other], strict=True)
        return median(first / second for first, second in pairs)


def compare(
    contenders: dict[str, Contender], rounds: int = 15, longest: float = 20.0, clock: Clock = time.perf_counter
) -> Comparison:
    """Let the contenders take turns for so many rounds, or until `longest` seconds have passed (at least 3 rounds)."""
    calls = {name: _calls_per_turn(contender, clock) for name, contender in contenders.items()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    begun = time.perf_counter()
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                times[name].append(_time(contenders[name], calls[name], clock))
            if turn >= 2 and time.perf_counter() - begun > longest:
                break
    finally:
        gc.enable()
    return Comparison(times)


@dataclass(frozen=True)
class Cost:
    """What one call took in a process of its own."""

    seconds: float
    computed: float
    """Seconds of processor time, of all threads."""
    peak: int
    """Bytes by which the process grew at its peak."""


def peak_memory(file: str | Path, function: str, *arguments: object) -> int:
    """By how many bytes a fresh process grows at its peak while it runs what `function(*arguments)` returns."""
    return fresh_process(file, function, *arguments).peak


def fresh_process(file: str | Path, function: str, *arguments: object) -> Cost:
    """What it costs a fresh process to run once what `function(*arguments)` returns."""
    command = [sys.executable, __file__, str(Path(file).resolve()), function, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{function}{arguments}: {done.stderr.strip()[-2000:]}")
    seconds, computed, peak = done.stdout.split()[-3:]
    return Cost(float(seconds), float(computed), int(peak))


class Table:
    """A Markdown table; numbers are written with three digits."""

    def __init__(self, *columns: str) -> None:
        self.columns = columns
        self.rows: list[list[str]] = []

    def add(self, *cells: object) -> None:
        """One more row, of as many cells as there are columns."""
        if len(cells) != len(self.columns):
            raise ValueError(f"cells: got {len(cells)}, wanted {len(self.columns)}")
        self.rows.append([f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in cells])
        print("  ".join(self.rows[-1]), file=sys.stderr, flush=True)

    def __str__(self) -> str:
        lines = [list(self.columns), *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        written = [
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
            for line in lines
        ]
        written.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        return "\n".join(written)


def machine() -> str:
    """Where the figures were taken, in one line."""
    cpu = platform.processor() or platform.machine()
    known = Path("/proc/cpuinfo")
    if known.exists():
        names = [
            line.split(":", 1)[1].strip() for line in known.read_text().splitlines() if line.startswith("model name")
        ]
        cpu = names[0] if names else cpu
    return f"{cpu}, {thread_count()} processors, Python {platform.python_version()}"


def thread_count() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _calls_per_turn(contender: Contender, clock: Clock) -> int:
    contender()
    once = _time(contender, 1, clock)
    return max(1, min(1000, round(SHORTEST / max(once, 1e-7))))


def _time(contender: Contender, calls: int, clock: Clock) -> float:
    begun = clock()
    for _ in range(calls):
        contender()
    return (clock() - begun) / calls


def _cost_in_this_process(file: str, function: str, arguments: list[object]) -> Cost:
    spec = importlib.util.spec_from_file_location("measured", file)
    assert spec is not None
    assert spec.loader is not None
    sys.path.insert(0, str(Path(file).parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules["measured"] = module
    spec.loader.exec_module(module)
    call = getattr(module, function)(*arguments)
    gc.collect()
    # Linux: 5 sets the mark of the highest resident size back to the present one.
    Path("/proc/self/clear_refs").write_text("5")
    before, computed, begun = _status("VmRSS"), time.process_time(), time.perf_counter()
    call()
    return Cost(time.perf_counter() - begun, time.process_time() - computed, _status("VmHWM") - before)


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"{field}: not in /proc/self/status")


if __name__ == "__main__":
    cost = _cost_in_this_process(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
    print(cost.seconds, cost.computed, cost.peak)
