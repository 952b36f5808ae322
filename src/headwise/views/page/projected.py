"""What made q, k and v of the head that is open first: its slices of W_Q, W_K and W_V, and what they were given."""

from typing import Any

import numpy as np

from headwise.errors import HeadwiseError
from headwise.tracing.trace import Trace
from headwise.views.page.data import Array, PageProjection, Values

NO_MODEL = (
    "W_Q, W_K and W_V are not in this page. headwise explain --page puts them in for the head that is open first, "
    "and so does headwise.write_page(trace, path, model=model)."
)


def page_projection(trace: Trace, model: Any, focus: Values) -> PageProjection | str:
    """The projections of the layer and head in focus, or a sentence that says why there are none."""
    if model is None:
        return NO_MODEL
    from headwise.tracing.projections import projections_of

    mode, layer, head = focus["mode"], focus["layer"], focus["head"]
    try:
        found = projections_of(model, trace, mode, layer)
    except HeadwiseError as error:
        return f"W_Q, W_K and W_V are not in this page: {error}."
    place = trace.place(layer, mode)
    arrays: dict[str, Array] = {"given": found.x}
    if found.memory is not found.x and mode == "cross":
        arrays["given_memory"] = found.memory
    norms: Values = {}
    sizes = {"query": place.query.shape[2], "key": place.key.shape[2], "value": place.value.shape[2]}
    for name, dim in sizes.items():
        projection = getattr(found, name)
        own = head if name == "query" else place.shared(head)
        rows = slice(own * dim, (own + 1) * dim)
        arrays[f"{name}_weight"] = projection.weight[rows]
        if projection.bias is not None:
            arrays[f"{name}_bias"] = projection.bias[rows]
        if projection.norm is not None:
            norms[name] = {"kind": projection.norm.kind, "epsilon": projection.norm.epsilon}
            arrays[f"{name}_norm"] = projection.norm.weight
            if projection.norm.bias is not None:
                arrays[f"{name}_norm_bias"] = projection.norm.bias
    if found.cosine is not None and found.sine is not None:
        half = found.cosine.shape[1] // 2
        arrays |= {"cosine": found.cosine[:, :half], "sine": found.sine[:, :half]}
    facts = {"head": head, "rounding": found.rounding, "norms": norms, "error": found.error, "allowed": found.allowed}
    exact = {name: np.ascontiguousarray(values) for name, values in arrays.items()}
    return PageProjection(mode, layer, facts, exact)
