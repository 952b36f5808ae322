"""Settings: how one text is written, from the caller's wishes and, where they are silent, the model's own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headwise.generation.own import Own

DEFAULT_TOKENS = 256


@dataclass(frozen=True)
class Settings:
    """How a text is written; the defaults are greedy choice until the model ends."""

    max_tokens: int | None = None
    """None: what the model asks for, or as many as fit, 256 at most."""
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    no_repeat_ngram: int = 0
    stop: tuple[str, ...] = ()
    seed: int | None = None
    beams: int = 1
    length_penalty: float = 1.0
    early_stopping: bool | str = False
    min_tokens: int = 0
    ignore_end: bool = False
    own: Own = field(default_factory=Own)

    @property
    def ends(self) -> frozenset[int]:
        """The tokens that end a text; none where it goes on past them."""
        return frozenset() if self.ignore_end else self.own.ends


def settle(own: Own, stop: str | Sequence[str], **wishes: Any) -> Settings:
    """The caller's wishes, checked; what is None is taken from the model's own settings, or is the default."""
    defaults: dict[str, Any] = {
        "beams": own.beams,
        "length_penalty": own.length_penalty,
        "early_stopping": own.early_stopping,
        "repetition_penalty": own.repetition_penalty,
        "no_repeat_ngram": own.no_repeat_ngram,
        "min_tokens": own.min_new_tokens,
    }
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    given = {name: value for name, value in wishes.items() if value is not None}
    # Past the end means past the model's own stop strings too.
    stops = stops if given.get("ignore_end") else (*stops, *own.stop)
    settings = Settings(**{**defaults, **given}, stop=stops, own=own)
    _check(settings)
    return settings


def _check(settings: Settings) -> None:
    """Refuse what makes no sense, by name."""
    whole = {"max_tokens": 1, "top_k": 1, "no_repeat_ngram": 0, "beams": 1, "min_tokens": 0, "seed": -(2**63)}
    for name, least in whole.items():
        value = getattr(settings, name)
        if value is not None and (type(value) is not int or value < least):
            wanted = "a whole number" if name == "seed" else f"a whole number of {least} or more"
            raise ValueError(f"{name}: got {value!r}, wanted {wanted}")
    for name, low, high in (
        ("temperature", 0, math.inf),
        ("top_p", 0, 1),
        ("min_p", 0, 1),
        ("repetition_penalty", 0, math.inf),
        ("length_penalty", -math.inf, math.inf),
    ):
        value = getattr(settings, name)
        if value is not None and not (isinstance(value, int | float) and math.isfinite(value) and low <= value <= high):
            raise ValueError(f"{name}: got {value!r}, wanted a number from {low} to {high}")
    for name in ("top_p", "repetition_penalty"):
        if getattr(settings, name) == 0:
            raise ValueError(f"{name}: got 0, wanted more than 0")
    if settings.early_stopping not in (False, True, "never"):
        raise ValueError(f"early_stopping: got {settings.early_stopping!r}, wanted True, False or 'never'")
    if not all(type(text) is str and text for text in settings.stop):
        raise ValueError(f"stop: got {settings.stop!r}, wanted texts that are not empty")
    _check_together(settings)


def _check_together(settings: Settings) -> None:
    if settings.temperature == 0:
        for name in ("top_k", "top_p", "min_p"):
            if getattr(settings, name) is not None:
                raise ValueError(f"{name}: is for sampling, and temperature is 0; wanted a temperature above 0")
    elif settings.beams > 1:
        raise ValueError(f"beams: got {settings.beams} beside temperature {settings.temperature}, wanted one of them")
