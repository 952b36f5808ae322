"""The rotary fields of a configuration: rope_theta and rope_scaling as older files have it, or rope_parameters."""

from __future__ import annotations

from typing import Any

from headwise.attention.scaling import RotaryScaling
from headwise.families.fields import Fields
from headwise.transformer.config import Positions


def read_rope(fields: Fields, context: int) -> Positions:
    """The positions of a stack that rotates its queries and keys."""
    newer, older = fields.part("rope_parameters"), fields.part("rope_scaling")
    base = fields.number("rope_theta", 10000.0, low=1.0)
    fields.must_be("rope_interleaved", False)
    part = newer or older
    dims = None
    if part is not None:
        base = part.number("rope_theta", base, low=1.0)
        if part.number("partial_rotary_factor", 1.0, high=1.0) != 1.0:
            raise fields.error("partial_rotary_factor", "wanted 1: the heads of these families are turned whole")
    scaling = None if part is None else _scaling(part, context)
    return Positions(kind="rotary", count=context, base=base, dims=dims, scaling=scaling)


def _scaling(part: Fields, context: int) -> RotaryScaling | None:
    kind = part.get("rope_type") or part.get("type") or "default"
    if kind == "default":
        return None
    if kind not in ("linear", "dynamic", "llama3", "yarn"):
        known = "default, linear, dynamic, llama3, yarn"
        raise part.error("rope_type", f"got {str(kind)[:40]!r}, wanted one of {known}")
    factor = part.number("factor", 1.0)
    original = part.size("original_max_position_embeddings", context)
    if kind == "linear":
        scaling = RotaryScaling("linear", factor, original)
    elif kind == "dynamic":
        scaling = RotaryScaling("dynamic", factor, original)
    elif kind == "llama3":
        low, high = part.number("low_freq_factor", 1.0), part.number("high_freq_factor", 4.0)
        scaling = RotaryScaling("llama3", factor, original, low, high)
    else:
        scaling = _yarn(part, factor, original)
    if scaling.kind in ("llama3", "yarn") and scaling.low >= scaling.high:
        raise part.error("rope_parameters", f"got the bounds {scaling.low:g} and {scaling.high:g}, wanted them to rise")
    part.done()
    return scaling


def _yarn(part: Fields, factor: float, original: int) -> RotaryScaling:
    slow, fast = part.number("beta_slow", 1.0), part.number("beta_fast", 32.0)
    given = part.get("attention_factor")
    attention = None if given is None else part.number("attention_factor", 1.0)
    for name in ("mscale", "mscale_all_dim"):
        part.must_be(name, 0)
    truncate = part.flag("truncate", True)
    return RotaryScaling("yarn", factor, original, slow, fast, attention, truncate=truncate)


def write_rope(positions: Positions) -> dict[str, Any]:
    """Both spellings, so that older and newer versions of the reference library read it."""
    scaling = positions.scaling
    if scaling is None:
        return {"rope_theta": positions.base, "rope_parameters": _with_base(positions, {"rope_type": "default"})}
    fields: dict[str, Any] = {"rope_type": scaling.kind, "factor": scaling.factor}
    if scaling.kind in ("llama3", "yarn", "dynamic"):
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
