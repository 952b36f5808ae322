"""BLEU of a trained translator on the part of its data that was held out, and some of its translations.

    python benchmarks/translation.py runs/translate ../shared/data/tatoeba/eng-fra.tsv.gz
    python benchmarks/translation.py runs/translate pairs.tsv.gz --beams 4 --first 500 --keep translations.jsonl

The rows are those of the `data.test` part of the run's recipe: chosen by a hash of the source, never trained on and
never used to choose a checkpoint. A source that occurs with several targets is translated once, and all of them are
its references. BLEU is `sacrebleu`'s (its signature is printed), and so is chrF. --first takes so many, in the order of
their hashes, which is the order of no file.
"""

import argparse
import hashlib
import json
import sys
import time
from pathlib import Path

from sacrebleu.metrics import BLEU, CHRF

sys.path.insert(0, str(Path(__file__).parent))
from measure import machine

import headwise
from headwise.training.prepare import Source, part_rows
from headwise.training.recipe_file import read_recipe


def held_out(run: Path, data: Path) -> dict[str, list[str]]:
    """The sources of the test part and their targets, in the order of a hash."""
    found: dict[str, list[str]] = {}
    for row in part_rows(read_recipe(run / "recipe.toml"), Source(data, skip_bad=True), "test"):
        found.setdefault(row.texts["source"], []).append(row.texts["target"])
    return dict(sorted(found.items(), key=lambda entry: hashlib.sha256(entry[0].encode()).digest()))


def translate(model: headwise.EncoderDecoder, sources: list[str], beams: int, batch: int) -> list[str]:
    """The translations; sources of like length are written together."""
    order = sorted(range(len(sources)), key=lambda number: len(sources[number]))
    written = [""] * len(sources)
    for first in range(0, len(order), batch):
        chosen = order[first : first + batch]
        texts = headwise.generate(model, [sources[number] for number in chosen], beams=beams, batch=batch)
        for number, text in zip(chosen, texts, strict=True):
            written[number] = text
        print(f"{first + len(chosen):,} of {len(order):,}", file=sys.stderr, flush=True)
    return written


def report(sources: list[str], written: list[str], targets: list[list[str]], samples: int) -> None:
    """The scores, and the first translations beside a reference."""
    most = max(map(len, targets))
    # One list for each reference; a source with fewer leaves its place empty.
    references = [[several[number] if number < len(several) else None for several in targets] for number in range(most)]
    for metric in (BLEU(), CHRF()):
        print(f"{metric.corpus_score(written, references)}   ({metric.get_signature()})")
    exact = sum(text in several for text, several in zip(written, targets, strict=True))
    print(f"equal to a reference, letter for letter: {exact} of {len(written)}")
    print("\n| English | written | a reference |\n| --- | --- | --- |")
    for source, text, several in list(zip(sources, written, targets, strict=True))[:samples]:
        print(f"| {source} | {text} | {several[0]} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the directory of a run")
    parser.add_argument("data", type=Path, help="the file it was trained on")
    parser.add_argument("--checkpoint", default="best", help="best or last")
    parser.add_argument("--beams", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--first", type=int, help="only so many sources")
    parser.add_argument("--samples", type=int, default=10, help="translations to print")
    parser.add_argument("--keep", type=Path, help="write all translations here, as JSONL")
    asked = parser.parse_args()
    pairs = held_out(asked.run, asked.data)
    sources = list(pairs)[: asked.first]
    model = headwise.load(asked.run / asked.checkpoint)
    begun = time.perf_counter()
    written = translate(model, sources, asked.beams, asked.batch)
    took = time.perf_counter() - begun
    print(f"{len(sources):,} of {len(pairs):,} sources, {asked.beams} beams, {took:.0f} s; {machine()}")
    if asked.keep:
        lines = [
            json.dumps({"source": source, "written": text, "targets": pairs[source]}, ensure_ascii=False)
            for source, text in zip(sources, written, strict=True)
        ]
        asked.keep.write_text("\n".join(lines) + "\n", encoding="utf-8")
    report(sources, written, [pairs[source] for source in sources], asked.samples)


if __name__ == "__main__":
    main()
