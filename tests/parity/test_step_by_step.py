"""Token by token with a cache, the numbers that the reference library gives in one pass."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from reference_models import BOTH, DECODERS, Case, draw, rectangle
from torch import Tensor

# The angles of "dynamic" depend on the length so far, and what is in the cache was turned by earlier ones.
STEADY = [case for case in DECODERS if case.name != "llama-dynamic"]
LENGTHS = (3, 11, 6)


def name(case: Case) -> str:
    return case.name


def in_pieces(call: Callable[[Tensor], Tensor], ids: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """What the model says when the ids come in pieces of these sizes."""
    assert sum(sizes) == ids.shape[1]
    return torch.cat([call(piece) for piece in ids.split(sizes, dim=1)], dim=1)


@pytest.mark.parametrize("capacity", [0, 40])
@pytest.mark.parametrize("case", STEADY, ids=name)
def test_a_decoder(case: Case, capacity: int, pair: Callable[..., Any], close: Callable[..., None]) -> None:
    theirs, ours = pair(case)
    ids, cache = draw(2, 24), ours.new_cache(capacity)
    close(in_pieces(lambda piece: ours(piece, cache=cache), ids, (4, 1, 1, 7, *[1] * 11)), theirs(ids).logits)
    assert cache.seen == 24


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("case", STEADY, ids=name)
def test_a_padded_decoder(case: Case, left: bool, pair: Callable[..., Any], close: Callable[..., None]) -> None:
    theirs, ours = pair(case)
    rows, following = [draw(length, seed=length) for length in LENGTHS], draw(3, 9, seed=5)
    ids, padding = rectangle(rows, left)
    cache = ours.new_cache()
    first = ours(ids, padding, cache)
    if any(ours.config.decoder.windows) and not left:
        with pytest.raises(ValueError, match="on the left"):
            ours(following, cache=cache)
        return
    later = in_pieces(lambda piece: ours(piece, cache=cache), following, (1,) * 9)
    for number, row in enumerate(rows):
        wanted = theirs(torch.cat([row, following[number]])[None]).logits[0]
        close(torch.cat([first[number][padding[number]], later[number]]), wanted)


@pytest.mark.parametrize("case", STEADY, ids=name)
def test_rows_that_change_places(case: Case, pair: Callable[..., Any], close: Callable[..., None]) -> None:
    theirs, ours = pair(case)
    rows, following = [draw(length, seed=length) for length in LENGTHS], draw(4, 8, seed=5)
    cache, chosen = ours.new_cache(), torch.tensor([2, 0, 2, 1])
    ours(*rectangle(rows, left=True), cache)
    cache.reorder(chosen)
    later = in_pieces(lambda piece: ours(piece, cache=cache), following, (3, 1, 1, 1, 1, 1))
    for number, row in enumerate(chosen):
        wanted = theirs(torch.cat([rows[row], following[number]])[None]).logits[0, -8:]
        close(later[number], wanted)


@pytest.mark.parametrize("case", BOTH, ids=name)
def test_an_encoder_decoder(case: Case, pair: Callable[..., Any], close: Callable[..., None]) -> None:
    theirs, ours = pair(case)
    sources, target = [draw(length, seed=length) for length in (17, 4, 11)], draw(3, 20, seed=1)
    source, padding = rectangle(sources, left=False)
    cache, memory = ours.new_cache(), ours.encode(source, padding)
    logits = in_pieces(lambda piece: ours.decode(piece, memory, padding, cache=cache), target, (5, *[1] * 15))
    close(logits, theirs(source, attention_mask=padding.long(), decoder_input_ids=target).logits)
    for number, row in enumerate(sources):
        close(logits[number], theirs(row[None], decoder_input_ids=target[number][None]).logits[0])


@pytest.mark.parametrize("case", BOTH, ids=name)
def test_beams_of_an_encoder_decoder(case: Case, pair: Callable[..., Any], close: Callable[..., None]) -> None:
    theirs, ours = pair(case)
    sources, target = [draw(length, seed=length) for length in (9, 14)], draw(2, 6, seed=1)
    source, padding = rectangle(sources, left=False)
    chosen, cache = torch.tensor([1, 1, 0]), ours.new_cache()
    memory = ours.encode(source, padding)
    ours.decode(target, memory, padding, cache=cache)
    cache.reorder(chosen)
    following = draw(3, 5, seed=2)
    step = lambda piece: ours.decode(piece, memory[chosen], padding[chosen], cache=cache)  # noqa: E731
    later = in_pieces(step, following, (1,) * 5)
    for number, row in enumerate(chosen):
        whole = torch.cat([target[row], following[number]])[None]
        close(later[number], theirs(sources[row][None], decoder_input_ids=whole).logits[0, -5:])
