"""From a trace to the data of the page: the one place where the two meet."""

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from headwise.errors import HeadwiseError
from headwise.tracing.arrays import Place, Stream
from headwise.tracing.receipt import Receipt
from headwise.tracing.trace import Trace
from headwise.views.page.data import Array, PageData, PagePlace, PageReceipt, PageStream, Values
from headwise.views.page.projected import page_projection
from headwise.views.page.replay import attend
from headwise.views.page.words import words_of

_FACTS = ("source", "architecture", "family", "fingerprint", "file", "dtype", "kernel", "headwise", "torch")
_NAMES = {"source": "model", "fingerprint": "fingerprint of the weights", "file": "file of the weights"}


def page_data(
    trace: Trace,
    *,
    layers: Iterable[int] | None = None,
    heads: Iterable[int] | None = None,
    focus: Values | None = None,
    command: str | None = None,
    prompt: int | None = None,
    model: Any = None,
) -> PageData:
    """What the page shows of a trace; raises ReceiptError where the trace is not what the model computed."""
    wanted_layers, wanted_heads = _chosen(trace, "layers", layers), _chosen(trace, "heads", heads)
    receipt = trace.receipt()
    receipt.require()
    places = [
        _place(place, wanted_heads)
        for place in trace.places.values()
        if wanted_layers is None or place.layer in wanted_layers
    ]
    places = [place for place in places if place.heads]
    if not places:
        raise HeadwiseError("heads: none of these is in the layers chosen")
    streams = {name: _stream(stream, prompt if name == "decoder" else None) for name, stream in trace.streams.items()}
    focus = _within(places, focus) if focus else _telling(places, streams)
    return PageData(
        title=_title(trace),
        streams=streams,
        places=places,
        receipt=_receipt(receipt),
        model={_NAMES.get(name, name): trace.about[name] for name in _FACTS if trace.about.get(name)},
        command=command or _command(trace),
        focus=focus,
        projection=page_projection(trace, model, focus),
    )


def _within(places: Sequence[PagePlace], focus: Values) -> Values:
    """The focus with mode, layer and head of what the page holds, as the page itself opens it."""
    mode = focus.get("mode", places[-1].mode)
    own = [place for place in places if place.mode == mode]
    if not own:
        raise HeadwiseError(f"focus: got mode {mode!r}, this page has {', '.join(sorted({p.mode for p in places}))}")
    place = min(own, key=lambda place: abs(place.layer - focus.get("layer", 0)))
    head = focus.get("head", 0)
    head = head if head in place.heads else place.heads[min(max(0, head), len(place.heads) - 1)]
    return {"token": 0, **focus, "mode": mode, "layer": place.layer, "head": head}


def _chosen(trace: Trace, name: str, numbers: Iterable[int] | None) -> set[int] | None:
    """The numbers asked for, each of which must be there."""
    if numbers is None:
        return None
    there = set(trace.layers) if name == "layers" else set(range(trace.heads))
    wanted = set(numbers)
    if not wanted or not wanted <= there:
        raise HeadwiseError(f"{name}: got {sorted(wanted)}, this trace has {min(there)} to {max(there)}")
    return wanted


def _title(trace: Trace) -> str:
    text = _plain_text(trace) or " ".join(trace.tokens)
    short = text if len(text) <= 60 else text[:59] + "…"
    return f"{short} · headwise"


def _plain_text(trace: Trace) -> str | None:
    """The text between the tokens that the tokenizer added."""
    stream = trace.query_stream(trace.modes[-1])
    if stream.text is None or stream.offsets is None or stream.special is None:
        return stream.text
    own = stream.offsets[~stream.special]
    return stream.text[int(own[0, 0]) : int(own[-1, 1])].strip() if len(own) else stream.text


def _command(trace: Trace) -> str | None:
    """How to have the page again, where model and text are known."""
    text, source = _plain_text(trace), trace.about.get("source")
    if text is None or source is None or len(text) > 2000:
        return None
    return f"headwise explain {shlex.quote(text)} --model {shlex.quote(source)} --page attention.html"


def _stream(stream: Stream, prompt: int | None) -> PageStream:
    tokens = [str(token) for token in stream.tokens]
    special = [False] * len(tokens) if stream.special is None else [bool(one) for one in stream.special]
    offsets = None if stream.offsets is None else [(int(start), int(end)) for start, end in stream.offsets]
    words = words_of(stream.text, tokens, offsets, special)
    if offsets is not None and stream.text is not None:
        offsets = _in_code_units(stream.text, offsets)
    return PageStream(stream.text, tokens, offsets, special, words, prompt)


def _in_code_units(text: str, offsets: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """JavaScript counts signs beyond the first 65,536, such as emoji, as two."""
    at = np.concatenate([[0], np.cumsum([1 + (sign > "\uffff") for sign in text], dtype=np.int64)])
    most = len(text)
    return [(int(at[min(start, most)]), int(at[min(end, most)])) for start, end in offsets]


def _place(place: Place, wanted: set[int] | None) -> PagePlace:
    heads = [head for head in range(place.heads) if wanted is None or head in wanted]
    groups = sorted({place.shared(head) for head in heads})
    steps: dict[str, Array] = {
        "query": _taken(place.query, heads),
        "key": _taken(place.key, groups),
        "value": _taken(place.value, groups),
    }
    if place.bias is not None:
        steps["bias"] = place.bias.values if len(place.bias.values) == 1 else _taken(place.bias.values, heads)
    output: dict[str, Array] = {}
    if place.output_weight is not None and heads:
        blocks = np.stack([_block(place, head) for head in heads])
        steps |= _norms(place, heads, blocks)
        output["output_weight"] = blocks
        if place.output_bias is not None:
            steps["output_bias"] = place.output_bias
        if len(heads) < place.heads and place.output is not None:
            output["output"] = place.output
    replaced = [head for head in heads if head in place.replaced]
    if replaced:
        steps["mixed"] = _taken(place.mixed, replaced)
    flags, mask = dict[str, Array](), place.mask
    if mask.cuts is not None:
        everything = np.arange(place.queries)
        rows = [mask.rows(head, everything, place.queries, place.keys) for head in heads]
        flags["allowed"] = np.stack(rows).astype(np.uint8)
    elif mask.allowed is not None:
        allowed = mask.allowed if len(mask.allowed) == 1 else _taken(mask.allowed, heads)
        flags["allowed"] = allowed.astype(np.uint8)
    if mask.documents is not None:
        flags["documents"] = np.unique(mask.documents, return_inverse=True)[1].astype(np.float32)
    return PagePlace(
        mode=place.mode,
        layer=place.layer,
        heads=heads,
        of=place.heads,
        shared=[groups.index(place.shared(head)) for head in heads],
        scale=place.scale,
        replaced=replaced,
        causal=mask.causal,
        window=mask.window,
        bias_zero=None if place.bias is None else place.bias.zero,
        steps=steps,
        flags=flags,
        output=output,
        input={} if place.input is None else {"input": place.input},
        origin=place,
    )


def _taken(values: Array, rows: Sequence[int]) -> Array:
    """These rows; the array itself where that is all of them, so that what layers share stays shared."""
    return values if list(rows) == list(range(len(values))) else values[list(rows)]


def _block(place: Place, head: int) -> Array:
    """[value_dim, dim]: what this head's z is multiplied with."""
    weight = place.head_output_weight(head)
    assert weight is not None
    return np.ascontiguousarray(weight.T)


def _norms(place: Place, heads: Sequence[int], blocks: Array) -> dict[str, Array]:
    """‖v W_O‖ of each key and ‖z W_O‖ of each query, [head, token]; ‖x W‖² is x·(W Wᵀ)·x."""
    keys: list[Array] = []
    queries: list[Array] = []
    for head, block in zip(heads, blocks.astype(np.float64), strict=True):
        square = block @ block.T
        for found, vectors in ((keys, place.value[place.shared(head)]), (queries, place.mixed[head])):
            found.append(np.sqrt(np.maximum(((vectors @ square) * vectors).sum(axis=-1), 0)))
    return {"key_norms": np.stack(keys), "head_norms": np.stack(queries)}


def _receipt(receipt: Receipt) -> PageReceipt:
    """The worst row of each check and mode."""
    worst: dict[tuple[str, str], Any] = {}
    for row in receipt.rows:
        held = worst.get((row.check, row.mode))
        if held is None or row.error > held.error:
            worst[row.check, row.mode] = row
    rows: list[Values] = [
        {
            "check": row.check,
            "layer": "the model" if row.layer is None else f"{row.mode} {row.layer}",
            "error": float(row.error),
            "allowed": float(row.allowed),
        }
        for row in worst.values()
    ]
    rows += [{"check": text, "layer": "", "error": None, "allowed": None} for text in receipt.missing[:8]]
    return PageReceipt(receipt.ok, rows, max((float(row.error) for row in receipt.rows), default=0.0))


def _telling(places: Sequence[PagePlace], streams: dict[str, PageStream]) -> Values:
    """The word that looks most firmly at another word, in the last mode: what is open first."""
    mode = places[-1].mode
    candidates = [place for place in places if place.mode == mode]
    best: tuple[float, Values] = (-1.0, {"mode": mode, "layer": candidates[-1].layer, "head": 0, "token": 0})
    # The first layer mostly looks by position alone.
    for page_place in candidates[1:] or candidates:
        place = page_place.origin
        counts = _telling_pairs(place, streams)
        offset = 0 if mode == "cross" else place.keys - place.queries
        for head in page_place.heads:
            weights = attend(place, head, len(counts))[0] * counts
            row, key = np.unravel_index(int(weights.argmax()), weights.shape)
            if weights[row, key] > best[0]:
                chosen = {"mode": mode, "layer": place.layer, "head": head, "token": int(row) + offset}
                best = (float(weights[row, key]), chosen)
    return best[1]


def _telling_pairs(place: Place, streams: dict[str, PageStream]) -> Array:
    """[query, key]: which pairs are words that do not stand side by side, for the first queries."""
    looking = streams["encoder" if place.mode == "encoder" else "decoder"]
    looked_at = streams["decoder" if place.mode == "decoder" else "encoder"]
    offset = 0 if place.mode == "cross" else place.keys - place.queries
    here, there = np.arange(min(place.queries, 64)) + offset, np.arange(place.keys)
    asks = np.array([_is_content(looking, int(token)) for token in here])
    answers = np.array([_is_content(looked_at, int(token)) for token in there])
    apart = np.abs(here[:, None] - there) > 1 if place.mode != "cross" else np.True_
    return asks[:, None] & answers & apart


def _is_content(stream: PageStream, token: int) -> bool:
    return token > 0 and not stream.special[token] and stream.tokens[token].strip("# ").isalpha()
