"""An explanation as JSON, with full precision (docs/explanation.schema.json has the schema)."""

import json
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from headwise.views.explanation import Explanation

SCHEMA = "headwise-explanation/1"


def to_json(explanation: Explanation) -> str:
    """One JSON object; -∞ and what is no number are null."""
    return json.dumps({"schema": SCHEMA, **_plain(explanation)}, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
