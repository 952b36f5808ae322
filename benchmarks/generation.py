"""Reading and writing with SmolLM2 from one GGUF file: ours beside transformers and llama.cpp, in one run.

    python benchmarks/generation.py                                     everything (about ten minutes on two cores)
    python benchmarks/generation.py --prompt 337 --peers llama.cpp      one length of prompt, one peer
    python benchmarks/generation.py --parts batch --rounds 3            single, batch, start, summarize

All get the same ids and the same number of threads, write greedily, and go on past the end token. Each has a process of
its own, whose weights are loaded once; they take turns within each round, and figures are medians of the rounds.

- single: 128 new tokens after prompts of 32, 337 and 1500; the time to the first token, tokens read and written in a
  second, the whole job, and the process's peak memory after it. llama.cpp's rates are by its own clock.
- batch: eight different prompts of 337 tokens at once, beside eight times one of them.
- start: from a cold process to the first token after 32, with a warm file cache.
- summarize: from `headwise summarize` typed to the first word on the screen.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from measure import Table, machine
from writers import NAMES

ROOT = Path(__file__).parent.parent
LENGTHS, NEW, BATCH = (32, 337, 1500), 128, 8
PARTS = ("single", "batch", "start", "summarize")
Found = dict[str, list[dict[str, float]]]


class Writer:
    """A process that takes jobs."""

    def __init__(self, name: str, file: Path, threads: int, parallel: int = 1) -> None:
        command = [
            sys.executable,
            str(ROOT / "benchmarks" / "writers.py"),
            name,
            str(file),
            str(threads),
            str(parallel),
        ]
        self.begun = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def write(self, prompts: list[list[int]], new: int = NEW) -> dict[str, float]:
        """One job."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"prompts": prompts, "new": new}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        """End it."""
        self.process.communicate()


def measure(jobs: dict[str, tuple[Writer, list[list[int]]]], rounds: int) -> Found:
    """All take turns; the first round only warms them up, with few tokens."""
    found: Found = {name: [] for name in jobs}
    names = list(jobs)
    for writer, prompts in jobs.values():
        writer.write(prompts, 8)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            writer, prompts = jobs[name]
            found[name].append(writer.write(prompts))
    return found


def middle(found: Found, name: str, field: str) -> float:
    """The median of the rounds."""
    return median(one[field] for one in found[name])


def ratio(found: Found, name: str, other: str, field: str) -> str:
    """The median of the rounds' ratios: above 1, `name` is faster."""
    if other not in found:
        return "-"
    turned = [(a, b) if field == "write" else (b, a) for a, b in zip(found[name], found[other], strict=True)]
    return f"{median(a[field] / b[field] for a, b in turned):.2f}"


def single(names: list[str], lengths: list[int], file: Path, ids: list[int], threads: int, rounds: int) -> None:
    """A table for each length."""
    writers = {name: Writer(name, file, threads) for name in names}
    for length in lengths:
        found = measure({name: (writer, [ids[:length]]) for name, writer in writers.items()}, rounds)
        columns = (
            "first token s",
            "read /s",
            "write /s",
            "whole s",
            "peak MiB",
            "write : llama.cpp",
            "whole : llama.cpp",
        )
        table = Table(f"{length} + {NEW} tokens", *columns)
        for name in names:
            plain = [middle(found, name, field) for field in ("first", "read", "write", "whole", "peak")]
            table.add(name, *plain, *(ratio(found, name, "llama.cpp", field) for field in ("write", "whole")))
        print(f"\n{table}", flush=True)
    for writer in writers.values():
        writer.close()


def batch(names: list[str], length: int, file: Path, ids: list[int], threads: int, rounds: int) -> None:
    """Eight at once, beside eight times one."""
    prompts = [ids[start : start + length] for start in range(0, BATCH * length, length)]
    together = {name: Writer(name, file, threads, BATCH) for name in names}
    alone = {name: Writer(name, file, threads) for name in names}
    table = Table(f"{BATCH} x ({length} + {NEW})", "together s", "eight times one s", "gain", "new tokens /s")
    for name in names:
        jobs = {"together": (together[name], prompts)}
        jobs |= {f"alone {number}": (alone[name], [prompt]) for number, prompt in enumerate(prompts)}
        found = measure(jobs, rounds)
        one = sum(middle(found, case, "whole") for case in found if case != "together")
        all_at_once = middle(found, "together", "whole")
        table.add(name, all_at_once, one, one / all_at_once, BATCH * NEW / all_at_once)
        together[name].close()
        alone[name].close()
    print(f"\n{table}", flush=True)


def start(names: list[str], file: Path, ids: list[int], threads: int, rounds: int) -> None:
    """From a cold process to the first token."""
    table = Table("start", "first token after s")
    for name in names:
        times: list[float] = []
        for _ in range(rounds + 1):  # the first finds the files in no cache
            writer = Writer(name, file, threads)
            writer.write([ids[:32]], 1)
            times.append(time.perf_counter() - writer.begun)
            writer.close()
        table.add(name, median(times[1:]))
    print(f"\n{table}", flush=True)


def summarize(file: Path, text: str, rounds: int) -> None:
    """From the command to the first word."""
    table = Table("headwise summarize", "first word after s", "all done after s")
    with tempfile.TemporaryDirectory() as home:
        article = Path(home) / "article.txt"
        article.write_text(text)
        for compiler in ("", "torch"):
            times: list[tuple[float, float]] = []
            for _ in range(rounds + 1):
                times.append(_first_word([sys.executable, "-m", "headwise", "summarize", str(article)], compiler))
            table.add(compiler or "with the kernel", *(median(column) for column in zip(*times[1:], strict=True)))
    print(f"\n{table}", flush=True)


def _first_word(command: list[str], packed: str) -> tuple[float, float]:
    begun = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "HEADWISE_PACKED": packed}
    ) as process:
        assert process.stdout is not None
        seen = b""
        while not seen.strip():
            seen = process.stdout.read1(64)  # type: ignore[attr-defined]
            assert seen, "nothing was written"
        first = time.perf_counter() - begun
        process.stdout.read()
    return first, time.perf_counter() - begun


def material() -> tuple[Path, list[int], str]:
    """The model's file, ids of running text (this project's documentation), and a short document."""
    from headwise.checkpoints.load import load_for_writing

    model: Any = load_for_writing("smollm2")
    text = "\n".join(path.read_text() for path in sorted((ROOT / "docs").glob("*.md")))
    ids: list[int] = model.tokenizer.encode(text)
    file = Path(model.source)
    return (file if file.is_file() else next(file.glob("*.gguf"))), ids, model.tokenizer.decode(ids[:300])


def main() -> None:
    """Parse and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompt", type=int, nargs="+", default=list(LENGTHS), help="tokens")
    parser.add_argument("--peers", nargs="*", default=list(NAMES), help=f"of {', '.join(NAMES)}")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    names = [name for name in NAMES if name in args.peers or name == "headwise"]
    file, ids, text = material()
    print(f"{machine()}; {file.name}, {args.threads} threads, medians of {args.rounds}")
    if "single" in args.parts:
        single(names, args.prompt, file, ids, args.threads, args.rounds)
    if "batch" in args.parts:
        batch(names, 337, file, ids, args.threads, args.rounds)
    if "start" in args.parts:
        start(names, file, ids, args.threads, args.rounds)
    if "summarize" in args.parts:
        summarize(file, text, args.rounds)


if __name__ == "__main__":
    main()
