"""Relations as data: the shipped rules give the pairs that a reader would, and wrong rules are refused by line."""

from pathlib import Path

import pytest
from atlas_models import corpus

from headwise.analysis.atlas.match import questions
from headwise.analysis.atlas.relations import choose_relations, parse_relations, read_relations, shipped
from headwise.analysis.atlas.sentence import CorpusError
from headwise.errors import HeadwiseError

MINE = """[owner]
about = "mine"
names = ["thing", "owner"]
[[owner.rules]]
link = "to hangs on from"
from = { upos = ["NOUN"], features = { Number = ["Sing"] } }
to = { deprel = ["nmod:poss"], not_lemma = ["his"] }
"""


def pairs(name: str) -> set[tuple[str, str]]:
    return {
        (sentence.words[one.source].form.lower(), sentence.words[goal].form)
        for sentence in corpus()
        for one in questions(sentence, shipped())
        for goal in one.right
        if one.relation == name and one.way == 0
    }


def test_shipped_rules_find_the_pairs() -> None:
    assert set(shipped()) >= {
        "subject",
        "object",
        "possession",
        "determiner",
        "adjective",
        "auxiliary",
        "space",
        "time",
    }
    assert set(shipped()) >= {"passive-auxiliary", "conjunct", "coreference"}
    assert {("fed", "farmer"), ("sold", "boy")} <= pairs("subject")
    assert {("gave", "book"), ("sold", "boat")} <= pairs("object")
    assert ("gave", "girl") not in pairs("object")
    assert ("uncle", "his") in pairs("possession")
    assert {("boy", "river"), ("made", "kitchen")} & pairs("space") == {("boy", "river")}
    assert ("brought", "evening") in pairs("time")
    assert ("brought", "evening") not in pairs("space")
    assert ("will", "send") in pairs("auxiliary")


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    relations = choose_relations(["subject", str(path)])
    assert list(relations) == ["subject", "owner"]
    assert relations["owner"].direction(1) == "owner→thing"
    found = {
        (sentence.words[one.source].form, sentence.words[goal].form)
        for sentence in corpus()
        for one in questions(sentence, {"owner": relations["owner"]})
        for goal in one.right
        if one.way == 0
    }
    assert ("sister", "My") in found
    assert not [one for one in found if one[1] == "his"]


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        ("upos", "pos", 6, "unknown field 'pos'"),
        ("link", "lnk", 5, "unknown field 'lnk'"),
        ("to hangs on from", "from to", 5, "link: got 'from to'"),
        ("about =", "abuot =", 2, "unknown field 'abuot'"),
        ('["nmod:poss"]', '"nmod:poss"', 7, "deprel: wanted a list of texts"),
        ('names = ["thing", "owner"]', 'names = ["thing"]', 3, "names: wanted two texts"),
        ('link = "to hangs on from"\n', 'link = "to hangs on from"\nneeds = "sense"\n', 6, "unknown field 'sense'"),
        ("from = {", "from = ", 6, "is not TOML"),
    ],
)
def test_wrong_rules_are_refused_with_file_and_line(old: str, new: str, line: int, problem: str) -> None:
    with pytest.raises(CorpusError) as error:
        parse_relations(MINE.replace(old, new, 1), "mine.toml")
    assert str(error.value).startswith(f"mine.toml:{line}: ")
    assert problem in str(error.value)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="a rule lacks 'link'"):
        parse_relations(MINE.replace('link = "to hangs on from"\n', ""), "mine.toml")
    with pytest.raises(CorpusError, match="holds no relation"):
        parse_relations("", "mine.toml")
    with pytest.raises(HeadwiseError, match=r"wanted a .toml file or one of subject"):
        choose_relations("subjekt")
    path = tmp_path / "a.toml"
    path.write_bytes(b"[a]\nabout = '\xff'\n")
    with pytest.raises(CorpusError, match=r"a.toml:2: is not UTF-8"):
        read_relations(path)
