"""CoNLL-U and its extension CoNLL-U-Lex, read with the `conllu` library after the checks that it leaves out."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from headwise.analysis.atlas.sentence import CorpusError, Sentence, Word
from headwise.errors import HeadwiseError

_PLAIN = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_LEX = ("smwe", "lexcat", "lexlemma", "ss", "ss2", "wmwe", "wcat", "wlemma", "lextag")
COLUMNS = {10: _PLAIN, 19: (*_PLAIN, *_LEX)}
"""How many columns there may be, and what they hold."""
_KEPT = {name: name for name in ("lemma", "upos", "xpos", "deprel", "lexcat")} | {"ss": "supersense", "ss2": "function"}


def read_tree(file: str, line: int, block: str, columns: int) -> Sentence:
    """One sentence of a treebank."""
    lines = block.split("\n")
    comments = {key: value for key, value in map(_comment, lines) if key}
    rows = [(line + at, text) for at, text in enumerate(lines) if not text.startswith("#")]
    for number, text in rows:
        _check_row(file, number, text, columns)
    tokens = _parsed(file, rows, columns)
    plain = [at for at, token in enumerate(tokens) if isinstance(token["id"], int)]
    for place, at in enumerate(plain, start=1):
        if tokens[at]["id"] != place:
            raise CorpusError(file, rows[at][0], f"id: got {tokens[at]['id']}, wanted {place}")
    if not plain:
        raise CorpusError(file, line, "holds no word")
    heads = _heads(file, [(rows[at][0], tokens[at]) for at in plain])
    text_line = line + next((at for at, text in enumerate(lines) if _comment(text)[0] == "text"), 0)
    if "\t" in comments.get("text", ""):
        raise CorpusError(file, text_line, "text: holds a tab")
    surfaces = _surfaces(file, rows, tokens)
    text = comments.get("text") or " ".join(surface.form for surface in surfaces)
    places, problem = _places(text, surfaces)
    words = tuple(
        Word(tokens[at]["form"], *places.get(number, (0, 0)), heads[number], _kept(tokens[at]), _features(tokens[at]))
        for number, at in enumerate(plain)
    )
    return Sentence(file, line, comments.get("sent_id", f"line {line}"), text, words, problem=problem)


def _comment(line: str) -> tuple[str, str]:
    if not line.startswith("#"):
        return "", ""
    key, _, value = line[1:].partition("=")
    return key.strip(), value.strip()


def _check_row(file: str, line: int, text: str, columns: int) -> None:
    """What the library would read otherwise than it stands there."""
    fields = text.split("\t")
    if len(fields) != columns:
        raise CorpusError(file, line, f"has {len(fields)} columns, wanted {columns}")
    for name, field in zip(COLUMNS[columns], fields, strict=True):
        if not field.strip():
            raise CorpusError(file, line, f"{name}: is empty, wanted _ where there is nothing")
        if "  " in field:
            raise CorpusError(file, line, f"{name}: holds two spaces in a row")


def _parsed(file: str, rows: list[tuple[int, str]], columns: int) -> list[Mapping[str, Any]]:
    try:
        from conllu import parse
        from conllu.exceptions import ParseException
    except ImportError:
        raise HeadwiseError("a treebank is read with conllu: pip install 'headwise[corpora]'") from None
    fields = COLUMNS[columns]
    try:
        (tokens,) = parse("\n".join(text for _, text in rows), fields=fields)
        return list(tokens)
    except ParseException:
        for number, text in rows:
            try:
                parse(text, fields=fields)
            except ParseException as error:
                raise CorpusError(file, number, str(error).rstrip(".")) from None
        raise


def _heads(file: str, tokens: list[tuple[int, Mapping[str, Any]]]) -> list[int]:
    """The number of each word's head, -1 for a root; all must hang on a root."""
    heads: list[int] = []
    for line, token in tokens:
        head = token["head"]
        if head is None or not 0 <= head <= len(tokens) or head == token["id"]:
            raise CorpusError(file, line, f"head: got {'_' if head is None else head}, wanted another word, or 0")
        heads.append(head - 1)
    rooted = {-1}
    for number, (line, _) in enumerate(tokens):
        path: list[int] = []
        at = number
        while at not in rooted:
            if at in path:
                raise CorpusError(file, line, f"head: word {number + 1} hangs on itself, by way of others")
            path.append(at)
            at = heads[at]
        rooted.update(path)
    return heads


class _Surface(NamedTuple):
    """A form as it is written, and the words it stands for: one, or those of a contraction."""

    form: str
    first: int
    forms: list[str]


def _surfaces(file: str, rows: list[tuple[int, str]], tokens: list[Mapping[str, Any]]) -> list[_Surface]:
    """What stands in the text, in order."""
    forms = [token["form"] for token in tokens if isinstance(token["id"], int)]
    surfaces: list[_Surface] = []
    covered = 0
    for (line, _), token in zip(rows, tokens, strict=True):
        name = token["id"]
        if isinstance(name, tuple) and name[1] == "-":
            if name[0] <= covered or name[2] > len(forms):
                raise CorpusError(file, line, f"id: {name[0]}-{name[2]} does not fit the words")
            surfaces.append(_Surface(token["form"], name[0] - 1, forms[name[0] - 1 : name[2]]))
            covered = name[2]
        elif isinstance(name, int) and name > covered:
            surfaces.append(_Surface(token["form"], name - 1, [token["form"]]))
        elif name is None:
            raise CorpusError(file, line, "id: is missing")
    return surfaces


def _places(text: str, surfaces: list[_Surface]) -> tuple[dict[int, tuple[int, int]], str | None]:
    """Where each word stands; those of a contraction that is not their forms side by side share its place."""
    places: dict[int, tuple[int, int]] = {}
    at = 0
    for surface in surfaces:
        start = text.find(surface.form, at)
        if start < 0 or text[at:start].strip():
            return {}, f"{surface.form!r} does not follow in the text"
        at = start + len(surface.form)
        split = "".join(surface.forms) == surface.form
        for word, form in enumerate(surface.forms, start=surface.first):
            end = start + len(form) if split else at
            places[word] = (start, end)
            start = end if split else start
    return places, None


def _kept(token: Mapping[str, Any]) -> dict[str, str]:
    return {name: token[column] for column, name in _KEPT.items() if token.get(column) not in (None, "_")}


def _features(token: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in (token["feats"] or {}).items()}
