"""`headwise.atlas`: which relation each head of a model reads, over annotated corpora and beside honest controls."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import torch

from headwise.analysis.atlas.align import align
from headwise.analysis.atlas.behaviours import knock_outs, repeated_tokens
from headwise.analysis.atlas.corpora import check_corpora, chunks, sentences
from headwise.analysis.atlas.counts import Partial, Total
from headwise.analysis.atlas.progress import Progress, file_facts
from headwise.analysis.atlas.protocol import Settings, each_head, find
from headwise.analysis.atlas.reader import MEASURES
from headwise.analysis.atlas.relations import Relation, choose_relations
from headwise.analysis.atlas.results import Atlas, Cells, need_parquet
from headwise.analysis.atlas.worker import Plan
from headwise.errors import HeadwiseError
from headwise.tracing.identity import identify
from headwise.tracing.record import check_model

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
) -> Atlas:
    """Measure every head of `model` (or of the model of that name) on every relation, and write the atlas to `out`.

    `relations` names some of those shipped, or TOML files. `random` also runs the model with random weights;
    `knockouts` sentences are read once for every head taken away; `limit` reads so many sentences at most.
    """
    files = [Path(corpora)] if isinstance(corpora, str | Path) else [Path(one) for one in corpora]
    chosen = choose_relations(relations)
    check_corpora(files)
    model = _opened(model)
    place = None if out is None else Path(out)
    if place is not None:
        need_parquet()
        place.mkdir(parents=True, exist_ok=True)
    threads = torch.get_num_threads() if threads is None else threads
    plan = Plan(chosen, seed=seed, random=random, threads=threads, limit=limit)
    begun = time.perf_counter()
    facts = {
        "model": identify(model)["fingerprint"],
        "corpora": [file_facts(file) for file in files],
        "relations": {name: repr_of(relation) for name, relation in chosen.items()},
        "settings": {"seed": seed, "random": random, "limit": limit},
    }
    progress = Progress(place, facts)
    if restart:
        progress.forget()
    total = _count(model, plan, files, Way(engine, address, workers), progress, step or _silent)
    counted = time.perf_counter() - begun
    settings = Settings(seed=seed)
    result = _result(model, plan, files, total, settings, knockouts, step or _silent)
    about = {
        "model": identify(model),
        "corpora": facts["corpora"],
        "relations": facts["relations"],
        "settings": asdict(settings) | facts["settings"] | {"knockouts": knockouts, "threads": threads},
        "engine": engine,
        "seconds": round(counted, 1),
        "command": command,
        **result.about,
    }
    result = Atlas(about, result.relations, result.findings, result.profiles, result.cells, result.unaligned)
    if place is not None:
        result.save(place)
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


def _count(model: Any, plan: Plan, files: Sequence[Path], way: Way, progress: Progress, step: Step) -> Total:
    """Every chunk counted, those of an earlier run left out."""
    count = sum(len(chunk.records) for chunk in chunks(files, limit=plan.limit))
    stack = model.config.stacks["decoder" if model.config.encoder is None else "encoder"]
    total = progress.load(stack.layers * stack.heads)
    saved = time.perf_counter()
    step("sentences", total.sentences + total.unaligned, count)

    def take(part: Partial) -> None:
        nonlocal saved
        total.add(part)
        step("sentences", total.sentences + total.unaligned, count)
        if time.perf_counter() - saved > SAVE_EVERY:
            progress.save(total)
            saved = time.perf_counter()

    try:
        if way.engine == "ray":
            from headwise.analysis.atlas.ray_engine import run_on_ray

            run_on_ray(model, plan, files, set(total.chunks), take, way.address, way.workers)
        elif way.engine == "local":
            from headwise.analysis.atlas.engine import run_here

            run_here(model, plan, files, set(total.chunks), take)
        else:
            raise HeadwiseError(f"engine: got {way.engine!r}, wanted local or ray")
    finally:
        if total.chunks:
            progress.save(total)
    return total


def _result(
    model: Any, plan: Plan, files: Sequence[Path], total: Total, settings: Settings, knockouts: int, step: Step
) -> Atlas:
    """The findings and the profiles, from what was counted."""
    mode = "decoder" if model.config.encoder is None else "encoder"
    stack = model.config.stacks[mode]
    step("statistics", 0, 1)
    findings = find(total, plan.relations, stack.heads, settings)
    step("statistics", 1, 1)
    cells: dict[tuple[str, int], Cells] = {}
    for row, counts in total.rows.items():
        cells[row] = Cells(int(counts.pairs.sum()), *each_head(counts, settings))
    profiles = [{"layer": layer, "head": head} for layer in range(stack.layers) for head in range(stack.heads)]
    measures = total.measures()
    repeated = repeated_tokens(model, mode, settings.seed).reshape(-1, 2)
    for at, profile in enumerate(profiles):
        if measures is not None:
            profile |= {name: round(float(measures[at, number]), 5) for number, name in enumerate(MEASURES)}
        profile |= {"duplicate": round(float(repeated[at, 0]), 5), "induction": round(float(repeated[at, 1]), 5)}
    about: dict[str, Any] = {
        "layers": stack.layers,
        "heads": stack.heads,
        "mode": mode,
        "sentences": total.sentences,
        "words": total.words,
        "tokens": total.tokens,
        "documents": total.documents,
        "unaligned": total.unaligned,
    }
    rows = _sample(model, files, plan, knockouts)
    if rows:
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            step("heads taken away", done, len(profiles))

        name, lost = knock_outs(model, mode, rows, settings.seed, advance)
        about |= {"knockout": name, "knockout_sentences": len(rows)}
        for profile, loss in zip(profiles, lost.ravel(), strict=True):
            profile["knockout"] = round(float(loss), 6)
    named = {
        name: {"about": relation.about, "names": list(relation.names)} for name, relation in plan.relations.items()
    }
    return Atlas(about, named, findings, profiles, cells, [line for _, line in total.listed])


def _sample(model: Any, files: Sequence[Path], plan: Plan, count: int) -> list[list[int]]:
    """Sentences of middling length from the beginning of the corpora."""
    found: list[list[int]] = []
    if not count:
        return found
    for chunk in islice(chunks(files, limit=plan.limit), 8):
        for _, sentence in sentences(chunk):
            aligned = align(model, sentence)
            if not isinstance(aligned, str) and 6 <= len(aligned.ids) <= 128:
                found.append(aligned.ids)
            if len(found) == count:
                return found
    return found
