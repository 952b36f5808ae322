"""From a sentence and the relations to pairs of words: each source with all its right answers, in both directions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from headwise.analysis.atlas.relations import Condition, Relation, Rule, shipped
from headwise.analysis.atlas.sentence import CorpusError, Sentence, Word


class Question(NamedTuple):
    """From this word, which word should a head look at?"""

    relation: str
    way: int
    """0: from `from` at `to`; 1: from `to` at `from`."""
    source: int
    right: frozenset[int]
    candidates: frozenset[int] = frozenset()
    """Among these, where the corpus says so; empty for all words."""


def questions(sentence: Sentence, relations: Mapping[str, Relation]) -> list[Question]:
    """All that this sentence asks, in the order of the relations."""
    children: list[list[Word]] = [[] for _ in sentence.words]
    for word in sentence.words:
        if word.head >= 0:
            children[word.head].append(word)
    for label in sentence.labelled:
        named = relations.get(label.relation)
        if named is None and label.relation not in shipped():
            problem = (
                f"pairs: relation {label.relation!r} is unknown; a relations file can name it, with labelled = true"
            )
            raise CorpusError(sentence.file, sentence.line, problem)
        if named is not None and not named.labelled:
            problem = f"pairs: relation {label.relation!r} has rules of its own, so the corpus cannot label it"
            raise CorpusError(sentence.file, sentence.line, problem)
    found: list[Question] = []
    for name, relation in relations.items():
        if relation.labelled:
            for label in sentence.labelled:
                if label.relation == name:
                    found += _labelled(name, label.source, label.targets, label.candidates)
        else:
            pairs = sorted({pair for rule in relation.rules for pair in _pairs(sentence, rule, children)})
            found += _both_ways(name, pairs)
    return found


def _both_ways(name: str, pairs: Sequence[tuple[int, int]]) -> Iterator[Question]:
    for way in (0, 1):
        answers: dict[int, set[int]] = {}
        for pair in pairs:
            answers.setdefault(pair[way], set()).add(pair[1 - way])
        for source in sorted(answers):
            yield Question(name, way, source, frozenset(answers[source]))


def _labelled(name: str, source: int, targets: tuple[int, ...], among: tuple[int, ...]) -> Iterator[Question]:
    """The other way, candidates are asked which of them looks most at the source."""
    candidates, right = frozenset(among) - {source}, frozenset(targets) - {source}
    if not right:
        return
    yield Question(name, 0, source, right, candidates)
    if candidates:
        yield Question(name, 1, source, right, candidates)
    else:
        for target in sorted(right):
            yield Question(name, 1, target, frozenset({source}))


def _pairs(sentence: Sentence, rule: Rule, children: Sequence[Sequence[Word]]) -> Iterator[tuple[int, int]]:
    """(from, to) of one rule."""
    words = sentence.words
    if rule.needs is not None and not any(rule.needs in word.columns for word in words):
        return
    if rule.lacks is not None and any(rule.lacks in word.columns for word in words):
        return
    lower, upper = (rule.target, rule.source) if rule.to_hangs else (rule.source, rule.target)
    for number, word in enumerate(words):
        if (
            word.head >= 0
            and holds(lower, word, children[number])
            and holds(upper, words[word.head], children[word.head])
        ):
            yield (word.head, number) if rule.to_hangs else (number, word.head)


def holds(condition: Condition, word: Word, children: Sequence[Word]) -> bool:
    """Whether a word is what the condition wants."""
    for column, allowed in condition.wanted.items():
        if _value(word, column) not in allowed:
            return False
    for column, refused in condition.unwanted.items():
        if _value(word, column) in refused:
            return False
    for name, allowed in condition.features.items():
        if word.features.get(name) not in allowed:
            return False
    child = condition.child
    return child is None or any(holds(child, one, ()) for one in children)


def _value(word: Word, column: str) -> str | None:
    if column == "form":
        return word.form.lower()
    value = word.columns.get(column)
    return value.lower() if value is not None and column == "lemma" else value
