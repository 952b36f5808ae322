"""Where each token stands and which of them are learned, for each task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from headwise.checkpoints.tokenizer import Tokenizer
from headwise.errors import RecipeError
from headwise.training.recipe import Recipe
from headwise.training.tokens import Ids, Tokens

IGNORED = -100
"""The label of a position that is not learned."""
Columns = Mapping[str, Tokens]
Rows = Sequence[Sequence[int]]
"""A batch: in each of its rows the examples that stand there, by number."""


@dataclass(frozen=True)
class Batch:
    """What the model is given by name, and the token that is right at each position of its last stack."""

    inputs: dict[str, Tensor]
    labels: Tensor

    def to(self, device: torch.device) -> Batch:
        """The same on a device."""
        return Batch({name: tensor.to(device) for name, tensor in self.inputs.items()}, self.labels.to(device))


@dataclass
class Cuts:
    """How many texts were longer than the recipe allows: cut at the end, or, where all of it is learned, divided."""

    cut: int = 0
    divided: int = 0


class Layout(Protocol):
    """How one task lays out its examples."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of ids that an example has."""
        ...

    def encode(self, texts: Sequence[Mapping[str, str]], cuts: Cuts) -> dict[str, list[list[int]]]:
        """The ids of several rows, by column; a text may become several examples."""
        ...

    def collate(self, rows: Rows, columns: Columns, draw: int) -> Batch:
        """The tensors of a batch; `draw` seeds what is drawn, for each example apart."""
        ...


def make_layout(recipe: Recipe, tokenizer: Tokenizer) -> Layout:
    """The layout of the recipe's task."""
    kinds = {"language-model": Continued, "summarize": Summarized, "translate": Translated, "masked-words": Masked}
    return kinds[recipe.task](recipe, tokenizer)


class _Base:
    def __init__(self, recipe: Recipe, tokenizer: Tokenizer) -> None:
        self.data, self.tokenizer = recipe.data, tokenizer
        self.seed = recipe.seed
        if tokenizer.end_id is None:
            raise RecipeError(tokenizer.where, "tokenizer", "has no token that ends a text")
        self.end: int = tokenizer.end_id
        self.fill: int = self.end if tokenizer.pad_id is None else tokenizer.pad_id

    def _closed(self, text: str) -> list[int]:
        """The ids of a text with what the tokenizer puts around it, and one end."""
        ids = self.tokenizer.encode(text)
        return ids if ids[-1:] == [self.end] else [*ids, self.end]

    def _target(self, texts: Sequence[str], cuts: Cuts) -> list[list[int]]:
        """The ids of targets, cut where they are too long, and their end."""
        most = self.data.longest_target
        rows = self.tokenizer.encode_many(texts, special=False)
        cuts.cut += sum(len(ids) > most for ids in rows)
        return [[*ids[:most], self.end] for ids in rows]


class Continued(_Base):
    """A language model: every token but the first is learned. Longer texts are divided, and share one token."""

    columns = ("text",)

    def encode(self, texts: Sequence[Mapping[str, str]], cuts: Cuts) -> dict[str, list[list[int]]]:
        found: list[list[int]] = []
        for ids in self.tokenizer.encode_many([row["text"] for row in texts]):
            whole = ids if ids[-1:] == [self.end] else [*ids, self.end]
            cuts.divided += len(whole) > self.data.length + 1
            starts = range(0, max(len(whole) - 1, 1), self.data.length)
            found += [whole[start : start + self.data.length + 1] for start in starts]
        return {"text": [ids for ids in found if len(ids) > 1]}

    def collate(self, rows: Rows, columns: Columns, draw: int) -> Batch:
        return packed([[(columns["text"][one], 1) for one in row] for row in rows], self.fill)


class Summarized(_Base):
    """`article <sep> summary <eos>` in one sequence; the summary and its end are learned."""

    columns = ("source", "target")

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer) -> None:
        super().__init__(recipe, tokenizer)
        self.separator = tokenizer.encode(recipe.data.separator, special=False)
        if not self.separator:
            raise RecipeError(tokenizer.where, "data.separator", f"{recipe.data.separator!r} is no token of it")

    def encode(self, texts: Sequence[Mapping[str, str]], cuts: Cuts) -> dict[str, list[list[int]]]:
        most = self.data.longest_source
        sources = self.tokenizer.encode_many([self.data.prefix + row["source"] for row in texts])
        # An end that the tokenizer adds belongs behind the summary.
        sources = [ids[:-1] if ids[-1:] == [self.end] else ids for ids in sources]
        cuts.cut += sum(len(ids) > most for ids in sources)
        return {
            "source": [[*ids[:most], *self.separator] for ids in sources],
            "target": self._target([row["target"] for row in texts], cuts),
        }

    def collate(self, rows: Rows, columns: Columns, draw: int) -> Batch:
        def sequence(one: int) -> tuple[Ids, int]:
            source = columns["source"][one]
            return np.concatenate([source, columns["target"][one]]), len(source)

        return packed([[sequence(one) for one in row] for row in rows], self.fill)


class Translated(_Base):
    """An encoder-decoder: the source is read; the target is written after the start, each of its tokens learned."""

    columns = ("source", "target")

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, start: int | None = None) -> None:
        super().__init__(recipe, tokenizer)
        self.start = start if start is not None else tokenizer.begin_id if tokenizer.begin_id is not None else self.end

    def encode(self, texts: Sequence[Mapping[str, str]], cuts: Cuts) -> dict[str, list[list[int]]]:
        most = self.data.longest_source
        sources: list[list[int]] = []
        for ids in self.tokenizer.encode_many([self.data.prefix + row["source"] for row in texts]):
            cuts.cut += len(ids) > most
            closed = ids[-1] in self.tokenizer.special_ids if ids else False
            sources.append(ids if len(ids) <= most else [*ids[: most - closed], *ids[len(ids) - closed :]])
        return {"source": sources, "target": self._target([row["target"] for row in texts], cuts)}

    def collate(self, rows: Rows, columns: Columns, draw: int) -> Batch:
        chosen = [one for row in rows for one in row]
        targets = [columns["target"][one] for one in chosen]
        source, real = filled([columns["source"][one] for one in chosen], self.fill)
        labels, learned = filled(targets, IGNORED)
        written, _ = filled([np.concatenate([[self.start], target[:-1]]) for target in targets], self.fill)
        inputs = {"source": source, "target": written}
        if not bool(real.all()):
            inputs["source_padding"] = real
        return Batch(inputs, labels.masked_fill(~learned, IGNORED))


class Masked(_Base):
    """Words to be guessed (Devlin et al. 2019): of those drawn 80 % are masked, 10 % exchanged, 10 % left."""

    columns = ("text",)

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer) -> None:
        super().__init__(recipe, tokenizer)
        if tokenizer.mask_id is None:
            raise RecipeError(tokenizer.where, "tokenizer", "has no token that masks a word")
        self.mask: int = tokenizer.mask_id
        self.special = np.array(sorted(tokenizer.special_ids))

    def encode(self, texts: Sequence[Mapping[str, str]], cuts: Cuts) -> dict[str, list[list[int]]]:
        rows = self.tokenizer.encode_many([row["text"] for row in texts])
        cuts.cut += sum(len(ids) > self.data.length for ids in rows)
        return {"text": [[*ids[: self.data.length - 1], ids[-1]] for ids in rows]}

    def collate(self, rows: Rows, columns: Columns, draw: int) -> Batch:
        hidden: list[Ids] = []
        right: list[Ids] = []
        for one in (one for row in rows for one in row):
            ids = columns["text"][one]
            shown, labels = self._masked(ids, np.random.default_rng([self.seed, draw, one]))
            hidden.append(shown)
            right.append(labels)
        ids, real = filled(hidden, self.fill)
        labels, _ = filled(right, IGNORED)
        return Batch({"ids": ids} if bool(real.all()) else {"ids": ids, "padding": real}, labels)

    def _masked(self, ids: Ids, random: np.random.Generator) -> tuple[Ids, Ids]:
        may = np.flatnonzero(~np.isin(ids, self.special))
        count = min(len(may), max(1, round(len(may) * self.data.masked)))
        chosen = random.choice(may, count, replace=False) if count else may
        shown, labels = ids.copy(), np.full_like(ids, IGNORED)
        labels[chosen] = ids[chosen]
        kind = random.random(len(chosen))
        shown[chosen[kind < 0.8]] = self.mask
        exchanged = chosen[(kind >= 0.8) & (kind < 0.9)]
        shown[exchanged] = random.integers(0, self.tokenizer.vocabulary_size, len(exchanged))
        return shown, labels


def packed(rows: Sequence[Sequence[tuple[Ids, int]]], fill: int) -> Batch:
    """Sequences side by side; in each, what stands from the given place on is learned from what stands before it."""
    width = max(sum(len(ids) - 1 for ids, _ in row) for row in rows)
    ids = np.full((len(rows), width), fill, dtype=np.int64)
    labels = np.full((len(rows), width), IGNORED, dtype=np.int64)
    documents = np.full((len(rows), width), -1, dtype=np.int64)
    for number, row in enumerate(rows):
        at = 0
        for document, (sequence, first) in enumerate(row):
            end = at + len(sequence) - 1
            ids[number, at:end] = sequence[:-1]
            labels[number, at + first - 1 : end] = sequence[first:]
            documents[number, at:end] = document
            at = end
    inputs = {"ids": torch.from_numpy(ids)}
    # A row of one text needs no numbers, and causal attention alone is faster.
    if any(len(row) > 1 for row in rows):
        inputs["documents"] = torch.from_numpy(documents)
    return Batch(inputs, torch.from_numpy(labels))


def filled(rows: Sequence[Ids], fill: int) -> tuple[Tensor, Tensor]:
    """Rows as a rectangle, filled at their ends, and where the tokens are."""
    width = max(map(len, rows))
    ids = np.full((len(rows), width), fill, dtype=np.int64)
    real = np.zeros((len(rows), width), dtype=bool)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = row
        real[number, : len(row)] = True
    return torch.from_numpy(ids), torch.from_numpy(real)
