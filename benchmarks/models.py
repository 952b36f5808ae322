"""Real models beside the transformers library: load time, peak memory, forward passes, a padded batch of sentences.

    python benchmarks/models.py            everything (about ten minutes on two cores)
    python benchmarks/models.py --quick    one load of each, 512 tokens
    python benchmarks/models.py load       one part only: load, forward, batch
    python benchmarks/models.py --busy     one thread, and the time this process computed: for machines in use

Loading is measured in a fresh process each time, after its imports: the call, and one look at every weight, so that a
file which is only mapped is read too. Ours brings the tokenizer with it; the library opens the weights alone.
In the other parts both compute with equal weights, without gradients, each with its own default attention. How far each
is off is the mean distance of its numbers from the library's in float32.
"""

import argparse
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent))
from measure import Cost, Table, compare, fresh_process, machine

import headwise
from headwise.checkpoints.sources import find
from headwise.transformer.model import pad

KINDS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
TEXT = (
    "Attention is a weighted mean: each word asks, every earlier word offers a key, and the products decide whose "
    "value is passed on. In 1911 the tram from Łódź to Pabianice ran every twenty minutes; who wanted to go home "
    "later walked. def mean(numbers): return sum(numbers) / len(numbers)\n"
)
SENTENCES = [f"The {number} kids were scared of the lions" + " and ran home" * (number % 8) for number in range(32)]


def prepare_load(who: str, name: str, kind: str, threads: int) -> Callable[[], object]:
    """What opens the model and looks at every weight; the library's import is not part of it."""
    torch.set_num_threads(threads)
    path, dtype = find(name), KINDS[kind]
    if who == "ours":
        return lambda: _look(headwise.load(path, dtype=dtype))
    transformers = _transformers()
    if path.suffix == ".gguf":
        open_theirs, more = transformers.AutoModelForCausalLM.from_pretrained, {"gguf_file": path.name}
        return lambda: _look(open_theirs(path.parent, dtype=dtype, **more))
    return lambda: _look(transformers.AutoModel.from_pretrained(path, dtype=dtype))


def _look(model: nn.Module) -> float:
    with torch.inference_mode():
        return sum(parameter.view(-1)[::256].float().sum().item() for parameter in model.parameters())


def _transformers() -> Any:
    import transformers

    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


def table_of_loading(quick: bool) -> Table:
    """The medians of three loads each; memory also as a share of what the parameters take."""
    table = Table(
        "load", "dtype", "ours s", "theirs s", "ours/theirs", "weights MB", "ours MB", "theirs MB", "ours/weights"
    )
    for name in ("smollm2", "minilm"):
        for kind in list(KINDS)[: 1 if quick else None]:
            costs: dict[str, list[Cost]] = {"ours": [], "theirs": []}
            for _ in range(1 if quick else 3):
                for who, found in costs.items():
                    found.append(fresh_process(__file__, "prepare_load", who, name, kind, torch.get_num_threads()))
            ours, theirs = [median(map(_time, found)) for found in costs.values()]
            peaks = [median(cost.peak for cost in found) for found in costs.values()]
            size = sum(weight.nbytes for weight in headwise.load(name, KINDS[kind]).parameters())
            megabytes = [count / 1e6 for count in (size, *peaks)]
            table.add(name, kind, ours, theirs, ours / theirs, *megabytes, peaks[0] / size)
    return table


def _time(cost: Cost) -> float:
    return cost.computed if torch.get_num_threads() == 1 else cost.seconds


def both(name: str, kind: str) -> tuple[Any, Any]:
    """Our model, and the library's with the weights that we save: its own way to smollm2 takes much longer."""
    transformers = _transformers()
    ours = headwise.load(name, dtype=KINDS[kind])
    auto = transformers.AutoModel if isinstance(ours, headwise.Encoder) else transformers.AutoModelForCausalLM
    with tempfile.TemporaryDirectory() as folder:
        headwise.save(ours, folder)
        theirs = auto.from_pretrained(folder, dtype=KINDS[kind], use_safetensors=True)
        # Its tensors are over the file, which goes away; a page that was read stays.
        return ours, theirs.eval()


def without_gradients(call: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """The call in inference mode."""

    def run() -> Tensor:
        with torch.inference_mode():
            return call()

    return run


def table_of_forward(quick: bool) -> Table:
    """Scores for every place of one text."""
    table = Table("forward of smollm2", "dtype", "ours ms", "theirs ms", "ours/theirs", "ours off", "theirs off")
    right: dict[int, Tensor] = {}
    for kind in KINDS:
        ours, theirs = both("smollm2", kind)
        for tokens in (512,) if quick else (512, 2048):
            ids = torch.tensor([(ours.tokenizer.encode(TEXT) * 50)[:tokens]])
            assert ids.shape[1] == tokens
            calls = {
                "ours": without_gradients(lambda ours=ours, ids=ids: ours(ids)),
                "theirs": without_gradients(lambda theirs=theirs, ids=ids: theirs(ids, use_cache=False).logits),
            }
            _add(table, (f"1 x {tokens}", kind), calls, 5 if quick else 11, right.setdefault(tokens, calls["theirs"]()))
    return table


def table_of_batch(quick: bool) -> Table:
    """Last hidden states of 32 sentences of different length, filled up to one rectangle."""
    table = Table("sentences through minilm", "dtype", "ours ms", "theirs ms", "ours/theirs", "ours off", "theirs off")
    right: dict[str, Tensor] = {}
    for kind in KINDS:
        ours, theirs = both("minilm", kind)
        ids, padding = pad([ours.tokenizer.encode(sentence) for sentence in SENTENCES], ours.tokenizer.pad_id)
        kept, seen = padding.unsqueeze(-1), padding.long()

        def read_theirs(theirs=theirs, ids=ids, kept=kept, seen=seen) -> Tensor:
            return theirs(ids, attention_mask=seen).last_hidden_state * kept

        calls = {
            "ours": without_gradients(lambda ours=ours, ids=ids, padding=padding, kept=kept: ours(ids, padding) * kept),
            "theirs": without_gradients(read_theirs),
        }
        case = (f"{len(ids)} x {ids.shape[1]}", kind)
        _add(table, case, calls, 15 if quick else 41, right.setdefault("all", calls["theirs"]()))
    return table


def _add(
    table: Table, case: tuple[str, str], calls: dict[str, Callable[[], Tensor]], rounds: int, right: Tensor
) -> None:
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    result = compare(dict(calls), rounds, clock=clock)
    off = [(call().float() - right).abs().mean().item() for call in calls.values()]
    times = (1000 * result.seconds[who] for who in calls)
    table.add(*case, *times, result.ratio("ours", "theirs"), *off)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Real models beside the transformers library.")
    parser.add_argument("parts", nargs="*", help="load, forward, batch; all where none is given")
    parser.add_argument("--quick", action="store_true", help="one load of each, 512 tokens")
    parser.add_argument("--busy", action="store_true", help="one thread and its computing time")
    chosen = parser.parse_args()
    if chosen.busy:
        torch.set_num_threads(1)
    known = {"load": table_of_loading, "forward": table_of_forward, "batch": table_of_batch}
    for part in chosen.parts:
        if part not in known:
            parser.error(f"parts: got {part!r}, wanted some of {', '.join(known)}")
    versions = f"torch {torch.__version__}, transformers {_transformers().__version__}"
    print(f"{machine()}, {versions}, {torch.get_num_threads()} threads")
    for part in chosen.parts or known:
        print(f"\n{part}\n\n{known[part](chosen.quick)}", flush=True)


if __name__ == "__main__":
    main()
