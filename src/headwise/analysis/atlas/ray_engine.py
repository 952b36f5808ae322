"""The engine of many processes or machines: the same map and the same reduction, on Ray Data."""

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from headwise.analysis.atlas.corpora import Chunk, Record, chunks
from headwise.analysis.atlas.counts import Partial, pack, unpack
from headwise.analysis.atlas.sentence import CorpusError
from headwise.analysis.atlas.worker import Plan, Worker
from headwise.errors import HeadwiseError

WINDOW = 64
"""Chunks that are under way at a time, for each worker: what is read of the corpus before its counts are taken."""


def run_on_ray(
    model: Any,
    plan: Plan,
    files: Sequence[Path],
    done: set[int],
    take: Callable[[Partial], None],
    address: str | None,
    workers: int | None,
) -> None:
    """Give the counts of every chunk that is not done yet, in whatever order they come."""
    ray = _ray()
    begun = not ray.is_initialized()
    if begun:
        _start(ray, address, workers)
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        threads = plan.threads or 1
        count = workers or max(1, int(ray.cluster_resources().get("CPU", 1)) // threads)
        waiting: list[Chunk] = []
        for chunk in chunks(files, plan.chunk, plan.limit):
            if chunk.number not in done:
                waiting.append(chunk)
            if len(waiting) == WINDOW * count:
                _map(ray, model, plan, waiting, count, threads, take)
                waiting = []
        if waiting:
            _map(ray, model, plan, waiting, count, threads, take)
    finally:
        if begun:
            ray.shutdown()


def _ray() -> Any:
    try:
        import ray
        import ray.data  # pyright: ignore[reportUnusedImport]
    except ImportError:
        raise HeadwiseError("--engine ray needs ray: pip install 'headwise[ray]'") from None
    return ray


def _start(ray: Any, address: str | None, workers: int | None) -> None:
    """An existing cluster, or processes of this machine."""
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "include_dashboard": False}
    try:
        if address is None:
            ray.init(address="local", num_cpus=workers, **quiet)
        else:
            del quiet["include_dashboard"]
            ray.init(address=address, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise HeadwiseError(f"--address {address}: no ray cluster answers: {error}") from None


def _map(
    ray: Any,
    model: Any,
    plan: Plan,
    waiting: Sequence[Chunk],
    count: int,
    threads: int,
    take: Callable[[Partial], None],
) -> None:
    """Work on these chunks, each a row of a dataset; a row whose worker died is done again by another."""
    rows = [{"chunk": to_json(chunk)} for chunk in waiting]
    data = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
        RayWorker,
        fn_constructor_args=(model, plan),
        compute=ray.data.ActorPoolStrategy(size=min(count, len(rows))),
        num_cpus=min(threads, int(ray.cluster_resources().get("CPU", 1))),
    )
    taken: set[int] = set()
    try:
        for row in data.iter_rows():
            if row["problem"]:
                _refuse(json.loads(row["problem"]))
            part = unpack(load(row["arrays"]), json.loads(row["plain"]))
            if part.chunk not in taken:
                taken.add(part.chunk)
                take(part)
    except ray.exceptions.RayError as error:
        raise HeadwiseError(f"ray: {str(error).strip().splitlines()[-1]}") from None


class RayWorker:
    """One worker's process: it holds the model, and turns rows into rows."""

    def __init__(self, model: Any, plan: Plan) -> None:
        if isinstance(model, str):
            from headwise.checkpoints.load import load

            model = load(model).eval()
        self.worker = Worker(model, plan)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """A chunk becomes its counts; what is wrong with the corpus is data too, so that it is not tried again."""
        try:
            part = self.worker.work(from_json(row["chunk"]))
        except CorpusError as error:
            problem = json.dumps([error.file, error.line, error.problem])
            return {"problem": problem, "arrays": b"", "plain": ""}
        except HeadwiseError as error:
            return {"problem": json.dumps([None, 0, str(error)]), "arrays": b"", "plain": ""}
        arrays, plain = pack(part)
        ordered = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        return {"problem": "", "arrays": save(ordered), "plain": json.dumps(plain)}


def _refuse(problem: list[Any]) -> None:
    file, line, text = problem
    if file is None:
        raise HeadwiseError(text)
    raise CorpusError(file, line, text)


def to_json(chunk: Chunk) -> str:
    """A chunk as text."""
    head = [chunk.number, chunk.file, chunk.kind, chunk.columns, chunk.documents]
    return json.dumps([head, [list(record) for record in chunk.records]])


def from_json(text: str) -> Chunk:
    """What `to_json` wrote."""
    (number, file, kind, columns, documents), records = json.loads(text)
    return Chunk(number, file, kind, columns, tuple(Record(*record) for record in records), documents)
