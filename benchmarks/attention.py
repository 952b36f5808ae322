"""MultiHeadAttention beside torch.nn.MultiheadAttention and a bare composition: time, growth with length, peak memory.

    python benchmarks/attention.py            everything (about ten minutes on two cores)
    python benchmarks/attention.py --quick    fewer rounds, float32, shorter texts
    python benchmarks/attention.py time       one part only: time, causal, step, window, memory

    python benchmarks/attention.py --busy     one thread, and the time this process computed: for machines in use

The bare composition is what one would write by hand: one fused projection and scaled_dot_product_attention. All run in
eval mode, without gradients (forward) or with those of the input and all weights (forward+backward), and
torch.nn.MultiheadAttention is called with need_weights=False and batch_first=True.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

sys.path.insert(0, str(Path(__file__).parent))
from measure import Comparison, Table, compare, machine, peak_memory

from headwise import KeyValueCache, Mask, MultiHeadAttention, attention
from headwise.attention.positions import ALiBi

SIZES = [(1, 16, 512, 8), (8, 128, 512, 8), (1, 1024, 512, 8), (1, 4096, 512, 8)]
GROUPED = (1, 2048, 2048, 32)
SHARED = 8
KINDS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
MODES = ("forward", "forward+backward")


class Bare(nn.Module):
    """One fused projection, torch's fused attention, one projection."""

    def __init__(self, dim: int, heads: int, shared: int) -> None:
        super().__init__()
        self.heads, self.shared, self.size = heads, shared, dim // heads
        self.project = nn.Linear(dim, (heads + 2 * shared) * self.size)
        self.output = nn.Linear(dim, dim)

    def split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value, [batch, head, token, head_dim]."""
        split = self.project(x).view(*x.shape[:2], self.heads + 2 * self.shared, self.size).transpose(1, 2)
        return split.split([self.heads, self.shared, self.shared], dim=1)

    def forward(self, x: Tensor, causal: bool = False, allowed: Tensor | None = None) -> Tensor:
        query, key, value = self.split(x)
        grouped = self.shared != self.heads
        mixed = scaled_dot_product_attention(query, key, value, allowed, is_causal=causal, enable_gqa=grouped)
        return self.output(mixed.transpose(1, 2).reshape(x.shape))


def layers(dim: int, heads: int, kind: torch.dtype, shared: int = 0) -> tuple[MultiHeadAttention, nn.Module, Bare]:
    """Ours, torch's and the bare one, in eval mode."""
    torch.manual_seed(0)
    ours = MultiHeadAttention(dim, heads, key_value_heads=shared or heads)
    theirs = nn.MultiheadAttention(dim, heads, batch_first=True)
    return ours.to(kind).eval(), theirs.to(kind).eval(), Bare(dim, heads, shared or heads).to(kind).eval()


def run(call: Callable[[], Tensor], mode: str, inputs: list[Tensor]) -> Callable[[], object]:
    """Without gradients, or with those of the input and all weights."""

    def forward() -> Tensor:
        with torch.inference_mode():
            return call()

    def both_ways() -> tuple[Tensor, ...]:
        return torch.autograd.grad(call().sum(), inputs)

    return forward if mode == "forward" else both_ways


def contenders(
    size: tuple[int, int, int, int], kind: torch.dtype, mode: str, causal: bool = False, shared: int = 0
) -> dict[str, Callable[[], object]]:
    """The three of them on one input; torch's has no grouped heads and computes them all."""
    batch, tokens, dim, heads = size
    ours, theirs, bare = layers(dim, heads, kind, shared)
    x = torch.randn(batch, tokens, dim, dtype=kind, requires_grad=mode != "forward")
    mask = Mask(causal=causal)
    future = nn.Transformer.generate_square_subsequent_mask(tokens, dtype=kind) if causal else None
    calls = {
        "ours": (ours, lambda: ours(x, mask=mask)),
        "torch": (theirs, lambda: theirs(x, x, x, need_weights=False, attn_mask=future, is_causal=causal)[0]),
        "bare": (bare, lambda: bare(x, causal)),
    }
    return {name: run(call, mode, [x, *layer.parameters()]) for name, (layer, call) in calls.items()}


def table_of_times(quick: bool, causal: bool) -> Table:
    """Every size, dtype and direction."""
    table = Table("case", "dtype", "what", "ours ms", "torch ms", "bare ms", "ours/torch", "ours/bare")
    sizes = SIZES[2:] if causal else SIZES
    cases = [(f"{size[0]} x {size[1]}, {size[2]}/{size[3]}", size, 0) for size in sizes]
    if not causal:
        cases.append((f"1 x 2048, 2048/{GROUPED[3]} sharing {SHARED}", GROUPED, SHARED))
    for kind in list(KINDS)[: 1 if quick else None]:
        for mode in MODES:
            for name, size, shared in cases:
                if quick and size[1] > 1024:
                    continue
                calls = contenders(size, KINDS[kind], mode, causal, shared)
                result = measured(calls, 7 if quick else 31, 3 if quick else 10)
                times = (1000 * result.seconds[who] for who in calls)
                table.add(name, kind, mode, *times, result.ratio("ours", "torch"), result.ratio("ours", "bare"))
    return table


def table_of_steps(quick: bool) -> Table:
    """One more token after 4096: torch's module keeps nothing, and projects them all again."""
    table = Table("one step after 4096", "ours ms", "torch ms", "bare ms", "ours/torch", "ours/bare")
    mask, held = Mask(causal=True), 4096
    for kind in list(KINDS)[: 1 if quick else None]:
        ours, theirs, bare = layers(512, 8, KINDS[kind])
        before, x = torch.randn(1, held, 512, dtype=KINDS[kind]), torch.randn(1, 1, 512, dtype=KINDS[kind])
        everything = torch.cat([before, x], dim=1)
        cache = KeyValueCache(capacity=held + 1)
        with torch.inference_mode():
            ours(before, mask=mask, cache=cache)
            keys, values = (torch.empty(1, 8, held + 1, 64, dtype=KINDS[kind]) for _ in range(2))
            keys[:, :, :held], values[:, :, :held] = bare.split(before)[1:]

        def step(ours=ours, cache=cache, x=x) -> Tensor:
            cache.length = cache.seen = held
            return ours(x, mask=mask, cache=cache)

        def bare_step(bare=bare, keys=keys, values=values, x=x) -> Tensor:
            query, keys[:, :, held:], values[:, :, held:] = bare.split(x)
            return bare.output(scaled_dot_product_attention(query, keys, values).transpose(1, 2).reshape(x.shape))

        calls: dict[str, Callable[[], Tensor]] = {
            "ours": step,
            "torch": lambda theirs=theirs, x=x, seen=everything: theirs(x, seen, seen, need_weights=False)[0],
            "bare": bare_step,
        }
        result = measured({who: run(call, "forward", []) for who, call in calls.items()}, 7 if quick else 41)
        times = (1000 * result.seconds[who] for who in calls)
        table.add(kind, *times, result.ratio("ours", "torch"), result.ratio("ours", "bare"))
    return table


def table_of_windows(quick: bool) -> Table:
    """A window of 512: time should double with the length; the bare composition needs the whole mask."""
    table = Table("window 512, 512/8", "what", "ours ms", "µs per token", "bare ms", "ours/bare")
    for tokens in (2048, 4096, 8192) if quick else (8192, 16384, 32768):
        for mode in MODES:
            ours, _, bare = layers(512, 8, torch.float32)
            mask, x = Mask(causal=True, window=512), torch.randn(1, tokens, 512, requires_grad=mode != "forward")
            calls = {"ours": run(lambda ours=ours, x=x, mask=mask: ours(x, mask=mask), mode, [x, *ours.parameters()])}
            if tokens <= 16384 and mode == "forward":
                allowed = mask.tensor(tokens, tokens)
                calls["bare"] = run(lambda bare=bare, x=x, allowed=allowed: bare(x, False, allowed), mode, [])
            result = measured(calls, 5, 10)
            ours_ms = 1000 * result.seconds["ours"]
            other = (1000 * result.seconds["bare"], result.ratio("ours", "bare")) if "bare" in calls else ("", "")
            table.add(tokens, mode, ours_ms, 1000 * ours_ms / tokens, *other)
    return table


def prepare_layer(name: str, size: list[int], mode: str, shared: int) -> Callable[[], object]:
    """One contender, for the process in which its peak is taken."""
    return contenders((size[0], size[1], size[2], size[3]), torch.float32, mode, shared=shared)[name]


def masks(tokens: int) -> dict[str, Mask]:
    """One of each kind that needs no [query, key] tensor to describe."""
    kept = torch.arange(tokens).unsqueeze(0) < tokens - 100
    documents = (torch.arange(tokens) // 1000).unsqueeze(0)
    return {
        "no": Mask(),
        "causal": Mask(causal=True),
        "window": Mask(causal=True, window=512),
        "padding": Mask(padding=kept),
        "documents": Mask(causal=True, documents=documents),
        "all of them": Mask(causal=True, window=512, padding=kept, documents=documents),
        "alibi": Mask(causal=True),
    }


def prepare_blocks(name: str, tokens: int, mode: str) -> Callable[[], object]:
    """The kernel alone, 4 heads of 32, for the process in which its peak is taken."""
    query, key, value = (torch.randn(1, 4, tokens, 32, requires_grad=mode != "forward") for _ in range(3))
    mask = masks(tokens)[name]
    bias = ALiBi(4)(tokens, tokens) if name == "alibi" else None
    return run(lambda: attention(query, key, value, mask, bias, kernel="blocks"), mode, [query, key, value])


def tables_of_memory(quick: bool) -> list[Table]:
    """Peak beyond what weights and inputs take: of each layer, and of "blocks" at lengths that double."""
    whole = Table("peak MB", "what", "ours", "torch", "bare")
    cases = [(f"1 x {size[1]}, {size[2]}/{size[3]}", size, 0) for size in (SIZES[2:3] if quick else SIZES)]
    if not quick:
        cases.append((f"1 x 2048, 2048/{GROUPED[3]} sharing {SHARED}", GROUPED, SHARED))
    for name, size, shared in cases:
        for mode in MODES:
            peaks = (
                peak_memory(__file__, "prepare_layer", who, size, mode, shared) for who in ("ours", "torch", "bare")
            )
            whole.add(name, mode, *(peak / 1e6 for peak in peaks))
    lengths = (2048, 4096) if quick else (4096, 8192, 16384)
    grown = Table('peak MB of "blocks"', "what", *(str(length) for length in lengths))
    for name in masks(1):
        for mode in MODES:
            peaks = (peak_memory(__file__, "prepare_blocks", name, length, mode) for length in lengths)
            grown.add(name, mode, *(peak / 1e6 for peak in peaks))
    return [whole, grown]


def measured(calls: dict[str, Callable[[], object]], rounds: int, longest: float = 20.0) -> Comparison:
    """Side by side; with one thread the time is what was computed, and on an idle machine both clocks agree."""
    return compare(calls, rounds, longest, time.process_time if torch.get_num_threads() == 1 else time.perf_counter)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="MultiHeadAttention beside its peers.")
    parser.add_argument("parts", nargs="*", help="time, causal, step, window, memory; all where none is given")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, float32, shorter texts")
    parser.add_argument("--busy", action="store_true", help="one thread and its computing time")
    chosen = parser.parse_args()
    if chosen.busy:
        torch.set_num_threads(1)
    known = {
        "time": lambda: [table_of_times(chosen.quick, causal=False)],
        "causal": lambda: [table_of_times(chosen.quick, causal=True)],
        "step": lambda: [table_of_steps(chosen.quick)],
        "window": lambda: [table_of_windows(chosen.quick)],
        "memory": lambda: tables_of_memory(chosen.quick),
    }
    for part in chosen.parts:
        if part not in known:
            parser.error(f"parts: got {part!r}, wanted some of {', '.join(known)}")
    print(f"{machine()}, torch {torch.__version__} with {torch.get_num_threads()} threads")
    for part in chosen.parts or known:
        for table in known[part]():
            print(f"\n{part}\n\n{table}", flush=True)


if __name__ == "__main__":
    main()
