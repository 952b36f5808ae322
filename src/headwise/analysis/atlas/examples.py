"""Sentences for the page: a few of each relation, with every head's answers and where it looks."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.analysis.atlas.batches import Batch, Item, make_batch
from headwise.analysis.atlas.corpora import Chunk
from headwise.analysis.atlas.reader import LENSES, MEASURES, Reader, Tally, answers_of
from headwise.analysis.atlas.results import Atlas
from headwise.analysis.atlas.sentence import Sentence
from headwise.analysis.atlas.worker import Plan, asked_of

OF_EACH = 8
"""Questions of each relation and direction that are shown, where there are so many."""
SHORT = 22
"""Words of a sentence that is easy to look at."""
ROOM = 6_000_000
"""Weights, of all heads and sentences."""
SEARCHED = 4
"""Chunks in which sentences are looked for."""


@dataclass(eq=False)
class Examples:
    """Sentences, their questions, each head's answer, and each head's looks from word to word."""

    sentences: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """where, words, and cases: [relation, way, source, right words]."""
    answers: list[NDArray[np.uint8]] = field(default_factory=list[NDArray[np.uint8]])
    """By sentence, [case, head, lens]."""
    looks: list[NDArray[np.uint8]] = field(default_factory=list[NDArray[np.uint8]])
    """By sentence, [head, word, word] in parts of 255."""


def find_examples(model: Any, plan: Plan, chunks: Iterable[Chunk]) -> Examples:
    """The first short sentences that ask what was not asked often enough; long ones where there are no others."""
    looker = _Looker(model)
    found, asked, room = Examples(), dict[tuple[str, int], int](), ROOM // (looker.layers * looker.heads)
    longer: list[tuple[Sentence, Item]] = []
    for chunk in islice(chunks, SEARCHED):
        for _, sentence, aligned, cases in asked_of(model, plan, chunk, looker.causal):
            if isinstance(aligned, str):
                continue
            item = Item(aligned, cases, [0] * len(cases))
            if len(aligned.units) > SHORT:
                longer.append((sentence, item))
            else:
                room = _take(looker, sentence, item, found, asked, room)
    for sentence, item in sorted(longer, key=lambda one: len(one[1].aligned.units))[: 4 * OF_EACH]:
        room = _take(looker, sentence, item, found, asked, room)
    return found


def _take(
    looker: "_Looker",
    sentence: Sentence,
    item: Item,
    found: Examples,
    asked: dict[tuple[str, int], int],
    room: int,
) -> int:
    """Add the sentence where it asks something new and there is room; gives the room that is left."""
    rows = {(case.relation, case.way) for case in item.cases}
    cost = len(item.aligned.units) ** 2
    if cost > room or len(item.aligned.units) > 255 or all(asked.get(row, 0) >= OF_EACH for row in rows):
        return room
    for row in rows:
        asked[row] = asked.get(row, 0) + 1
    text = sentence.text
    spans: dict[int, tuple[int, int]] = {}
    for word, unit in zip(sentence.words, item.aligned.unit_of, strict=True):
        start, end = spans.get(unit, (word.start, word.end))
        spans[unit] = min(start, word.start), max(end, word.end)
    answers, looks = looker.look(item)
    found.sentences.append(
        {
            "where": f"{sentence.name}",
            "words": [text[start:end] for _, (start, end) in sorted(spans.items())],
            "cases": [[case.relation, case.way, case.source, sorted(case.right)] for case in item.cases],
        }
    )
    found.answers.append(answers)
    found.looks.append(looks)
    return room - cost


class _Looker(Reader):
    """Keeps what the reduction throws away, for one sentence at a time."""

    def look(self, item: Item) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """[case, head, lens] the answers, [head, word, word] the looks."""
        self.found: list[list[Tensor]] = [[], []]
        self.words: list[Tensor] = []
        empty = torch.zeros(0, self.layers * self.heads, len(LENSES), dtype=torch.int32)
        self.read(make_batch([item], self.model.config.pad_id or 0, self.causal), Tally(empty, None, None))
        answers = torch.stack([torch.cat(lens, dim=1) for lens in self.found], dim=-1)
        looks = (torch.cat(self.words) * 255).round().clamp(0, 255)
        return answers.numpy().astype(np.uint8), looks.numpy().astype(np.uint8)

    def count(self, batch: Batch, tally: Tally, words: Tensor, heads: slice, lens: int) -> None:
        """Remember instead of counting."""
        self.found[lens].append(answers_of(batch, words)[batch.case_row])
        if lens == 0:
            self.words.append(words[0])


def page_header(atlas: Atlas, examples: Examples) -> dict[str, Any]:
    """What the page says in words."""
    rows = [asdict(one) for one in atlas.findings]
    names = {(one.relation, one.way): at for at, one in enumerate(atlas.findings)}
    sentences = [
        {**one, "cases": [[names[relation, way], source, right] for relation, way, source, right in one["cases"]]}
        for one in examples.sentences
    ]
    kept = ("model", "sentences", "documents", "words", "unaligned", "layers", "heads", "command", "knockout")
    return {
        "schema": "headwise-atlas-page/1",
        "title": f"headwise atlas: {atlas.about['model'].get('source', 'a model').rsplit('/', 1)[-1]}",
        "about": {name: atlas.about.get(name) for name in kept},
        "rows": rows,
        "relations": dict(atlas.relations),
        "measures": [*MEASURES, "duplicate", "induction", *(["knockout"] if "knockout" in atlas.profiles[0] else [])],
        "profiles": list(atlas.profiles),
        "examples": sentences,
    }


def page_arrays(atlas: Atlas, examples: Examples) -> dict[str, NDArray[Any]]:
    """What it says in numbers: accuracy [row, head, lens], and all answers and looks one after another."""
    heads = int(atlas.about["layers"]) * atlas.heads
    accuracy = np.zeros((len(atlas.findings), heads, len(LENSES)), dtype=np.float32)
    for at, one in enumerate(atlas.findings):
        if (one.relation, one.way) in atlas.cells:
            accuracy[at] = atlas.cells[one.relation, one.way].accuracy
    none = np.zeros(0, dtype=np.uint8)
    return {
        "accuracy": accuracy,
        "answers": np.concatenate([none, *(one.ravel() for one in examples.answers)]),
        "looks": np.concatenate([none, *(one.ravel() for one in examples.looks)]),
    }
