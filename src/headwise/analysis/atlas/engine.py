"""The engine of one machine: chunk after chunk, in this process."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headwise.analysis.atlas.corpora import chunks
from headwise.analysis.atlas.counts import Partial
from headwise.analysis.atlas.worker import Plan, Worker


def run_here(model: Any, plan: Plan, files: Sequence[Path], done: set[int], take: Callable[[Partial], None]) -> None:
    """Give the counts of every chunk that is not done yet."""
    worker = Worker(model, plan)
    for chunk in chunks(files, plan.chunk, plan.limit):
        if chunk.number not in done:
            take(worker.work(chunk))
