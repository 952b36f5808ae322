"""Choosing on one half of the documents and scoring on the other, again and again: nothing scores what chose it."""

from dataclasses import dataclass

import numpy as np

from headwise.tracing.arrays import Array, Truth, Whole


@dataclass(frozen=True, eq=False)
class Halves:
    """Many ways to cut the documents in two; each way is used twice, for choosing on either side."""

    chooses: Truth
    """[fold, block]: True where a block is on the side that chooses."""

    @staticmethod
    def draw(blocks: int, repeats: int, random: np.random.Generator) -> "Halves":
        """Halves of equal size, or nearly."""
        chooses = np.zeros((2 * repeats, blocks), dtype=np.bool_)
        for at in range(repeats):
            chooses[2 * at, random.permutation(blocks)[: blocks // 2]] = True
            chooses[2 * at + 1] = ~chooses[2 * at]
        return Halves(chooses)

    def choose(self, right: Array) -> Whole:
        """[fold]: of contenders [block, contender], the one that is right most often on the side that chooses."""
        return (self.chooses.astype(np.float64) @ right).argmax(axis=1)

    def chosen(self, right: Array, choice: Whole) -> Array:
        """[fold]: how often the chosen one is right on the side that chooses."""
        won = self.chooses.astype(np.float64) @ right
        return won[np.arange(len(choice)), choice]

    def score(self, right: Array, choice: Whole) -> Array:
        """[block]: how often the one that was chosen without this block is right in it, the mean over the folds."""
        held_out = ~self.chooses
        times = np.zeros((right.shape[1], right.shape[0]))
        np.add.at(times, choice, held_out.astype(np.float64))
        return (times.T * right).sum(axis=1) / held_out.sum(axis=0)


def interval(numbers: Array, pairs: Array, draws: Whole, confidence: float = 0.95) -> tuple[float, float]:
    """Between which the ratio of the sums lies when documents [draw, block] are drawn with return."""
    ratios = (draws @ numbers) / np.maximum(draws @ pairs, 1)
    low, high = np.quantile(ratios, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def resample(blocks: int, times: int, random: np.random.Generator) -> Whole:
    """[draw, block]: how often each document is drawn."""
    return random.multinomial(blocks, np.full(blocks, 1 / blocks), size=times)


def luck(right: Array, control: Array, permutations: int, random: np.random.Generator) -> float:
    """The chance that the best of these heads [block, head] beats the control [block] so clearly by luck alone.

    If no head were better, head and control could change places in any document. They do, in all heads alike, so that
    the likeness between heads is kept; the largest lead of any head, in units of its own spread, is compared.
    """
    lead = right - control[:, None]
    spread = np.sqrt((lead**2).sum(axis=0))
    lead = lead[:, spread > 0] / spread[spread > 0]
    if not lead.shape[1]:
        return 1.0
    found = lead.sum(axis=0).max()
    signs = random.integers(0, 2, size=(permutations, len(lead)), dtype=np.int8) * np.int8(2) - np.int8(1)
    largest = (signs.astype(np.float32) @ lead.astype(np.float32)).max(axis=1)
    return float((1 + np.count_nonzero(largest >= np.float32(found) - 1e-5)) / (permutations + 1))


def correct(chances: dict[str, float]) -> dict[str, float]:
    """The same chances, corrected for how many there are (Holm 1979)."""
    corrected: dict[str, float] = {}
    largest = 0.0
    for rank, name in enumerate(sorted(chances, key=lambda name: chances[name])):
        largest = max(largest, min(1.0, chances[name] * (len(chances) - rank)))
        corrected[name] = largest
    return corrected
