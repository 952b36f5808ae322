"""Corpora as they come: read whole where they are right, refused with file and line where they are not."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from atlas_models import CORPUS, corpus

from headwise.analysis.atlas.corpora import check_corpora, chunks, sentences
from headwise.analysis.atlas.match import questions
from headwise.analysis.atlas.relations import shipped
from headwise.analysis.atlas.sentence import CorpusError, Sentence
from headwise.errors import HeadwiseError

TREE = """# newdoc
# sent_id = one
# text = Don't stop.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=Yes
1\tDo\tdo\tAUX\t_\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\t_\tPolarity=Neg\t3\tadvmod\t_\t_
3\tstop\tstop\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No
4\t.\t.\tPUNCT\t_\t_\t3\tpunct\t_\t_

"""
LINE = {"text": "Ann called; she was late.", "words": [[0, 3], [4, 10], [12, 15], [16, 19], [20, 24]]}
PAIR = {"relation": "coreference", "from": 2, "to": [0], "candidates": [0, 1]}
GAP = "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n"


def read(path: Path) -> list[Sentence]:
    check_corpora([path])
    return [sentence for chunk in chunks([path]) for _, sentence in sentences(chunk)]


def written(place: Path, text: str | bytes, name: str = "c.conllu") -> Path:
    path = place / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_contractions_are_cut_where_their_words_join(tmp_path: Path) -> None:
    (sentence,) = read(written(tmp_path, TREE))
    assert [(word.start, word.end) for word in sentence.words] == [(0, 2), (2, 5), (6, 10), (10, 11)]
    assert [word.head for word in sentence.words] == [2, 2, -1, 2]
    assert sentence.words[1].features == {"Polarity": "Neg"}


def test_contractions_that_are_not_their_words_share_a_place(tmp_path: Path) -> None:
    tree = "# text = du pain\n1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n"
    tree += "1\tde\tde\tADP\t_\t_\t3\tcase\t_\t_\n2\tle\tle\tDET\t_\t_\t3\tdet\t_\t_\n"
    tree += "3\tpain\tpain\tNOUN\t_\t_\t0\troot\t_\t_\n"
    (sentence,) = read(written(tmp_path, tree))
    assert [(word.start, word.end) for word in sentence.words] == [(0, 2), (0, 2), (3, 7)]


def test_words_that_are_not_in_the_text_are_a_problem_of_the_sentence(tmp_path: Path) -> None:
    (sentence,) = read(written(tmp_path, TREE.replace("# text = Don't stop.", "# text = Do not stop.")))
    assert sentence.problem == '"Don\'t" does not follow in the text'


def test_supersenses_choose_the_rule_for_space(tmp_path: Path) -> None:
    def row(number: int, form: str, upos: str, head: int, deprel: str, sense: str = "_") -> str:
        plain = [str(number), form, form, upos, "_", "_", str(head), deprel, "_", "_"]
        return "\t".join([*plain, "_", "_", "_", sense, sense, *"____"])

    rows = [
        row(1, "keys", "NOUN", 0, "root"),
        row(2, "under", "ADP", 3, "case", "p.Topic"),
        row(3, "tables", "NOUN", 1, "nmod"),
    ]
    path = written(tmp_path, "\n".join(rows) + "\n", "a.conllulex")
    asked = [one.relation for one in questions(read(path)[0], shipped())]
    assert asked == []  # a preposition of place, and a supersense that says otherwise
    path.write_text(path.read_text().replace("p.Topic", "p.Locus"))
    assert [one.relation for one in questions(read(path)[0], shipped())] == ["space", "space"]
    plain = [("\t".join(one.split("\t")[:10])) for one in rows]
    (sentence,) = read(written(tmp_path, "\n".join(plain) + "\n"))
    assert [one.relation for one in questions(sentence, shipped())] == ["space", "space"]


def test_documents_are_told_apart() -> None:
    (chunk,) = chunks([CORPUS])
    assert [record.block for record in chunk.records] == [at // 3 for at in range(48)]
    assert chunk.documents == 16


def test_without_marks_each_sentence_is_a_document(tmp_path: Path) -> None:
    path = written(tmp_path, (TREE * 3).replace("# newdoc\n", ""))
    (chunk,) = chunks([path])
    assert [record.block for record in chunk.records] == [0, 1, 2]


def test_packed_and_with_a_mark_at_the_beginning(tmp_path: Path) -> None:
    path = tmp_path / "c.conllu.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + TREE.replace("\n", "\r\n").encode()))
    assert read(path)[0].words[2].form == "stop"


def test_jsonl_says_its_pairs(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps({**LINE, "pairs": [PAIR]}) + "\n", "c.jsonl")
    asked = questions(read(path)[0], shipped())
    assert [(one.way, one.source, set(one.right), set(one.candidates)) for one in asked] == [
        (0, 2, {0}, {0, 1}),
        (1, 2, {0}, {0, 1}),
    ]


def test_gap_makes_each_name_one_word(tmp_path: Path) -> None:
    text = "Ann Lee met Bea; she left."
    path = written(tmp_path, GAP + f"x-1\t{text}\tshe\t17\tAnn Lee\t0\tTRUE\tBea\t12\tFALSE\turl\n", "gap.tsv")
    (sentence,) = read(path)
    assert [word.form for word in sentence.words] == ["Ann Lee", "met", "Bea", ";", "she", "left", "."]
    (label,) = sentence.labelled
    assert (label.source, label.targets, label.candidates) == (4, (0,), (0, 2))


def swap(old: str, new: str) -> Callable[[], str]:
    return lambda: TREE.replace(old, new)


BAD_TREES: list[tuple[Any, int, str]] = [
    ("", 1, "holds no sentence"),
    ("\n\n", 1, "holds no sentence"),
    ("# text = a\n", 1, "holds no sentence"),
    (TREE.replace("\t3\taux\t_\t_", "\t3\taux"), 5, "has 8 columns, wanted 10"),
    (TREE.replace("3\tstop\tstop", "3\tst\top\tstop"), 7, "has 11 columns, wanted 10"),
    ("a b c\n", 1, "has 1 columns, wanted 10 or 19"),
    (TREE.replace("4\t.\t.\tPUNCT\t_\t_\t3", "4\t.\t.\tPUNCT\t_\t_\t9"), 8, "head: got 9, wanted another word, or 0"),
    (TREE.replace("3\tstop\tstop\tVERB\t_\t_\t0", "3\tstop\tstop\tVERB\t_\t_\t1"), 5, "hangs on itself"),
    (TREE.replace("4\t.\t.\tPUNCT\t_\t_\t3", "4\t.\t.\tPUNCT\t_\t_\t4"), 8, "head: got 4"),
    (TREE.replace("4\t.\t.", "7\t.\t."), 8, "id: got 7, wanted 4"),
    (TREE.replace("4\t.\t.", "x\t.\t."), 8, "'x' is not a valid ID"),
    (TREE.replace("\t3\tpunct", "\tabc\tpunct"), 8, "head"),
    (TREE.replace("3\tstop", "3\t"), 7, "form: is empty"),
    (TREE.replace("stop\tstop", "st  op\tstop"), 7, "form: holds two spaces"),
    (TREE.replace("Don't stop.", "Don't\tstop."), 3, "text: holds a tab"),
    (TREE.replace("1-2", "1-9"), 4, "id: 1-9 does not fit"),
    (TREE.encode().replace(b"stop", b"st\xf6p"), 3, "byte 18 is not UTF-8"),
    (TREE.encode("utf-16"), 1, "byte 1 is not UTF-8"),
]


@pytest.mark.parametrize(("text", "line", "problem"), BAD_TREES)
def test_bad_treebanks_are_refused_with_file_and_line(text: Any, line: int, problem: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(CorpusError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert problem in str(error.value)
    assert "\n" not in str(error.value)


BAD_LINES: list[tuple[Any, str]] = [
    ("{", "is not JSON"),
    ("[1]", "wanted a JSON object"),
    ("[" * 100_000, "nested too deep"),
    ({**LINE, "word": []}, "unknown field 'word'"),
    ({"text": "a"}, "words is missing"),
    ({**LINE, "text": " "}, "text: wanted some text"),
    ({**LINE, "words": [[0, 99]]}, "words[0]: [0, 99] is outside the text of 25 characters"),
    ({**LINE, "words": [[-1, 2]]}, "outside the text"),
    ({**LINE, "words": [[0, 3], [2, 5]]}, "words[1]: begins before"),
    ({**LINE, "words": [[0, True]]}, "words[0]: wanted [start, end]"),
    ({**LINE, "upos": ["X"]}, "upos: wanted a text for each of the 5 words"),
    ({**LINE, "pairs": [{**PAIR, "to": [9]}]}, "pairs[0].to: got 9, wanted a word from 0 to 4"),
    ({**LINE, "pairs": [{**PAIR, "to": [3]}]}, "to is not among the candidates"),
    ({**LINE, "pairs": [{**PAIR, "x": 1}]}, "pairs[0]: unknown field 'x'"),
    ({**LINE, "pairs": [{**PAIR, "relation": "subject"}]}, "has rules of its own"),
    ({**LINE, "pairs": [{**PAIR, "relation": "cousin"}]}, "relation 'cousin' is unknown"),
]


@pytest.mark.parametrize(("value", "problem"), BAD_LINES)
def test_bad_lines_are_refused_with_file_and_line(value: Any, problem: str, tmp_path: Path) -> None:
    bad = value if isinstance(value, str) else json.dumps(value)
    path = written(tmp_path, json.dumps(LINE) + "\n" + bad + "\n", "c.jsonl")
    with pytest.raises(CorpusError) as error:
        _ = [questions(sentence, shipped()) for sentence in read(path)]
    assert str(error.value).startswith(f"{path}:2: ")
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("ID\tText\n", 1, "wanted the columns of GAP"),
        (GAP, 1, "holds no sentence"),
        (GAP + "a\tb\n", 2, "has 2 columns, wanted 11"),
        (GAP + "x\tAnn met.\tshe\t0\tAnn\t0\tTRUE\tBea\t4\tFALSE\tu\n", 2, "Pronoun: 'she' does not stand at 0"),
        (GAP + "x\tAnn she Bea\tshe\tq\tAnn\t0\tTRUE\tBea\t8\tFALSE\tu\n", 2, "Pronoun-offset: got 'q'"),
        (GAP + "x\tAnn she Bea\tshe\t4\tAnn\t0\tyes\tBea\t8\tFALSE\tu\n", 2, "A-coref: got 'yes'"),
        (GAP + "x\tAnn she Bea\tshe\t4\tAnn\t0\tTRUE\tAnn\t0\tFALSE\tu\n", 2, "overlap"),
    ],
)
def test_bad_gap_is_refused_with_file_and_line(text: str, line: int, problem: str, tmp_path: Path) -> None:
    path = written(tmp_path, text, "gap.tsv")
    with pytest.raises(CorpusError, match=f":{line}: ") as error:
        read(path)
    assert problem in str(error.value)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadwiseError, match=r"wanted .conllu, .conllulex, .jsonl, .tsv"):
        check_corpora([written(tmp_path, "a", "a.txt")])
    with pytest.raises(HeadwiseError, match="none"):
        check_corpora([])
    path = tmp_path / "b.conllu.gz"
    path.write_bytes(gzip.compress(TREE.encode())[:-12])
    with pytest.raises(CorpusError, match="cannot be unpacked"):
        read(path)


def test_the_corpus_of_the_tests_has_no_problem() -> None:
    assert all(sentence.problem is None for sentence in corpus())
