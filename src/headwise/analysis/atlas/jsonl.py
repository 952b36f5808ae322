"""Our own format, into which anything can be turned: a JSON object a line, with text, words, and labelled pairs.

{"text": "Ann called; she was late.", "words": [[0, 3], [4, 10], [12, 15], [16, 19], [20, 24]],
 "pairs": [{"relation": "coreference", "from": 2, "to": [0], "candidates": [0, 1]}], "document": "d1", "id": "s1"}

`words` are spans of characters, in order; `from`, `to` and `candidates` count words from 0. Optional: `document`, `id`,
`candidates`, and `upos`, a part of speech for each word.
"""

import json
from typing import Any

from headwise.analysis.atlas.sentence import CorpusError, Labelled, Sentence, Word

_FIELDS = {"text", "words", "pairs", "document", "id", "upos"}
_OF_PAIR = {"relation", "from", "to", "candidates"}


def read_jsonl(file: str, line: int, raw: str) -> Sentence:
    """One line."""
    try:
        value: Any = json.loads(raw)
    except RecursionError:
        raise CorpusError(file, line, "is nested too deep") from None
    except ValueError as error:
        raise CorpusError(file, line, f"is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise CorpusError(file, line, "wanted a JSON object")
    _check_fields(file, line, "line", value, _FIELDS, {"text", "words"})
    text = value["text"]
    if not isinstance(text, str) or not text.strip():
        raise CorpusError(file, line, "text: wanted some text")
    spans = _spans(file, line, text, value["words"])
    upos = value.get("upos", [""] * len(spans))
    if not isinstance(upos, list) or len(upos) != len(spans) or not all(isinstance(one, str) for one in upos):
        raise CorpusError(file, line, f"upos: wanted a text for each of the {len(spans)} words")
    words = tuple(
        Word(text[start:end], start, end, -1, {"upos": tag} if tag else {})
        for (start, end), tag in zip(spans, upos, strict=True)
    )
    pairs = value.get("pairs", [])
    if not isinstance(pairs, list):
        raise CorpusError(file, line, "pairs: wanted a list")
    labelled = tuple(_pair(file, line, f"pairs[{at}]", pair, len(words)) for at, pair in enumerate(pairs))
    return Sentence(file, line, str(value.get("id", f"line {line}")), text, words, labelled)


def _check_fields(file: str, line: int, where: str, value: Any, known: set[str], needed: set[str]) -> None:
    for name in value:
        if name not in known:
            raise CorpusError(file, line, f"{where}: unknown field {name!r}, wanted {', '.join(sorted(known))}")
    for name in sorted(needed - set(value)):
        raise CorpusError(file, line, f"{where}: {name} is missing")


def _spans(file: str, line: int, text: str, spans: Any) -> list[tuple[int, int]]:
    if not isinstance(spans, list) or not spans:
        raise CorpusError(file, line, "words: wanted a list of [start, end]")
    found: list[tuple[int, int]] = []
    reached = 0
    for at, span in enumerate(spans):
        whole = isinstance(span, list) and len(span) == 2 and all(type(number) is int for number in span)
        if not whole:
            raise CorpusError(file, line, f"words[{at}]: wanted [start, end]")
        start, end = span
        if not 0 <= start < end <= len(text):
            raise CorpusError(
                file, line, f"words[{at}]: [{start}, {end}] is outside the text of {len(text)} characters"
            )
        if start < reached:
            raise CorpusError(file, line, f"words[{at}]: begins before the word in front of it ends")
        found.append((start, end))
        reached = end
    return found


def _pair(file: str, line: int, where: str, pair: Any, words: int) -> Labelled:
    if not isinstance(pair, dict):
        raise CorpusError(file, line, f"{where}: wanted an object")
    _check_fields(file, line, where, pair, _OF_PAIR, {"relation", "from", "to"})
    if not isinstance(pair["relation"], str):
        raise CorpusError(file, line, f"{where}.relation: wanted a name")
    numbers: dict[str, tuple[int, ...]] = {}
    for name in ("from", "to", "candidates"):
        given = pair.get(name, [])
        given = given if isinstance(given, list) else [given]
        for number in given:
            if type(number) is not int or not 0 <= number < words:
                raise CorpusError(file, line, f"{where}.{name}: got {number!r}, wanted a word from 0 to {words - 1}")
        numbers[name] = tuple(given)
    if len(numbers["from"]) != 1 or not numbers["to"]:
        raise CorpusError(file, line, f"{where}: wanted one word as from, and at least one as to")
    if numbers["candidates"] and not set(numbers["to"]) <= set(numbers["candidates"]):
        raise CorpusError(file, line, f"{where}: to is not among the candidates")
    return Labelled(pair["relation"], numbers["from"][0], numbers["to"], numbers["candidates"])
