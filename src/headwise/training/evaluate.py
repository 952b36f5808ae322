"""How well a model does on rows it does not learn from."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from headwise.training.distributed import Processes
from headwise.training.layouts import IGNORED, Batch
from headwise.training.plan import make_plan, share
from headwise.training.prepare import Prepared
from headwise.training.recipe import PAIRS, Recipe


@torch.no_grad()
def evaluate(learner: Any, recipe: Recipe, prepared: Prepared, processes: Processes) -> dict[str, float]:
    """Loss per token, perplexity, the share of right words, and for pairs that of targets right in every word.

    A target whose every word is the best one after the right ones before it is what greedy writing gives: `exact`.
    """
    learner.eval()
    loss, words, right, targets, exact = 0.0, 0, 0, 0, 0
    for rows in make_plan(recipe, prepared.validation, None, recipe.run.evaluate_rows):
        own, counts = share(rows, processes.rank, processes.count)
        batch = prepared.layout.collate(own, prepared.validation, 0).to(processes.device)
        total, correct = learner(batch.inputs, batch.labels, judge=True)
        if not counts:
            continue
        learned = batch.labels != IGNORED
        loss += float(total)
        words += int(learned.sum())
        right += int((correct & learned).sum())
        whole = _whole_targets(batch, correct)
        targets += len(whole)
        exact += int(sum(whole))
    learner.train()
    loss, words, right, targets, exact = processes.sum(loss, words, right, targets, exact)
    mean = loss / max(words, 1)
    found = {"validation_loss": mean, "perplexity": math.exp(min(mean, 700)), "accuracy": right / max(words, 1)}
    return found | ({"exact": exact / max(targets, 1)} if recipe.task in PAIRS else {})


def _whole_targets(batch: Batch, correct: Tensor) -> list[bool]:
    """For each text of the batch whether all of its learned words are right."""
    documents = batch.inputs.get("documents")
    if documents is None:
        return correct.all(1).tolist()
    return [
        bool(row[numbers == number].all())
        for row, numbers in zip(correct, documents, strict=True)
        for number in range(int(numbers.max()) + 1)
    ]
