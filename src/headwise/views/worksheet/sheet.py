"""The worksheet, step by step, as blocks: questions with empty cells, or the solution."""

import math
from dataclasses import dataclass

import numpy as np

from headwise.views.worksheet.blocks import (
    Block,
    Grid,
    Heading,
    Numbers,
    Paragraph,
    computed,
    decimals_of,
    given,
    names,
    number,
    vector,
)


@dataclass(frozen=True)
class Sheet:
    """What is drawn: the given numbers and every step of the solution, in the shapes of `analysis.exercise`."""

    words: tuple[str, ...]
    heads: int
    causal: bool
    embeddings: Numbers
    matrices: tuple[Numbers, Numbers, Numbers]
    """W_Q, W_K and W_V."""
    output: Numbers
    """W_O."""
    query: Numbers
    key: Numbers
    value: Numbers
    products: Numbers
    scaled: Numbers
    masked: Numbers
    weights: Numbers
    weighted: Numbers
    z: Numbers
    joined: Numbers
    result: Numbers

    @property
    def head_dim(self) -> int:
        """The length of each head's q, k and v."""
        return self.query.shape[-1]


def blocks(sheet: Sheet, answers: bool) -> list[Block]:
    """The whole worksheet from top to bottom."""
    parts: list[Block] = [*_opening(sheet, answers)]
    parts += _projections(sheet, answers)
    parts += _scores(sheet, answers)
    parts += _values(sheet, answers)
    parts += _output(sheet, answers)
    return parts + _questions(sheet, answers)


def _opening(sheet: Sheet, answers: bool) -> list[Block]:
    dim, heads, wide = sheet.embeddings.shape[1], sheet.heads, sheet.head_dim
    counted = f"{heads} heads" if heads > 1 else "1 head"
    about = f"Attention with {counted}, {dim} numbers per word and {wide} per head"
    about += ", where no word may look at a later one." if sheet.causal else "."
    rounding = "Numbers that are not exact are rounded to three decimals, and the steps go on with the exact ones."
    parts: list[Block] = [
        Heading(("Solution: " if answers else "Worksheet: ") + " ".join(sheet.words), 1),
        Paragraph(f"{about} {rounding if answers else 'Round to three decimals where you have to.'}"),
        Heading("Given", 2),
        _plain("The embedding x of each word", "word", names("x", dim), sheet.words, given(sheet.embeddings)),
    ]
    for head in range(heads):
        own = [m[:, head * wide : (head + 1) * wide] for m in sheet.matrices]
        caption = f"Head {head + 1}: W_Q (columns q), W_K (columns k) and W_V (columns v)"
        cells = given(np.concatenate(own, axis=1))
        parts.append(Grid(caption, "", _qkv(wide), names("x", dim), cells, group=wide))
    caption = f"All heads: W_O, with rows for the joined z of {counted}"
    parts.append(Grid(caption, "", names("y", dim), names("z", dim), given(sheet.output)))
    return parts


def _projections(sheet: Sheet, answers: bool) -> list[Block]:
    parts: list[Block] = [
        Heading("Step 1: query, key and value", 2),
        Paragraph("Each head asks with q, is found by k, and passes on v."),
        Paragraph("q = x·W_Q    k = x·W_K    v = x·W_V", "formula"),
    ]
    if answers:
        column = sheet.matrices[0][:, 0]
        parts.append(_example(f"q₁ of {sheet.words[0]}, head 1", sheet.embeddings[0], column, sheet.query[0, 0, 0]))
    for head in range(sheet.heads):
        numbers = np.concatenate([sheet.query[head], sheet.key[head], sheet.value[head]], axis=1)
        labels, columns = sheet.words, _qkv(sheet.head_dim)
        parts.append(
            Grid(f"Head {head + 1}", "word", columns, labels, computed(numbers), not answers, group=sheet.head_dim)
        )
    return parts


def _scores(sheet: Sheet, answers: bool) -> list[Block]:
    wide, first, last = sheet.head_dim, sheet.words[0], sheet.words[-1]
    root = math.sqrt(wide)
    parts: list[Block] = [
        Heading("Step 2: how well does each key answer each query?", 2),
        Paragraph("A row per asking word, a column per word that is asked."),
        Paragraph("score = q·k", "formula"),
    ]
    if answers:
        told = f"q of {first} · k of {last}, head 1"
        parts.append(_example(told, sheet.query[0, 0], sheet.key[0, -1], sheet.products[0, 0, -1]))
    parts += _squares(sheet, sheet.products, answers)
    shown = number(root, decimals_of(np.array([root])))
    equals = "=" if root == int(root) else "≈"
    parts += [
        Heading(f"Step 3: divide by √{wide} {equals} {shown}", 2),
        Paragraph("The longer the vectors, the larger the scores; the root of their length takes that back."),
        *_squares(sheet, sheet.scaled, answers),
    ]
    step = 4
    if sheet.causal:
        parts += [
            Heading("Step 4: mask the future", 2),
            Paragraph("A word may not look at a later one: its score becomes −∞, and e to the power of −∞ is 0."),
            *_squares(sheet, sheet.masked, answers),
        ]
        step = 5
    parts += [
        Heading(f"Step {step}: softmax", 2),
        Paragraph("The scores of a row become shares of the whole. Each row sums to 1."),
        Paragraph("weight = e^score ÷ (sum of e^score over the row)", "formula"),
    ]
    if answers:
        parts.append(_softmax_example(sheet))
    return parts + _squares(sheet, sheet.weights, answers)


def _values(sheet: Sheet, answers: bool) -> list[Block]:
    step = 6 if sheet.causal else 5
    parts: list[Block] = [
        Heading(f"Step {step}: weight · v, and the sum z", 2),
        Paragraph("Each word takes from every word as much as it looks at it. The sum of a row is the word's new z."),
        Paragraph("z = weight · v of the first word + ... + weight · v of the last word", "formula"),
    ]
    decimals = max(decimals_of(sheet.weighted), decimals_of(sheet.z))
    columns = [*(f"weight · v of {word}" for word in sheet.words), "z"]
    for head in range(sheet.heads):
        rows = [
            [*(vector(part, decimals) for part in parts_of), vector(z, decimals)]
            for parts_of, z in zip(sheet.weighted[head], sheet.z[head], strict=True)
        ]
        caption, edge, room = f"Head {head + 1}", len(sheet.words), 6 * sheet.head_dim + 2
        parts.append(Grid(caption, "word", columns, sheet.words, rows, not answers, group=edge, room=room))
    return parts


def _output(sheet: Sheet, answers: bool) -> list[Block]:
    step, dim = (7 if sheet.causal else 6), sheet.embeddings.shape[1]
    joined = (
        "For each word the z of all heads stand side by side."
        if sheet.heads > 1
        else "The joined z of one head is its z."
    )
    parts: list[Block] = [
        Heading(f"Step {step}: join the heads", 2),
        Paragraph(joined),
        Grid("Joined", "word", names("z", dim), sheet.words, computed(sheet.joined), not answers, group=sheet.head_dim),
        Heading(f"Step {step + 1}: multiply by W_O", 2),
        Paragraph("y = z·W_O", "formula"),
    ]
    if answers:
        parts.append(_example(f"y₁ of {sheet.words[0]}", sheet.joined[0], sheet.output[:, 0], sheet.result[0, 0]))
    parts.append(
        _plain("What attention returns", "word", names("y", dim), sheet.words, computed(sheet.result), not answers)
    )
    return parts


def _questions(sheet: Sheet, answers: bool) -> list[Block]:
    """Two questions that the tables answer, and one to think about."""
    parts: list[Block] = [Heading("Questions", 2)]
    for head in range(sheet.heads):
        row = sheet.weights[head, -1]
        asked = f"In head {head + 1}, at which word does “{sheet.words[-1]}” look most?"
        found = [word for word, weight in zip(sheet.words, row, strict=True) if np.isclose(weight, row.max())]
        told = f" At {' and '.join(f'“{word}”' for word in dict.fromkeys(found))}, with {number(row.max(), 3)}."
        parts.append(Paragraph(asked + (told if answers else ""), "question"))
    asked = "If the first two words changed places, which numbers of the last step would change?"
    if sheet.causal:
        told = " Those of these two words: the later one sees both, the earlier only itself. No other word's change."
    else:
        told = " None: the two rows change places. Attention alone does not know the order of the words."
    if len(sheet.words) > 1 and sheet.words[0] != sheet.words[1]:
        parts.append(Paragraph(asked + (told if answers else ""), "question"))
    return parts


def _squares(sheet: Sheet, numbers: Numbers, answers: bool) -> list[Block]:
    """One table per head, a row per query and a column per key."""
    decimals = decimals_of(numbers)
    return [
        _plain(
            f"Head {head + 1}",
            "asks ↓  asked →",
            sheet.words,
            sheet.words,
            [[number(x, decimals) for x in row] for row in numbers[head]],
            not answers,
        )
        for head in range(sheet.heads)
    ]


def _softmax_example(sheet: Sheet) -> Paragraph:
    """The first weight, written out."""
    row = sheet.masked[0, -1]
    powers = [f"e^{number(x, decimals_of(row))}" for x in row]
    told = f"For example, the weight of {sheet.words[0]} for {sheet.words[-1]}, head 1: "
    equals = _equals(sheet.weights[0, -1, 0])
    return Paragraph(f"{told}{powers[0]} ÷ ({' + '.join(powers)}) {equals}", "example")


def _example(what: str, left: Numbers, right: Numbers, result: float) -> Paragraph:
    """One sum of products, written out."""
    first, second = ([number(x, decimals_of(side)) for x in side] for side in (left, right))
    terms = [
        f"{_in_brackets(a) if index else a}·{_in_brackets(b)}"
        for index, (a, b) in enumerate(zip(first, second, strict=True))
    ]
    return Paragraph(f"For example, {what}: {' + '.join(terms)} {_equals(result)}", "example")


def _equals(value: float) -> str:
    decimals = decimals_of(np.array([value]))
    exact = np.isclose(round(float(value), decimals), value, rtol=0, atol=1e-9)
    return f"{'=' if exact else '≈'} {number(value, decimals)}"


def _in_brackets(text: str) -> str:
    return f"({text})" if text.startswith("−") else text


def _plain(
    caption: str,
    corner: str,
    columns: list[str] | tuple[str, ...],
    labels: tuple[str, ...],
    cells: list[list[str]],
    blank: bool = False,
) -> Grid:
    return Grid(caption, corner, columns, labels, cells, blank)


def _qkv(wide: int) -> list[str]:
    return [*names("q", wide), *names("k", wide), *names("v", wide)]
