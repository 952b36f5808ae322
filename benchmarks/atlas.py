"""Sentences per second of the atlas against the straightforward way, in one run, on ../shared/data/ewt/dev.conllu.gz.

The straightforward way: transformers with output_attentions=True on 32 sentences at a time, then numpy: each
sentence's weights are merged to words, and the word that each head looks at most is compared with the pairs. Both give
the accuracy of every head for every shipped relation in both directions, by weight, and they are equal; both read the
same file with the same reader, so that only the model and what is done with its attention differ (the atlas also gives
the controls). Extra memory is what the process grows by at its peak, the whole model being in memory before.

    .venv/bin/python benchmarks/atlas.py [sentences]
"""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import Table, compare, machine, peak_memory

import headwise
from headwise.analysis.atlas.corpora import chunks, sentences
from headwise.analysis.atlas.counts import Total
from headwise.analysis.atlas.match import questions
from headwise.analysis.atlas.relations import shipped
from headwise.analysis.atlas.worker import Plan, Worker

CORPUS = Path(__file__).parents[2] / "shared" / "data" / "ewt" / "dev.conllu.gz"
BATCH = 32
ROUNDS = 3


def ours(model: Any, count: int) -> dict[Any, Any]:
    """By row, [head] the accuracy by weight."""
    worker = Worker(model, Plan(shipped(), random=False, shuffle=False, wrote=False, measures=False))
    total = Total(worker.heads)
    for chunk in chunks([CORPUS], limit=count):
        total.add(worker.work(chunk))
    return {row: own.heads["right"].sum(0)[:, 0] / own.pairs.sum() for row, own in total.rows.items()}


def straightforward(model: Any, tokenizer: Any, count: int) -> dict[Any, Any]:
    """The same, as one would write it in an afternoon."""
    right: dict[Any, Any] = {}
    pairs: dict[Any, int] = {}
    for chunk in chunks([CORPUS], BATCH, count):
        texts = [sentence for _, sentence in sentences(chunk)]
        encoded = tokenizer([one.text for one in texts], padding=True, return_offsets_mapping=True, return_tensors="pt")
        offsets = encoded.pop("offset_mapping").numpy()
        with torch.no_grad():
            attentions = model(**encoded, output_attentions=True).attentions
        weights = np.stack([layer.numpy() for layer in attentions], axis=1)
        for number, sentence in enumerate(texts):
            found, unit = one_sentence(weights[number], offsets[number], sentence)
            for asked in questions(sentence, shipped()):
                source = unit[asked.source]
                goals = {unit[word] for word in asked.right} - {source}
                if not goals:
                    continue
                scores = found[:, source].copy()
                scores[:, source] = -1
                row = asked.relation, asked.way
                right[row] = right.get(row, 0) + np.isin(scores.argmax(-1), list(goals))
                pairs[row] = pairs.get(row, 0) + 1
    return {row: right[row] / pairs[row] for row in right}


def one_sentence(weights: Any, offsets: Any, sentence: Any) -> tuple[Any, list[int]]:
    """[head, word, word], sums over the tokens looked at, means over those that look; and each word's number."""
    starts, ends = offsets[:, 0], offsets[:, 1]
    tokens: list[Any] = []
    unit: list[int] = []
    for word in sentence.words:
        own = np.flatnonzero((starts < word.end) & (ends > word.start) & (ends > starts))
        if tokens and np.intersect1d(tokens[-1], own).size:  # "didn" is of did and of n't: they are one
            tokens[-1] = np.union1d(tokens[-1], own)
        else:
            tokens.append(own)
        unit.append(len(tokens) - 1)
    columns = np.stack([weights[..., own].sum(-1) for own in tokens], axis=-1)
    words = np.stack([columns[..., own, :].mean(-2) for own in tokens], axis=-2)
    return words.reshape(-1, *words.shape[-2:]), unit


def open_ours() -> Any:
    return headwise.load("minilm").eval()


def open_theirs() -> tuple[Any, Any]:
    import transformers

    source = headwise.load("minilm").source
    model = transformers.BertModel.from_pretrained(source, attn_implementation="eager").eval()
    return model, transformers.AutoTokenizer.from_pretrained(source)


def measured(which: str, count: int) -> Any:
    """For the measurement of memory: what is to be run, once its whole model is open and has run a few sentences."""
    torch.set_num_threads(2)
    if which == "headwise":
        model = open_ours()
        read_in(model)
        ours(model, 8)
        return lambda: ours(model, count)
    theirs = open_theirs()
    read_in(theirs[0])
    straightforward(*theirs, 8)
    return lambda: straightforward(*theirs, count)


def read_in(model: Any) -> None:
    """Every weight: a mapped file is otherwise read as its words first come, and would count as extra."""
    for parameter in model.parameters():
        parameter.detach().sum()


def main() -> None:
    """Time in turns, memory in fresh processes."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    torch.set_num_threads(2)
    print(machine())
    model, theirs = open_ours(), open_theirs()
    mine, other = ours(model, 200), straightforward(*theirs, 200)
    apart = max(np.abs(mine[row] - other[row]).max() for row in other)
    if mine.keys() != other.keys() or apart > 0:
        raise SystemExit(f"the two do not measure the same: an accuracy on 200 sentences differs by {apart:.2g}")
    print(f"on 200 sentences all {len(other)} rows of accuracies are equal")
    begun = time.perf_counter()
    contenders = {
        "headwise": lambda: ours(model, count),
        "straightforward": lambda: straightforward(*theirs, count),
    }
    # On a shared machine what this process computed says more than how long it waited: --cpu, after the count.
    clock = time.process_time if "--cpu" in sys.argv else time.perf_counter
    result = compare(contenders, rounds=ROUNDS, longest=150, clock=clock)
    memory = {name: peak_memory(__file__, "measured", name, count) for name in contenders}
    table = Table("", "sentences a second", "ratio", "extra memory MB", "ratio")
    slow = memory["straightforward"]
    for name, seconds in result.seconds.items():
        table.add(
            name, count / seconds, 1 / result.ratio(name, "straightforward"), memory[name] / 1e6, memory[name] / slow
        )
    print(table)
    print(f"{len(result.rounds['headwise'])} rounds in {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
