"""What recording costs: time and peak memory beside the plain run and transformers with output_attentions=True.

    python benchmarks/tracing.py             everything (about ten minutes on two cores, 12 GB of memory)
    python benchmarks/tracing.py time        one part only: time, memory, look, long
    python benchmarks/tracing.py --quick     128 and 512 tokens only, fewer rounds
    python benchmarks/tracing.py --busy      one thread, and the time this process computed: for machines in use

Every contender runs the same weights on the same tokens in float32, in inference mode, and returns all that the model
returns. `recorded` is the run inside `headwise.record`, and the trace that comes of it. transformers runs sdpa
(`theirs`), the same model recorded by headwise (`theirs recorded`), and eager with output_attentions=True, which is
how its users get weights (`theirs, attentions`).
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from measure import Table, compare, machine, peak_memory

import headwise

TEXT = "A lion walked out of the woods. The children, who had never seen one, ran back to the house at the river. "
SIZES = [("minilm", 128), ("minilm", 512), ("smollm2", 128), ("smollm2", 512), ("smollm2", 2048)]
QUICK = 512
LONG = 8192
MEGABYTE = 1 << 20
Call = Callable[[], Any]


def ids_of(tokenizer: Any, tokens: int) -> torch.Tensor:
    """A text of so many tokens."""
    ids = tokenizer.encode(TEXT * (tokens // 20 + 1))
    return torch.tensor([ids[: tokens - 1] + ids[-1:]])


def prepare(contender: str, name: str, tokens: int, copy: str) -> Call:
    """One run of this contender; `copy` is the directory that the transformers library opens."""
    model = headwise.load(name)
    ids = ids_of(model.tokenizer, tokens)
    if contender.startswith("theirs"):
        model = library_model(name, copy, "eager" if contender == "theirs, attentions" else "sdpa")
    options = {"output_attentions": True} if contender == "theirs, attentions" else {}

    def plain() -> Any:
        with torch.inference_mode():
            return model(ids, **options)

    def recorded() -> Any:
        with torch.inference_mode(), headwise.record(model) as recording:
            result = model(ids)
        return result, recording.trace

    return recorded if contender.endswith("recorded") else plain


def library_model(name: str, copy: str, kernel: str) -> Any:
    """The same weights as the transformers library opens them."""
    import transformers

    kind = transformers.AutoModelForCausalLM if name == "smollm2" else transformers.AutoModel
    return kind.from_pretrained(copy, attn_implementation=kernel).eval()


CONTENDERS = ("plain", "recorded", "theirs", "theirs recorded", "theirs, attentions")


def clock() -> Callable[[], float]:
    """With one thread the time is what was computed, and on an idle machine both clocks agree."""
    return time.process_time if torch.get_num_threads() == 1 else time.perf_counter


def time_them(sizes: list[tuple[str, int]], copies: dict[str, str], rounds: int) -> Table:
    """Milliseconds of one run; each ratio is to the plain run of the same library."""
    table = Table("model", "tokens", *(f"{name} ms" for name in CONTENDERS), "ratio", "theirs", "attentions")
    for name, tokens in sizes:
        calls = {contender: prepare(contender, name, tokens, copies[name]) for contender in CONTENDERS}
        result = compare(calls, rounds, longest=60, clock=clock())
        ratios = [
            result.ratio("recorded", "plain"),
            result.ratio("theirs recorded", "theirs"),
            result.ratio("theirs, attentions", "theirs"),
        ]
        table.add(name, tokens, *(result.seconds[contender] * 1000 for contender in CONTENDERS), *ratios)
    return table


def weigh_them(sizes: list[tuple[str, int]], copies: dict[str, str]) -> Table:
    """Megabytes that a fresh process grows by at its peak (medians of three), beyond the plain run of its library."""
    more = ("recorded, more", "theirs recorded, more", "attentions, more")
    table = Table("model", "tokens", "plain MB", "theirs MB", *(f"{name} MB" for name in more))
    for name, tokens in sizes:
        grown = {
            contender: median(peak_memory(__file__, "prepare", contender, name, tokens, copies[name]) for _ in range(3))
            / MEGABYTE
            for contender in CONTENDERS
        }
        beyond = [grown["recorded"] - grown["plain"]]
        beyond += [grown[contender] - grown["theirs"] for contender in ("theirs recorded", "theirs, attentions")]
        table.add(name, tokens, round(grown["plain"]), round(grown["theirs"]), *map(round, beyond))
    return table


def look_around(sizes: list[tuple[str, int]]) -> Table:
    """Milliseconds from a trace to what somebody asks of it, each time for another head."""
    table = Table("model", "tokens", "one head, one word ms", "one head, all words ms", "all steps ms", "receipt ms")
    for name, tokens in sizes:
        _, trace = prepare("recorded", name, tokens, "")()
        places = [(layer, head) for layer in trace.layers for head in range(trace.heads)][::7]
        table.add(
            name,
            tokens,
            each(places, lambda layer, head, trace=trace: trace.weights(layer, head, len(trace.tokens) // 2)),
            each(places, lambda layer, head, trace=trace: trace.weights(layer, head)),
            each(places, lambda layer, head, trace=trace: trace.steps(layer, head, len(trace.tokens) // 2)),
            each([(0, 0)], lambda layer, head, trace=trace: trace.receipt(trace.layers)),
        )
    return table


def each(places: list[tuple[int, int]], call: Callable[[int, int], Any]) -> float:
    """The median of one call for each place, in milliseconds."""
    times: list[float] = []
    now = clock()
    for place in places:
        begun = now()
        call(*place)
        times.append((now() - begun) * 1000)
    return median(times)


def prepare_long(tokens: int) -> Call:
    """Record so many tokens of SmolLM2, and look at a head in every layer."""
    model = headwise.load("smollm2")
    ids = ids_of(model.tokenizer, tokens)

    def look() -> None:
        with torch.inference_mode(), headwise.record(model) as recording:
            model.hidden(ids)
        trace = recording.trace
        for layer in trace.layers:
            head = layer % trace.heads
            trace.weights(layer, head, tokens - 1)
            trace.steps(layer, head, tokens - 1)
            trace.joined(layer, tokens - 1)
            for start in range(0, tokens, 1024):
                trace.weights(layer, head, slice(start, start + 1024))

    return look


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("time", "memory", "look", "long"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", help="one size, such as smollm2:2048")
    chosen = parser.parse_args()
    if chosen.busy:
        torch.set_num_threads(1)
    sizes = [size for size in SIZES if not chosen.quick or size[1] <= QUICK]
    sizes = [size for size in sizes if chosen.only in (None, f"{size[0]}:{size[1]}")]
    parts: dict[str, Callable[[dict[str, str]], Any]] = {
        "time": lambda copies: time_them(sizes, copies, 5 if chosen.quick else chosen.rounds),
        "memory": lambda copies: weigh_them(sizes, copies),
        "look": lambda copies: look_around(sizes),
        "long": lambda copies: f"{LONG} tokens: {peak_memory(__file__, 'prepare_long', LONG) / MEGABYTE:.0f} MB more",
    }
    print(f"{machine()}, torch {torch.__version__}, {torch.get_num_threads()} threads\n")
    with tempfile.TemporaryDirectory() as folder:
        copies = {name: f"{folder}/{name}" for name in {name for name, _ in sizes}}
        for name, copy in copies.items():
            headwise.save(headwise.load(name), copy)
        for part, measure in parts.items():
            if chosen.part in (None, part) and not (part == "long" and chosen.quick):
                print(f"{part}: {measure.__doc__ or ''}\n\n{measure(copies)}\n")


if __name__ == "__main__":
    main()
