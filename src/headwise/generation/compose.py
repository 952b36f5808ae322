"""From ids to finished texts: one batch at a time, by drafts or by beams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from headwise.checkpoints.tokenizer import Tokenizer
from headwise.errors import UnsupportedError
from headwise.generation.beams import search
from headwise.generation.draft import Draft, StopGate
from headwise.generation.engine import DecoderEngine, EncoderDecoderEngine, Engine
from headwise.generation.loop import write
from headwise.generation.prompts import Writer, room
from headwise.generation.settings import Settings
from headwise.transformer.model import Decoder

Enough = Callable[[str], int | None]


class Completion(NamedTuple):
    """A finished text, how many tokens it took, and whether it ended by itself."""

    text: str
    tokens: int
    ended: bool


def complete(
    model: Writer,
    prompts: Sequence[list[int]],
    settings: Settings,
    batch: int = 8,
    enough: Enough | None = None,
    tell: Callable[[int], None] | None = None,
) -> list[Completion]:
    """What follows these ids, in their order; those of like length together; `tell` hears of each that is done."""
    # What does not fit is refused before anything is written.
    for ids in prompts:
        room(model, ids, settings)
    done: dict[int, Completion] = {}
    order = sorted(range(len(prompts)), key=lambda number: len(prompts[number]))
    for first in range(0, len(order), batch):
        chosen = order[first : first + batch]
        rows = [prompts[number] for number in chosen]
        write = _by_beams if settings.beams > 1 else _by_drafts
        found = write(model, rows, settings, enough)
        for place, completion in found:
            done[chosen[place]] = completion
            if tell is not None:
                tell(chosen[place])
    return [done[number] for number in range(len(prompts))]


def pieces(
    model: Writer, prompts: Sequence[list[int]], settings: Settings, enough: Enough | None = None
) -> Iterator[tuple[Draft, str]]:
    """The drafts of one batch and their pieces, as they come."""
    most = [room(model, ids, settings) for ids in prompts]
    engine, given = _engine(model, prompts, settings, max(most))
    rows = zip(given, most, strict=True)
    drafts = [Draft(model.tokenizer, begun, settings, count, enough) for begun, count in rows]
    return write(engine, drafts, settings)


def _by_drafts(
    model: Writer, rows: Sequence[list[int]], settings: Settings, enough: Enough | None
) -> Iterator[tuple[int, Completion]]:
    numbers: dict[int, int] = {}
    for draft, _ in pieces(model, rows, settings, enough):
        place = numbers.setdefault(id(draft), len(numbers))
        if draft.done:
            yield place, Completion(draft.text, draft.written.new, draft.ended)


def _by_beams(
    model: Writer, rows: Sequence[list[int]], settings: Settings, enough: Enough | None
) -> Iterator[tuple[int, Completion]]:
    tokenizer: Tokenizer = model.tokenizer
    most = [room(model, ids, settings) for ids in rows]
    engine, given = _engine(model, rows, settings, max(most))

    def cut(ids: list[int]) -> tuple[str, bool]:
        gate = StopGate(settings.stop)
        text = gate.push(tokenizer.decode(ids))
        return text + gate.finish(), gate.shut

    stopped = (lambda ids: cut(ids)[1]) if settings.stop else None
    for place, found in enumerate(search(engine, given, most, settings, stopped)):
        text, shut = cut(found[0].ids)
        end = None if enough is None else enough(text)
        ended = shut or end is not None or found[0].ids[-1] in settings.ends
        yield place, Completion(text[:end], len(found[0].ids), ended)


def _engine(model: Writer, rows: Sequence[list[int]], settings: Settings, most: int) -> tuple[Engine, list[list[int]]]:
    """The engine, and the ids that each text begins with."""
    if isinstance(model, Decoder):
        return DecoderEngine(model, list(rows), most), list(rows)
    start = settings.own.start
    if not start:
        wanted = "wanted decoder_start_token_id in its generation_config.json"
        raise UnsupportedError(f"{model.source or model.config.architecture}: says not how a target begins; {wanted}")
    return EncoderDecoderEngine(model, list(rows), start, most), [list(start)] * len(rows)
