"""What every attention must obey, as checks that anyone can run on their own f(query, key, value, mask)."""

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from headwise.attention.cases import Case, Drawn, cases
from headwise.attention.equation import attention_steps

AttentionFunction = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]


class Difference(NamedTuple):
    """Two numbers that should be one."""

    where: str
    got: float | str
    wanted: float | str


class Counterexample(NamedTuple):
    """The smallest input found that breaks a law, and the two numbers that differ."""

    case: Case
    where: str
    got: float | str
    wanted: float | str

    def __str__(self) -> str:
        return f"{self.case}: {self.where} is {_written(self.got)}, wanted {_written(self.wanted)}"


class Row(NamedTuple):
    """One law and whether it held."""

    name: str
    law: str
    held: bool
    counterexample: Counterexample | None


@dataclass(frozen=True)
class Report:
    """What `check_attention` found."""

    rows: tuple[Row, ...]

    @property
    def ok(self) -> bool:
        """Whether every law held."""
        return all(row.held for row in self.rows)

    def __str__(self) -> str:
        return "\n".join(
            f"{'holds ' if row.held else 'broken'}  {row.law}" + ("" if row.held else f"\n        {row.counterexample}")
            for row in self.rows
        )


class Law(NamedTuple):
    """A sentence, what it is tried on, and the check, which returns the first difference it finds."""

    sentence: str
    cases: list[Case]
    check: Callable[[AttentionFunction, Case], Difference | None]


def check_attention(function: AttentionFunction, without: Collection[str] = ()) -> Report:
    """Try every law on f(query, key, value, mask), mask None or bool [batch, head or 1, query, key], True = may attend.

    `without` names laws that are left out, by the keys of `LAWS`.
    """
    if not callable(function):
        raise ValueError(
            f"function: got {type(function).__name__}, wanted one that is called with query, key, value, mask"
        )
    unknown = set(without) - set(LAWS)
    if unknown:
        raise ValueError(f"without: got {', '.join(sorted(unknown))}, wanted some of {', '.join(LAWS)}")
    return Report(tuple(_try(function, name, law) for name, law in LAWS.items() if name not in without))


def _try(function: AttentionFunction, name: str, law: Law) -> Row:
    """The cases come from small to large, so the first that fails is the smallest."""
    for case in law.cases:
        try:
            found = law.check(function, case)
        except Exception as error:  # whatever a function that is not ours may raise is an answer too
            found = Difference("the result", f"{type(error).__name__}: {_first_line(error)}", "a tensor")
        if found is not None:
            return Row(name, law.sentence, False, Counterexample(case, *found))
    return Row(name, law.sentence, True, None)


def _equals_the_equation(function: AttentionFunction, case: Case) -> Difference | None:
    drawn = case.draw()
    return difference(_call(function, drawn), attention_steps(*drawn).mixed)


def _rows_sum_to_one(function: AttentionFunction, case: Case) -> Difference | None:
    """With values that are all one, the output is the sum of the weights."""
    drawn = case.draw()
    return difference(_call(function, drawn._replace(value=torch.ones_like(drawn.value))), torch.ones_like(drawn.query))


def _blocked_keys_have_no_influence(function: AttentionFunction, case: Case) -> Difference | None:
    drawn = case.draw()
    assert drawn.mask is not None
    before = _call(function, drawn)
    for key in _some_of(case.keys):
        blind = ~drawn.mask[..., key].unsqueeze(-1).expand_as(before)
        if not blind.any():
            continue
        after = _call(function, _moved(drawn, slice(key, key + 1)))
        found = difference(
            torch.where(blind, after, 0), torch.where(blind, before, 0), f"after key {key} changed: output"
        )
        found = found or _no_gradient(function, drawn, blind, slice(key, key + 1))
        if found is not None:
            return found
    return None


def _future_has_no_influence(function: AttentionFunction, case: Case) -> Difference | None:
    drawn = case.draw()
    before = _call(function, drawn)
    for query in _some_of(case.queries):
        future = slice(query + case.keys - case.queries + 1, case.keys)
        if future.start >= future.stop:
            continue
        after = _call(function, _moved(drawn, future))[:, :, query]
        found = difference(after, before[:, :, query], f"after later keys changed: output of query {query},")
        if found is not None:
            return found
        blind = torch.zeros_like(before, dtype=torch.bool)
        blind[:, :, query] = True
        found = _no_gradient(function, drawn, blind, future)
        if found is not None:
            return found
    return None


def _order_of_keys_is_nothing(function: AttentionFunction, case: Case) -> Difference | None:
    drawn = case.draw()
    order = torch.arange(case.keys).roll(1)
    shuffled = Drawn(
        drawn.query,
        drawn.key[:, :, order],
        drawn.value[:, :, order],
        None if drawn.mask is None else drawn.mask[..., order],
    )
    return difference(_call(function, shuffled), _call(function, drawn), "after the keys were permuted: output")


def _heads_and_rows_do_not_mix(function: AttentionFunction, case: Case) -> Difference | None:
    drawn = case.draw()
    before = _call(function, drawn)
    for row in range(case.batch):
        for head in range(case.heads):
            other = Drawn(drawn.query.clone(), drawn.key.clone(), drawn.value.clone(), drawn.mask)
            for part in other[:3]:
                part[row, head] = part[row, head].flip(-1) + 1
            after = _call(function, other).clone()
            after[row, head] = before[row, head]
            found = difference(after, before, f"after row {row}, head {head} changed: output")
            if found is not None:
                return found
    return None


def _grouped_equal_repeated(function: AttentionFunction, case: Case) -> Difference | None:
    drawn = case.draw()
    group = case.heads // case.shared
    repeated = drawn._replace(
        key=drawn.key.repeat_interleave(group, dim=1), value=drawn.value.repeat_interleave(group, dim=1)
    )
    return difference(_call(function, drawn), _call(function, repeated))


def _huge_scores_are_harmless(function: AttentionFunction, case: Case) -> Difference | None:
    """Whole numbers, so that the largest score wins by far or ties; once mixed in sign, once far below zero."""
    drawn = case.draw()
    for shift in (0, -8):
        query = drawn.query.sign() * 200
        key = (drawn.key * 2).round() + shift * query.mean(dim=2, keepdim=True).sign()
        huge = Drawn(query, key, drawn.value, drawn.mask)
        wanted = attention_steps(query.double(), key.double(), drawn.value.double(), drawn.mask).mixed
        found = difference(
            _call(function, huge).double(), wanted, tolerance=1e-2 if case.dtype == torch.float32 else 1e-9
        )
        if found is not None:
            return found
    return None


def _nothing_to_see_gives_zeros(function: AttentionFunction, case: Case) -> Difference | None:
    drawn = case.draw()
    assert drawn.mask is not None
    blind = ~drawn.mask.any(dim=-1, keepdim=True).expand_as(drawn.query)
    inputs = _trained(drawn)
    mixed = function(*inputs, drawn.mask)
    found = difference(torch.where(blind, mixed, 0), torch.zeros_like(mixed))
    if found is not None:
        return found
    for name, gradient in zip(_NAMES, _pulled(mixed, inputs, torch.ones_like(mixed)), strict=True):
        found = difference(gradient.isfinite().double(), torch.ones_like(gradient.double()))
        if found is not None:
            where = tuple(int(i) for i in (~gradient.isfinite()).nonzero()[0])
            return Difference(f"the gradient of {name}{list(where)}", float(gradient[where]), "a finite number")
    return None


def _dtype_and_shape_are_kept(function: AttentionFunction, case: Case) -> Difference | None:
    drawn = case.draw()
    mixed = _call(function, drawn)
    if mixed.shape != drawn.query.shape:
        return Difference("the shape of the output", str(list(mixed.shape)), str(list(drawn.query.shape)))
    if mixed.dtype != case.dtype:
        return Difference("the dtype of the output", str(mixed.dtype), str(case.dtype))
    return None


def _gradients_equal_the_equations(function: AttentionFunction, case: Case) -> Difference | None:
    drawn = case.draw()
    upstream = drawn.query.cos()
    got = _gradients(function, drawn, upstream)
    wanted = _gradients(lambda *inputs: attention_steps(*inputs).mixed, drawn, upstream)
    for name, one, other in zip(_NAMES, got, wanted, strict=True):
        found = difference(one, other, f"the gradient of {name}")
        if found is not None:
            return found
    return None


_NAMES = ("query", "key", "value")


def difference(got: Tensor, wanted: Tensor, name: str = "output", tolerance: float = 1e-9) -> Difference | None:
    """Where two tensors differ most, and the two numbers there; None where they agree."""
    if not isinstance(got, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        return Difference(f"the type of {name}", type(got).__name__, "Tensor")
    if got.shape != wanted.shape:
        return Difference(f"the shape of {name}", str(list(got.shape)), str(list(wanted.shape)))
    if not got.numel():
        return None
    got, wanted = got.detach().double(), wanted.detach().double()
    apart = ((got - wanted).abs() / (1 + wanted.abs())).nan_to_num(nan=math.inf)
    worst = int(apart.argmax())
    if float(apart.flatten()[worst]) <= tolerance:
        return None
    where = [int(i) for i in torch.unravel_index(torch.tensor(worst), got.shape)]
    return Difference(f"{name}{where}", float(got.flatten()[worst]), float(wanted.flatten()[worst]))


def _call(function: AttentionFunction, drawn: Drawn) -> Tensor:
    """Copies go in, so that a function that writes into its inputs spoils nothing here."""
    with torch.no_grad():
        return function(*(None if part is None else part.clone() for part in drawn))  # pyright: ignore[reportArgumentType]


def _trained(drawn: Drawn) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value as inputs that take gradients."""
    query, key, value = (part.clone().requires_grad_() for part in (drawn.query, drawn.key, drawn.value))
    return query, key, value


def _pulled(mixed: Tensor, inputs: tuple[Tensor, ...], upstream: Tensor) -> tuple[Tensor, ...]:
    """The gradients; zeros where an input has none."""
    return torch.autograd.grad(mixed, inputs, upstream, materialize_grads=True)


def _gradients(function: AttentionFunction, drawn: Drawn, upstream: Tensor) -> tuple[Tensor, ...]:
    inputs = _trained(drawn)
    return _pulled(function(*inputs, drawn.mask), inputs, upstream)


def _no_gradient(function: AttentionFunction, drawn: Drawn, blind: Tensor, keys: slice) -> Difference | None:
    """What blind queries give must not pull at these keys and values."""
    _, key, value = _gradients(function, drawn, blind.to(drawn.query.dtype))
    for name, gradient in (("key", key[:, :, keys]), ("value", value[:, :, keys])):
        found = difference(gradient, torch.zeros_like(gradient), f"the gradient of the blocked {name}")
        if found is not None:
            return found
    return None


def _moved(drawn: Drawn, keys: slice) -> Drawn:
    """The same with other numbers in these keys and values."""
    key, value = drawn.key.clone(), drawn.value.clone()
    key[:, :, keys] = 3 - 2 * key[:, :, keys]
    value[:, :, keys] = 100 - value[:, :, keys]
    return drawn._replace(key=key, value=value)


def _some_of(count: int) -> Iterable[int]:
    """All of a few; of many, the ends and some between."""
    return range(count) if count <= 5 else (0, 1, count // 2, count - 2, count - 1)


def _grouped(sizes: list[Case]) -> list[Case]:
    return [replace(case, heads=2 * case.heads, shared=case.heads) for case in sizes]


def _as(sizes: list[Case], *kinds: torch.dtype) -> list[Case]:
    return [replace(case, dtype=kind) for case in sizes for kind in kinds]


def _written(number: float | str) -> str:
    return number if isinstance(number, str) else f"{number:.6g}"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0]


LAWS: dict[str, Law] = {
    "equation": Law("equals the equation in float64", cases(), _equals_the_equation),
    "sums": Law("the weights of a row sum to one", cases(), _rows_sum_to_one),
    "blocked": Law(
        "a blocked key has no influence, forward and in gradients",
        cases("padding", "scattered"),
        _blocked_keys_have_no_influence,
    ),
    "future": Law("the future has no influence under a causal mask", cases("causal"), _future_has_no_influence),
    "permutation": Law("permuting keys with their values changes nothing", cases(), _order_of_keys_is_nothing),
    "heads": Law("heads and batch rows do not mix", cases("no", "scattered"), _heads_and_rows_do_not_mix),
    "grouped": Law("grouped heads equal repeated heads", _grouped(cases()), _grouped_equal_repeated),
    "huge": Law(
        "huge scores neither overflow nor give NaN",
        _as(cases("no", "padding"), torch.float32, torch.float64),
        _huge_scores_are_harmless,
    ),
    "empty": Law("a row with nothing to see gives zeros", cases("empty-row"), _nothing_to_see_gives_zeros),
    "kept": Law(
        "dtype and shape are kept",
        _as(cases("no", "causal"), torch.float64, torch.float32, torch.bfloat16, torch.float16),
        _dtype_and_shape_are_kept,
    ),
    "gradients": Law("gradients equal the equation's", cases(), _gradients_equal_the_equations),
}
"""Every law by its short name."""
