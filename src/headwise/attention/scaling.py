"""How rotary angles are stretched; apart from the rest, because a configuration is read without torch."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class RotaryScaling:
    """How the angles are stretched for texts longer than those of training."""

    kind: Literal["linear", "dynamic", "llama3", "yarn", "divided"]
    factor: float
    original: int
    """The number of positions of the training."""
    low: float = 1.0
    """llama3: low_freq_factor; yarn: beta_slow (turns over the original length)."""
    high: float = 4.0
    """llama3: high_freq_factor; yarn: beta_fast."""
    attention_factor: float | None = None
    """yarn: what cos and sin are multiplied with; None: 0.1 ln(factor) + 1."""
    divisors: tuple[float, ...] = ()
    """divided: what the angle of each pair of dimensions is divided by, as GGUF files state it."""
    truncate: bool = True
    """yarn: round the range of dimensions that are blended outward to whole ones."""
