"""The rotary fields of a configuration: rope_theta and rope_scaling as older files have it, or rope_parameters."""

from __future__ import annotations

import math
from typing import Any

from headwise.attention.scaling import RotaryScaling
from headwise.errors import UnsupportedError
from headwise.families.fields import Fields
from headwise.transformer.config import Positions

LEAST = 1e-6
LEAST_BASE = 1.001
"""The logarithm of the base is divided by."""


def read_rope(fields: Fields, context: int) -> Positions:
    """The positions of a stack that rotates its queries and keys."""
    newer, older = fields.part("rope_parameters"), fields.part("rope_scaling")
    base = fields.number("rope_theta", 10000.0, low=LEAST_BASE)
    fields.must_be("rope_interleaved", False)
    fields.must_be("partial_rotary_factor", 1)
    if newer is not None and older is not None:
        for name in older.raw:
            if newer.raw.get(name, older.raw[name]) != older.raw[name]:
                raise fields.error("rope_scaling", f"contradicts rope_parameters: {name[:40]}")
    part = newer or older
    if part is None:
        return Positions(kind="rotary", base=base)
    part.must_be("partial_rotary_factor", 1)
    base = part.number("rope_theta", base, low=LEAST_BASE)
    return Positions(kind="rotary", base=base, scaling=_scaling(part, context))


def _scaling(part: Fields, context: int) -> RotaryScaling | None:
    read = {"default": _none, "linear": _linear, "dynamic": _dynamic, "llama3": _llama3, "yarn": _yarn}
    kind = part.get("rope_type") or part.get("type") or "default"
    part.get("type")
    if not isinstance(kind, str) or kind not in read:
        raise part.error("rope_type", f"got {str(kind)[:40]!r}, wanted one of {', '.join(read)}")
    scaling = read[kind](part, context)
    part.done()
    if scaling is not None and scaling.low >= scaling.high:
        raise part.error("rope_parameters", f"got the bounds {scaling.low:g} and {scaling.high:g}, wanted them to rise")
    return scaling


def _none(part: Fields, context: int) -> None:
    part.number("factor", 1.0)
    part.size("original_max_position_embeddings", context)


# What some files say of the original length for the next two, the reference library does not use.
def _linear(part: Fields, context: int) -> RotaryScaling:
    part.size("original_max_position_embeddings", context)
    return RotaryScaling("linear", _factor(part), context)


def _dynamic(part: Fields, context: int) -> RotaryScaling:
    part.size("original_max_position_embeddings", context)
    return RotaryScaling("dynamic", _factor(part), context)


def _llama3(part: Fields, context: int) -> RotaryScaling:
    original = part.size("original_max_position_embeddings", context)
    low, high = (part.number(f"{name}_freq_factor", None, low=LEAST) for name in ("low", "high"))
    return RotaryScaling("llama3", _factor(part), original, low, high)


def _yarn(part: Fields, context: int) -> RotaryScaling:
    original = part.size("original_max_position_embeddings", context)
    factor = context / original if part.get("factor") is None else _factor(part)
    slow, fast = part.number("beta_slow", 1.0, low=LEAST), part.number("beta_fast", 32.0, low=LEAST)
    one, all_dims = part.number("mscale", 0.0), part.number("mscale_all_dim", 0.0)
    attention = None
    if part.get("attention_factor") is not None:
        attention = part.number("attention_factor", None)
    elif one and all_dims and factor > 1:
        grown = 0.1 * math.log(factor)
        attention = (one * grown + 1) / (all_dims * grown + 1)
    return RotaryScaling("yarn", factor, original, slow, fast, attention, truncate=part.flag("truncate", True))


def _factor(part: Fields) -> float:
    return part.number("factor", None, low=LEAST)


def write_rope(positions: Positions) -> dict[str, Any]:
    """Both spellings, so that older and newer versions of the reference library read it."""
    scaling = positions.scaling
    if scaling is not None and scaling.kind == "divided":
        raise UnsupportedError("rotary angles divided by a table: the reference library has no such configuration")
    if scaling is None:
        return {"rope_theta": positions.base, "rope_parameters": _with_base(positions, {"rope_type": "default"})}
    fields: dict[str, Any] = {"rope_type": scaling.kind, "factor": scaling.factor}
    if scaling.kind in ("llama3", "yarn"):
        fields["original_max_position_embeddings"] = scaling.original
    if scaling.kind == "llama3":
        fields |= {"low_freq_factor": scaling.low, "high_freq_factor": scaling.high}
    if scaling.kind == "yarn":
        fields |= {"beta_slow": scaling.low, "beta_fast": scaling.high, "truncate": scaling.truncate}
        if scaling.attention_factor is not None:
            fields["attention_factor"] = scaling.attention_factor
    return {
        "rope_theta": positions.base,
        "rope_scaling": fields,
        "rope_parameters": _with_base(positions, fields),
    }


def _with_base(positions: Positions, fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "rope_theta": positions.base}
