"""`headwise.atlas`: which relation each head of a model reads, over annotated corpora and beside honest controls."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import torch

from headwise.analysis.atlas.align import align
from headwise.analysis.atlas.behaviours import knock_outs, repeated_tokens
from headwise.analysis.atlas.corpora import CHUNK, check_corpora, chunks, sentences
from headwise.analysis.atlas.counts import Partial, Total
from headwise.analysis.atlas.engine import run_here
from headwise.analysis.atlas.examples import Examples, find_examples, page_arrays, page_header
from headwise.analysis.atlas.progress import Progress, file_facts
from headwise.analysis.atlas.protocol import Settings, each_head, find
from headwise.analysis.atlas.reader import MEASURES
from headwise.analysis.atlas.relations import Relation, choose_relations
from headwise.analysis.atlas.results import Atlas, Cells, need_parquet
from headwise.analysis.atlas.worker import Plan
from headwise.errors import HeadwiseError
from headwise.tracing.identity import identify
from headwise.tracing.record import check_model
from headwise.views.page.atlas import write_atlas_page

SAVE_EVERY = 20.0
"""Seconds between the times at which progress is put on disk."""
Step = Callable[[str, int, int], None]
"""Told what is under way, how much of it is done, and of how much."""


@dataclass(frozen=True)
class Way:
    """How and where the work is done."""

    engine: Literal["local", "ray"] = "local"
    address: str | None = None
    """Of a ray cluster; None: processes on this machine."""
    workers: int | None = None
    name: str | None = None
    """Of the model, where it was given by name: each worker opens it for itself."""


def atlas(
    model: Any,
    corpora: str | Path | Iterable[str | Path],
    relations: str | Path | Iterable[str | Path] | None = None,
    *,
    out: str | Path | None = None,
    seed: int = 0,
    random: bool = True,
    knockouts: int = 24,
    threads: int | None = None,
    engine: Literal["local", "ray"] = "local",
    address: str | None = None,
    workers: int | None = None,
    restart: bool = False,
    step: Step | None = None,
    command: str | None = None,
    limit: int | None = None,
    chunk: int = CHUNK,
) -> Atlas:
    """Measure every head of `model` (or of the model of that name) on every relation, and write the atlas to `out`.

    `relations` names some of those shipped, or TOML files. `random` also runs the model with random weights;
    `knockouts` sentences are read once for every head taken away; `limit` reads so many sentences at most;
    `chunk` of them are the unit of work.
    """
    files = [Path(corpora)] if isinstance(corpora, str | Path) else [Path(one) for one in corpora]
    chosen = choose_relations(relations)
    check_corpora(files)
    name = str(model) if isinstance(model, str | Path) else None
    model = _opened(model)
    threads = torch.get_num_threads() if threads is None else threads
    plan = Plan(chosen, seed=seed, random=random, threads=threads, limit=limit, chunk=chunk)
    place = None if out is None else Path(out)
    if place is not None:
        need_parquet()
        place.mkdir(parents=True, exist_ok=True)
    work = _Work(model, plan, files, Way(engine, address, workers, name), knockouts, step or _silent)
    progress = Progress(place, work.facts)
    if restart:
        progress.forget()
    begun = time.perf_counter()
    total = work.count(progress)
    result = work.result(total, round(time.perf_counter() - begun, 1), command)
    if place is not None:
        result.save(place)
        examples = work.examples()
        write_atlas_page(page_header(result, examples), page_arrays(result, examples), place / "atlas.html")
        progress.forget()
    return result


def repr_of(relation: Relation) -> str:
    """The rules of a relation, the same whenever they are the same."""
    import json

    def plain(value: Any) -> Any:
        if isinstance(value, frozenset | set):
            return sorted(value)
        raise TypeError(type(value).__name__)

    return json.dumps(asdict(relation), sort_keys=True, default=plain)


def _silent(what: str, done: int, of: int) -> None:
    pass


def _opened(model: Any) -> Any:
    if isinstance(model, str | Path):
        from headwise.checkpoints.load import load

        model = load(model)
    check_model(model)
    if getattr(model, "tokenizer", None) is None:
        raise HeadwiseError("model: came without a tokenizer, so it cannot read text")
    return model.eval()


@dataclass(frozen=True)
class _Work:
    """One atlas, from its corpora to its result."""

    model: Any
    plan: Plan
    files: Sequence[Path]
    way: Way
    knockouts: int
    step: Step

    @property
    def mode(self) -> str:
        """The stack that is read."""
        return "decoder" if self.model.config.encoder is None else "encoder"

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What must be the same for an atlas that was begun to continue."""
        plan = self.plan
        return {
            "model": identify(self.model)["fingerprint"],
            "corpora": [file_facts(file) for file in self.files],
            "relations": {name: repr_of(relation) for name, relation in plan.relations.items()},
            "settings": {"seed": plan.seed, "random": plan.random, "limit": plan.limit, "chunk": plan.chunk},
        }

    def count(self, progress: Progress) -> Total:
        """Every chunk counted, those of an earlier run left out."""
        count = sum(len(chunk.records) for chunk in chunks(self.files, limit=self.plan.limit))
        stack = self.model.config.stacks[self.mode]
        total = progress.load(stack.layers * stack.heads)
        saved = time.perf_counter()
        self.step("sentences", total.sentences + total.unaligned, count)

        def take(part: Partial) -> None:
            nonlocal saved
            total.add(part)
            if time.perf_counter() - saved > SAVE_EVERY:
                progress.save(total)
                saved = time.perf_counter()
            self.step("sentences", total.sentences + total.unaligned, count)

        try:
            self._run(set(total.chunks), take)
        finally:
            if total.chunks:
                progress.save(total)
        return total

    def _run(self, done: set[int], take: Callable[[Partial], None]) -> None:
        if self.way.engine == "ray":
            from headwise.analysis.atlas.ray_engine import run_on_ray

            model = self.way.name or self.model
            run_on_ray(model, self.plan, self.files, done, take, self.way.address, self.way.workers)
        elif self.way.engine == "local":
            run_here(self.model, self.plan, self.files, done, take)
        else:
            raise HeadwiseError(f"engine: got {self.way.engine!r}, wanted local or ray")

    def result(self, total: Total, seconds: float, command: str | None) -> Atlas:
        """The findings and the profiles, from what was counted."""
        settings = Settings(seed=self.plan.seed)
        relations = self.plan.relations
        self.step("statistics", 0, 1)
        findings = find(total, relations, self.model.config.stacks[self.mode].heads, settings)
        cells = {row: Cells(int(own.pairs.sum()), *each_head(own, settings)) for row, own in total.rows.items()}
        self.step("statistics", 1, 1)
        profiles, knocked = self._profiles(total)
        more = {"knockouts": self.knockouts, "threads": self.plan.threads}
        about = {
            "model": identify(self.model),
            "corpora": self.facts["corpora"],
            "relations": self.facts["relations"],
            "settings": {**asdict(settings), **self.facts["settings"], **more},
            "engine": self.way.engine,
            "seconds": seconds,
            "command": command,
            "layers": self.model.config.stacks[self.mode].layers,
            "heads": self.model.config.stacks[self.mode].heads,
            "mode": self.mode,
            **{name: getattr(total, name) for name in ("sentences", "words", "tokens", "documents", "unaligned")},
            **knocked,
        }
        named = {name: {"about": one.about, "names": list(one.names)} for name, one in relations.items()}
        return Atlas(about, named, findings, profiles, cells, [line for _, line in total.listed])

    def examples(self) -> Examples:
        """Sentences for the page, read once more."""
        self.step("examples", 0, 1)
        found = find_examples(self.model, self.plan, chunks(self.files, self.plan.chunk, self.plan.limit))
        self.step("examples", 1, 1)
        return found

    def _profiles(self, total: Total) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """What each head does without labels, and how the loss without it was measured."""
        stack = self.model.config.stacks[self.mode]
        profiles: list[dict[str, Any]] = [
            {"layer": layer, "head": head} for layer in range(stack.layers) for head in range(stack.heads)
        ]
        measures = total.measures()
        repeated = repeated_tokens(self.model, self.mode, self.plan.seed).reshape(-1, 2)
        for at, profile in enumerate(profiles):
            if measures is not None:
                profile |= {name: round(float(measures[at, number]), 5) for number, name in enumerate(MEASURES)}
            profile |= {"duplicate": round(float(repeated[at, 0]), 5), "induction": round(float(repeated[at, 1]), 5)}
        rows = _sample(self.model, self.files, self.plan, self.knockouts)
        if not rows:
            return profiles, {}
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            self.step("heads taken away", done, len(profiles))

        name, lost = knock_outs(self.model, self.mode, rows, self.plan.seed, advance)
        for profile, loss in zip(profiles, lost.ravel(), strict=True):
            profile["knockout"] = round(float(loss), 6)
        return profiles, {"knockout": name, "knockout_sentences": len(rows)}


def _sample(model: Any, files: Sequence[Path], plan: Plan, count: int) -> list[list[int]]:
    """Sentences of middling length from the beginning of the corpora."""
    found: list[list[int]] = []
    if not count:
        return found
    for chunk in islice(chunks(files, plan.chunk, plan.limit), 8):
        for _, sentence in sentences(chunk):
            aligned = align(model, sentence)
            if not isinstance(aligned, str) and 6 <= len(aligned.ids) <= 128:
                found.append(aligned.ids)
            if len(found) == count:
                return found
    return found
