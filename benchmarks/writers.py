"""Those who write in benchmarks/generation.py, each in a process of its own: ours, transformers, llama.cpp.

    python benchmarks/writers.py NAME FILE THREADS PARALLEL

reads jobs as lines of JSON, {"prompts": [[id, ...], ...], "new": 128}, and answers each with the seconds to the first
token, the tokens read and written in a second, the seconds of the whole job, and the process's peak memory so far.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Job = Callable[[list[list[int]], int], dict[str, float]]
NAMES = ("headwise", "headwise, no compiler", "transformers float32", "transformers bfloat16", "llama.cpp")


def rates(prompts: list[list[int]], new: int, first: float, whole: float) -> dict[str, float]:
    """What is told of a job: the first token ends the reading, and the others are written."""
    read, written = sum(map(len, prompts)), (new - 1) * len(prompts)
    return {"first": first, "read": read / first, "write": written / max(whole - first, 1e-9), "whole": whole}


def headwise(file: str, threads: int, parallel: int) -> Job:
    """Ours, as headwise.generate runs it."""
    import torch

    from headwise.checkpoints.load import load_for_writing
    from headwise.generation.compose import pieces
    from headwise.generation.own import read_own
    from headwise.generation.settings import settle

    torch.set_num_threads(threads)
    model: Any = load_for_writing(file)

    def write(prompts: list[list[int]], new: int) -> dict[str, float]:
        begun, first, written = time.perf_counter(), 0.0, 0
        settings = settle(read_own(model), (), max_tokens=new, ignore_end=True)
        for _ in pieces(model, prompts, settings):
            first = first or time.perf_counter() - begun
            written += 1
        assert written == new * len(prompts)
        return rates(prompts, new, first, time.perf_counter() - begun)

    return write


def transformers(file: str, threads: int, dtype: str) -> Job:
    """The reference library, which widens the file's weights."""
    import torch
    from transformers import AutoModelForCausalLM, GgufConfig
    from transformers.generation.streamers import BaseStreamer

    torch.set_num_threads(threads)
    path, widened = Path(file), GgufConfig(dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=getattr(torch, dtype), quantization_config=widened
    ).eval()

    class Clock(BaseStreamer):
        """Notes when the first token came; the prompt is put before it."""

        def __init__(self) -> None:
            self.times: list[float] = []

        def put(self, value: torch.Tensor) -> None:
            self.times.append(time.perf_counter())

        def end(self) -> None:
            pass

    def write(prompts: list[list[int]], new: int) -> dict[str, float]:
        begun, clock, ids = time.perf_counter(), Clock(), torch.tensor(prompts)
        how: dict[str, Any] = {"do_sample": False, "min_new_tokens": new, "max_new_tokens": new, "pad_token_id": 0}
        if len(prompts) == 1:
            how["streamer"] = clock
        with torch.inference_mode():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), **how)
        whole = time.perf_counter() - begun
        assert out.shape[1] == ids.shape[1] + new
        first = clock.times[1] - begun if clock.times else whole
        return rates(prompts, new, first, whole)

    return write


def llama_cpp(file: str, threads: int, parallel: int) -> Job:
    """llama.cpp, by its own clock for reading and writing."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = file
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.n_parallel, params.n_ctx = parallel, 2048 * parallel
    params.verbosity = -1
    server = xllamacpp.Server(params)

    def write(prompts: list[list[int]], new: int) -> dict[str, float]:
        begun = time.perf_counter()
        wish = {"n_predict": new, "temperature": 0.0, "ignore_eos": True, "cache_prompt": False}
        many = prompts if len(prompts) > 1 else prompts[0]
        out = server.handle_completions({"prompt": many, **wish})
        whole = time.perf_counter() - begun
        if len(prompts) > 1:
            assert len(out["choices"]) == len(prompts), out
            return rates(prompts, new, whole, whole)
        told = out["timings"]
        assert (told["prompt_n"], told["predicted_n"]) == (len(prompts[0]), new), told
        first = told["prompt_ms"] / 1000
        return {
            "first": first,
            "read": told["prompt_per_second"],
            "write": told["predicted_per_second"],
            "whole": whole,
        }

    return write


def open_writer(name: str, file: str, threads: int, parallel: int) -> Job:
    """The writer of this name, its weights loaded."""
    if name.startswith("headwise"):
        if name != "headwise":
            os.environ["HEADWISE_PACKED"] = "torch"
        return headwise(file, threads, parallel)
    if name.startswith("transformers"):
        return transformers(file, threads, name.split()[1])
    return llama_cpp(file, threads, parallel)


def main() -> None:
    """Answer jobs until no more come; what a library prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    name, file, threads, parallel = sys.argv[1:]
    write = open_writer(name, file, int(threads), int(parallel))
    for line in sys.stdin:
        job = json.loads(line)
        found = write(job["prompts"], job["new"])
        status = Path("/proc/self/status").read_text()
        peak = next(int(row.split()[1]) for row in status.splitlines() if row.startswith("VmHWM"))
        print(json.dumps({**found, "peak": peak / 1024}), file=answers, flush=True)


if __name__ == "__main__":
    main()
