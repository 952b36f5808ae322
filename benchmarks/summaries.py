"""Summaries beside what people wrote: ROUGE of the first sentences, of sentences taken, and of models.

    python benchmarks/summaries.py pairs.jsonl.gz --model smollm2
    python benchmarks/summaries.py pairs.jsonl.gz --model runs/first/best --model smollm2 --keep summaries.jsonl

A line of the file (JSONL, .gz or not) holds a document, `source`, and one summary or several of it, `target`; either
may be a text or a list (`--source`, `--target` name other columns). ROUGE-1, -2 and -L are F-measures of the
`rouge-score` package with stemming, times 100; of several summaries the one with the best ROUGE-1 counts. Without a
file it is SciTLDR's, where ../shared/data has it.

Measured are the first sentences (--lead of them), `--extract`, the best single sentence (the one that whoever knows the
answer would take: no summary of one sentence of the document does better), and each model, all at one --length.

With --keep every summary is written there as soon as it is there, and what it holds is not written again: the
command, given again, goes on where it was stopped; --first 100, then --first 200, does it in pieces.
"""

import argparse
import gzip
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from rouge_score.rouge_scorer import RougeScorer

sys.path.insert(0, str(Path(__file__).parent))
from measure import Table, machine

from headwise.generation.sentences import sentences
from headwise.generation.summarize import open_encoder, open_model, taken
from headwise.generation.summarizer import Summarizer

PAIRS = Path("../shared/data/scitldr/dev.jsonl.gz")
KINDS = ("rouge1", "rouge2", "rougeL")


class Pair(NamedTuple):
    """A document and what people wrote of it."""

    sentences: list[str]
    targets: list[str]

    @property
    def text(self) -> str:
        """The document as one text."""
        return " ".join(self.sentences)


Way = Callable[[list[Pair]], list[str]]


def read_pairs(path: Path, source: str, target: str) -> Iterator[Pair]:
    """The pairs of a JSONL file, one a line; a broken line is named."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
                document, targets = row[source], row[target]
            except (ValueError, KeyError, TypeError) as error:
                raise SystemExit(f"{path}, line {number}: wanted JSON with {source} and {target}: {error!r}") from None
            split = document if isinstance(document, list) else sentences(document)
            yield Pair(split, targets if isinstance(targets, list) else [targets])


class Scorer:
    """ROUGE against the best of several references."""

    def __init__(self) -> None:
        self._scorer = RougeScorer(KINDS, use_stemmer=True)

    def __call__(self, targets: list[str], summary: str) -> tuple[float, float, float]:
        found = [self._scorer.score(target, summary) for target in targets]
        best = max(found, key=lambda scores: scores["rouge1"].fmeasure)
        one, two, longest = (100 * best[kind].fmeasure for kind in KINDS)
        return one, two, longest


def lead(count: int) -> Way:
    """The first sentences."""
    return lambda pairs: [" ".join(pair.sentences[:count]) for pair in pairs]


def best_sentence(score: Scorer) -> Way:
    """The sentence that is most like the answer."""
    return lambda pairs: [max(pair.sentences, key=lambda one: score(pair.targets, one)[0]) for pair in pairs]


def extracts(length: str) -> Way:
    """What --extract writes."""
    encoder = open_encoder()
    return lambda pairs: [taken(pair.text, length, encoder).text for pair in pairs]


def written(model: str, length: str, batch: int) -> Way:
    """What a model writes."""
    summarizer = Summarizer(open_model(model), length, batch)

    def write(pairs: list[Pair]) -> list[str]:
        tasks = [summarizer.task(pair.text) for pair in pairs]
        summarizer.run(tasks)
        return [task.text or "" for task in tasks]

    return write


class Kept:
    """Summaries in a file, by way, length and document."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
        self._known = {row["key"]: row["summary"] for row in map(json.loads, lines)}

    def summaries(self, name: str, way: Callable[[], Way], pairs: list[Pair], some: int) -> tuple[list[str], float]:
        """All summaries, and how many seconds those took that were not there; a model is opened when it is needed."""
        keys = [f"{name} {hashlib.sha256(pair.text.encode()).hexdigest()[:16]}" for pair in pairs]
        waiting = [(key, pair) for key, pair in zip(keys, pairs, strict=True) if key not in self._known]
        write = way() if waiting else None
        begun = time.perf_counter()
        for first in range(0, len(waiting), some):
            assert write is not None
            chosen = waiting[first : first + some]
            for (key, _), summary in zip(chosen, write([pair for _, pair in chosen]), strict=True):
                self._keep(key, summary)
            print(f"{name}: {min(first + some, len(waiting))} of {len(waiting)}", end="\r", file=sys.stderr, flush=True)
        return [self._known[key] for key in keys], (time.perf_counter() - begun) / max(1, len(waiting))

    def _keep(self, key: str, summary: str) -> None:
        self._known[key] = summary
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "summary": summary}, ensure_ascii=False) + "\n")


def arguments() -> argparse.Namespace:
    """The options; --help shows what stands above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path, nargs="?", default=PAIRS)
    parser.add_argument("--model", action="append", default=[], help="a name, directory or file; may be repeated")
    parser.add_argument("--length", default="short", choices=("short", "medium", "long"))
    parser.add_argument("--lead", type=int, default=1, help="how many first sentences")
    parser.add_argument("--first", type=int, help="only so many documents")
    parser.add_argument("--batch", type=int, default=8, help="documents that a model reads at a time")
    parser.add_argument("--keep", type=Path, help="a JSONL file for the summaries")
    parser.add_argument("--source", default="source", help="the column of documents")
    parser.add_argument("--target", default="target", help="the column of summaries")
    return parser.parse_args()


def main() -> None:
    """Write, score, tell."""
    asked = arguments()
    if not asked.pairs.exists():
        print(f"{asked.pairs}: is not there; give a JSONL file of pairs")
        return
    pairs = list(read_pairs(asked.pairs, asked.source, asked.target))[: asked.first]
    score, kept = Scorer(), Kept(asked.keep)
    ways: dict[str, Callable[[], Way]] = {
        f"Lead-{asked.lead}": lambda: lead(asked.lead),
        f"--extract {asked.length}": lambda: extracts(asked.length),
        "best single sentence": lambda: best_sentence(score),
    }
    for model in asked.model:
        ways[f"{model} {asked.length}"] = lambda model=model: written(model, asked.length, asked.batch)
    table = Table("summary", "ROUGE-1", "ROUGE-2", "ROUGE-L", "words", "s a document")
    for name, way in ways.items():
        summaries, seconds = kept.summaries(name, way, pairs, 4 * asked.batch)
        scores = [score(pair.targets, summary) for pair, summary in zip(pairs, summaries, strict=True)]
        figures: list[Any] = [f"{mean(column):.1f}" for column in zip(*scores, strict=True)]
        table.add(name, *figures, f"{mean(len(text.split()) for text in summaries):.1f}", f"{seconds:.3f}")
    print(f"{len(pairs)} documents; {machine()}\n\n{table}")


if __name__ == "__main__":
    main()
