"""A small exercise in attention: numbers that a person can multiply, and the solution by `attention_steps`."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.attention.equation import attention_steps
from headwise.attention.masks import Mask
from headwise.errors import HeadwiseError

Numbers = NDArray[np.float64]

MOST_WORDS, MOST_DIM = 12, 16
_DRAWS = 200
_JOINERS: dict[int, str] = {0x200C: "", 0x200D: ""}


@dataclass(frozen=True)
class Exercise:
    """What the worksheet gives: row vectors, so that q = x·W_Q; the heads stand side by side in the columns."""

    words: tuple[str, ...]
    heads: int
    causal: bool
    embeddings: Numbers
    """[word, dim]."""
    query: Numbers
    """W_Q, [dim, dim]; head h owns the h-th block of columns."""
    key: Numbers
    value: Numbers
    output: Numbers
    """W_O, [dim, dim]; head h owns the h-th block of rows."""


class Solution(NamedTuple):
    """Every step of the exercise, by head."""

    query: Numbers
    """[head, word, head_dim], as are `key` and `value`."""
    key: Numbers
    value: Numbers
    products: Numbers
    """[head, query, key], as are `scaled`, `masked` and `weights`."""
    scaled: Numbers
    masked: Numbers
    weights: Numbers
    weighted: Numbers
    """[head, query, key, head_dim]: each value times its weight."""
    z: Numbers
    """[head, word, head_dim]."""
    joined: Numbers
    """[word, dim]: z of all heads side by side."""
    result: Numbers
    """[word, dim]: joined·W_O."""


def check_sizes(words: tuple[str, ...], dim: int, heads: int) -> None:
    """Raise an error that names what does not fit on a sheet of paper."""
    if not words:
        raise HeadwiseError("text: got no words, wanted at least one")
    if len(words) > MOST_WORDS:
        raise HeadwiseError(f"text: got {len(words)} words, wanted at most {MOST_WORDS} for pencil and paper")
    for word in words:
        if not printable(word):
            raise HeadwiseError(f"text: got the word {word!r}, wanted printable characters")
    if not 1 <= dim <= MOST_DIM:
        raise HeadwiseError(f"dim: got {dim}, wanted 1 to {MOST_DIM} for pencil and paper")
    if heads < 1 or dim % heads:
        raise HeadwiseError(f"heads: got {heads}, wanted a number that divides dim, {dim}")


def printable(word: str) -> bool:
    """Whether a word shows on paper; the two joiners that Persian, Hindi and emoji need are allowed inside it."""
    bare = word.translate(_JOINERS)
    return bool(bare.strip()) and bare.isprintable()


def draw(words: tuple[str, ...], dim: int, heads: int, causal: bool, seed: int, **given: Numbers) -> Exercise:
    """Draw small whole numbers for what is not given, so that no head looks everywhere alike or at one word only."""
    check_sizes(words, dim, heads)
    if seed < 0:
        raise HeadwiseError(f"seed: got {seed}, wanted zero or a positive number")
    random = np.random.default_rng(seed)
    best, fewest = None, np.inf
    for _ in range(_DRAWS):
        exercise = Exercise(words, heads, causal, **(_draw_numbers(random, words, dim) | given))
        flaws = _flaws(exercise, solve(exercise))
        if flaws < fewest:
            best, fewest = exercise, flaws
        if not flaws:
            break
    assert best is not None
    return best


def solve(exercise: Exercise) -> Solution:
    """The solution, in float64, by the same `attention_steps` that everything in headwise is measured against."""
    heads = exercise.heads
    matrices = (exercise.query, exercise.key, exercise.value)
    query, key, value = (_by_head(exercise.embeddings @ matrix, heads) for matrix in matrices)
    as_batch = (torch.from_numpy(part).unsqueeze(0) for part in (query, key, value))
    steps = attention_steps(*as_batch, mask=Mask(causal=exercise.causal))
    products, scaled, masked, weights, z = (step[0].numpy() for step in steps)
    weighted = weights[..., None] * value[:, None]
    joined = np.concatenate(list(z), axis=-1)
    result = joined @ exercise.output
    return Solution(query, key, value, products, scaled, masked, weights, weighted, z, joined, result)


def _by_head(x: Numbers, heads: int) -> Numbers:
    """[word, dim] -> [head, word, head_dim]."""
    return np.ascontiguousarray(x.reshape(len(x), heads, -1).transpose(1, 0, 2))


def _draw_numbers(random: np.random.Generator, words: tuple[str, ...], dim: int) -> dict[str, Numbers]:
    """One embedding per different word, from -1 to 2; matrices of zeros, ones and minus ones."""
    different = list(dict.fromkeys(words))
    vectors = random.integers(-1, 3, (len(different), dim)).astype(np.float64)
    rows = [different.index(word) for word in words]
    matrices = random.choice([-1.0, 0.0, 0.0, 1.0, 1.0], (4, dim, dim))
    return {"embeddings": vectors[rows]} | dict(zip(("query", "key", "value", "output"), matrices, strict=True))


def _flaws(exercise: Exercise, solution: Solution) -> int:
    """How much of it teaches little: weights all alike or on one word, words that ask alike, zero vectors."""
    seen = np.isfinite(solution.masked)
    several, largest = seen.sum(-1) > 1, solution.weights.max(-1)
    dull = several & ((largest < 1.2 / seen.sum(-1)) | (largest > 0.95))
    others = len(set(exercise.words)) > 1
    alike = [others & (part == part[:, :1]).all(axis=(1, 2)) for part in (solution.query, solution.key)]
    empty = [~part.any(-1) for part in (solution.query, solution.key, solution.value)]
    empty += [~exercise.output.any(axis) for axis in (0, 1)]
    return sum(int(flaw.sum()) for flaw in (dull, *alike, *empty))
