"""Steps of training beside the transformers library: tokens per second, share of what the processor can, memory.

    python benchmarks/training.py
    python benchmarks/training.py --clock cpu      one thread, by the time this process computed: for a machine in use

Both train the same GPT-2 (6 layers, 384 wide, 6 heads, 50,257 words) on the same 8 texts of 256 tokens: forward, loss
of every next word, backward, gradients clipped to length 1, a step of torch's fused AdamW; no dropout. bfloat16 is
torch's autocast on both sides; ours computes a step as `headwise train` does. The rate that the processor can is that
of a product of two large square matrices of the same kind, in the same run. A step's operations are counted as 2 for
each weight that meets a token, and twice that on the way back, plus the products of attention.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from measure import Table, compare, machine, peak_memory

BATCH, LENGTH = 8, 256
LAYERS, DIM, HEADS, WORDS = 6, 384, 6, 50257


def ours(kind: str) -> Callable[[], object]:
    """A step as our loop takes it."""
    import torch

    from headwise import presets
    from headwise.training.distributed import clip
    from headwise.training.learner import Learner, choose_kernels
    from headwise.training.optimiser import make_optimiser
    from headwise.training.recipe import OptimiserRecipe
    from headwise.transformer.model import build

    torch.manual_seed(0)
    config = presets["gpt2-small"]
    assert config.decoder is not None
    model = build(replace(config, decoder=replace(config.decoder, dropout=0.0, attention_dropout=0.0))).train()
    half = kind == "bfloat16"
    choose_kernels(model, half)
    learner = Learner(model)
    optimiser = make_optimiser(model, OptimiserRecipe())
    ids = texts()

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = learner({"ids": ids[:, :-1]}, ids[:, 1:])
        (loss / ids[:, 1:].numel()).backward()
        clip(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step


def theirs(kind: str) -> Callable[[], object]:
    """The same with the library's model, which shifts the labels itself."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(n_layer=LAYERS, n_embd=DIM, n_head=HEADS, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    ).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    ids = texts()[:, :-1]

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=kind == "bfloat16"):
            loss = model(ids, labels=ids, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step


SIDES = {"ours": ours, "transformers": theirs}


def texts():
    """The same drawn tokens for both; one more than is read, so that every position has a next one."""
    import torch

    return torch.randint(0, WORDS, (BATCH, LENGTH + 1), generator=torch.Generator().manual_seed(1))


def whole_run(side: str, kind: str) -> Callable[[], object]:
    """Model, optimiser and two steps: all that training takes."""

    def run() -> None:
        step = SIDES[side](kind)
        step()
        step()

    return run


def operations() -> float:
    """Floating-point operations of a step."""
    weights = LAYERS * 12 * DIM * DIM + WORDS * DIM
    attention = LAYERS * 2 * LENGTH * DIM
    return 6.0 * BATCH * LENGTH * (weights + attention)


def product(kind: str) -> Callable[[], object]:
    """A product of two square matrices."""
    import torch

    one, other = (torch.randn(2048, 2048, dtype=getattr(torch, kind)) for _ in range(2))
    return lambda: one @ other


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--longest", type=float, default=60.0, help="seconds for each kind")
    asked = parser.parse_args()
    import torch

    clock = time.perf_counter if asked.clock == "wall" else time.process_time
    if asked.clock == "cpu":
        torch.set_num_threads(1)
    table = Table("kind", "side", "tokens/s", "ratio", "of the processor's rate", "peak memory MB", "ratio of memory")
    for kind in ("float32", "bfloat16"):
        steps = {side: make(kind) for side, make in SIDES.items()} | {"product": product(kind)}
        found = compare(steps, rounds=asked.rounds, longest=asked.longest, clock=clock)
        rate = 2 * 2048**3 / found.seconds["product"]
        memory = {side: peak_memory(__file__, "whole_run", side, kind) for side in SIDES}
        for side in SIDES:
            seconds = found.seconds[side]
            share = f"{100 * operations() / seconds / rate:.0f} % of {rate / 1e9:.0f} GFLOP/s"
            faster = 1 / found.ratio(side, "transformers")
            less = memory[side] / memory["transformers"]
            table.add(kind, side, BATCH * LENGTH / seconds, faster, share, memory[side] / 1e6, less)
    print(f"{machine()}, torch {torch.__version__}, {torch.get_num_threads()} threads, {asked.clock} time\n\n{table}")


if __name__ == "__main__":
    main()
