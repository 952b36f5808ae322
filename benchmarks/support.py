"""How well the support rule tells summaries of a document from what was made up.

    python benchmarks/support.py pairs.jsonl.gz --first 300

The pairs are those of benchmarks/summaries.py. Judged are, for each document, the summary that people wrote of it, the
one they wrote of the document most like it, the one of a document far from it, and its own with one name or number
exchanged. The share that is called supported should be high for the first and low for the others; of the first some
are rightly refused, for people know more than the document says.
"""

import argparse
import random
import re
import sys
from pathlib import Path
from statistics import mean

import torch

sys.path.insert(0, str(Path(__file__).parent))
from measure import Table
from summaries import PAIRS, Pair, read_pairs

from headwise.generation import support
from headwise.generation.sentences import sentences
from headwise.generation.summarize import open_encoder
from headwise.transformer.model import Encoder

FAR = 37
TRIES = 3


def exchanged(summary: str, document: list[str], others: list[str], seed: int) -> str | None:
    """The summary with one of the document's names or numbers exchanged; None where it has none."""
    drawn = random.Random(seed)
    said = " ".join(document)
    known = [token for token in support.names_and_numbers(summary) if token in said]
    if not known:
        return None
    old = drawn.choice(known)
    new = str(drawn.randint(11, 999)) if old[0].isdigit() else drawn.choice(others)
    made = re.sub(re.escape(old), new, summary, count=1)
    return None if new in said else made


class Judge:
    """The rule on these documents, whose vectors are computed once."""

    def __init__(self, documents: list[list[str]], encoder: Encoder) -> None:
        self.documents, self._encoder = documents, encoder
        self._vectors = [support.embed(document, encoder) for document in documents]

    def share(self, summaries: list[tuple[str, int]]) -> float:
        """How many of these, each of the document with this number, are called supported, in per cent."""
        vectors = support.embed([summary for summary, _ in summaries], self._encoder)
        return 100 * mean(
            bool(support.judge_one(summary, self.documents[number], self._vectors[number] @ vector).supported)
            for (summary, number), vector in zip(summaries, vectors, strict=True)
        )

    def likest(self) -> list[int]:
        """For each document the one whose mean vector is most like its own."""
        means = torch.nn.functional.normalize(torch.stack([one.mean(0) for one in self._vectors]), dim=-1)
        return (means @ means.T).fill_diagonal_(-1).argmax(1).tolist()


def cases(pairs: list[Pair], judge: Judge) -> dict[str, list[tuple[str, int]]]:
    """What is judged, and the number of the document it is held against."""
    own = [pair.targets[0] for pair in pairs]
    names = [token for one in own for token in support.names_and_numbers(one) if not token[0].isdigit()]
    changed = [
        (made, number)
        for number, summary in enumerate(own)
        for turn in range(TRIES)
        if (made := exchanged(summary, judge.documents[number], names, TRIES * number + turn)) is not None
    ]
    return {
        "its own": [(summary, number) for number, summary in enumerate(own)],
        "of the document most like it": [(own[other], number) for number, other in enumerate(judge.likest())],
        "of a document far from it": [(own[(number + FAR) % len(own)], number) for number in range(len(own))],
        "its own, a name or number exchanged": changed,
    }


def main() -> None:
    """Judge, count, tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path, nargs="?", default=PAIRS)
    parser.add_argument("--first", type=int, default=300, help="only so many documents")
    asked = parser.parse_args()
    if not asked.pairs.exists():
        print(f"{asked.pairs}: is not there; give a JSONL file of pairs")
        return
    pairs = list(read_pairs(asked.pairs, "source", "target"))[: asked.first]
    judge = Judge([sentences(pair.text) for pair in pairs], open_encoder())
    table = Table("the summary judged", "how many", "called supported, %")
    for name, judged in cases(pairs, judge).items():
        table.add(name, len(judged), f"{judge.share(judged):.1f}")
    print(f"{len(pairs)} documents\n\n{table}")


if __name__ == "__main__":
    main()
