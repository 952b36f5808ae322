"""How the tensors of a file and the parameters of a model correspond: data that reads in both directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Same:
    """One tensor of the file is one parameter."""

    theirs: str
    ours: str
    optional: bool = False
    """Whether a file may leave it out; the parameter then keeps zeros."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters that it fills."""
        return (self.ours,)

    def shape(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        """The shape in the file, given those of the parameters."""
        return shapes[0]

    def read(self, tensor: Tensor) -> list[Tensor]:
        """The parameters, from the file's tensor."""
        return [tensor]

    def write(self, parameters: Sequence[Tensor]) -> Tensor:
        """The file's tensor, from the parameters."""
        return parameters[0]


@dataclass(frozen=True)
class Row(Same):
    """The file has [1, n] where the parameter has [n]."""

    def shape(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        return (1, *shapes[0])

    def read(self, tensor: Tensor) -> list[Tensor]:
        return [tensor[0]]

    def write(self, parameters: Sequence[Tensor]) -> Tensor:
        return parameters[0].unsqueeze(0)


@dataclass(frozen=True)
class Transpose(Same):
    """The file has the matrix turned round: x·W instead of x·Wᵀ."""

    def shape(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        return tuple(reversed(shapes[0]))

    def read(self, tensor: Tensor) -> list[Tensor]:
        return [tensor.mT.contiguous()]

    def write(self, parameters: Sequence[Tensor]) -> Tensor:
        return parameters[0].mT.contiguous()


@dataclass(frozen=True)
class Split:
    """One tensor of the file is several parameters, one below the other; `transposed`: side by side, turned round."""

    theirs: str
    ours: tuple[str, ...]
    transposed: bool = False
    optional: bool = False

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters that it fills."""
        return self.ours

    def shape(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        """The shape in the file, given those of the parameters."""
        whole = (sum(shape[0] for shape in shapes), *shapes[0][1:])
        return tuple(reversed(whole)) if self.transposed else whole

    def read(self, tensor: Tensor) -> list[Tensor]:
        """The parameters, from the file's tensor; they are all of one size."""
        whole = tensor.T if self.transposed and tensor.ndim > 1 else tensor
        return [part.contiguous() for part in whole.chunk(len(self.ours))]

    def write(self, parameters: Sequence[Tensor]) -> Tensor:
        """The file's tensor, from the parameters."""
        import torch

        whole = torch.cat(list(parameters))
        return whole.T.contiguous() if self.transposed and whole.ndim > 1 else whole


@dataclass(frozen=True)
class Unpermute(Same):
    """The file has the coordinates of each rotated pair side by side; here they stand in the two halves of a head."""

    heads: int = 1

    def read(self, tensor: Tensor) -> list[Tensor]:
        return [tensor.view(self.heads, -1, 2, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)]

    def write(self, parameters: Sequence[Tensor]) -> Tensor:
        whole = parameters[0]
        return whole.view(self.heads, 2, -1, *whole.shape[1:]).transpose(1, 2).reshape(whole.shape)


@dataclass(frozen=True)
class Sinusoids:
    """The file repeats the fixed vectors of positions, which are computed here: compared with those."""

    theirs: str
    count: int
    dim: int
    written: bool = True
    """Whether the reference library writes them too."""
    optional: bool = True
    parameters: tuple[str, ...] = ()

    def shape(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        """The shape in the file."""
        return (self.count, self.dim)

    def read(self, tensor: Tensor) -> list[Tensor]:
        """Nothing: no parameter is filled."""
        return []

    def write(self, parameters: Sequence[Tensor]) -> Tensor:
        """The table, all sines before all cosines."""
        import torch

        from headwise.attention.positions import sinusoids

        return sinusoids(torch.arange(self.count), self.dim, layout="halves")


Rule = Same | Split | Sinusoids


@dataclass(frozen=True)
class Names:
    """A family's table for one configuration."""

    base: Sequence[Rule]
    """Tensors of the body; in files of a model with a head their names begin with `prefix`."""
    head: Sequence[Rule] = ()
    prefix: str = ""
    ties: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names that repeat a parameter where the head is tied: compared with it, never written."""
    older: Mapping[str, str] = field(default_factory=dict[str, str])
    """How names once ended, and how they end now."""
    ignored: Sequence[str] = ()
    """Names, `*` standing for anything, of tensors that this computation does not need."""

    def current(self, name: str) -> str:
        """The name as it is written today."""
        for old, new in self.older.items():
            if name.endswith(old):
                return name.removesuffix(old) + new
        return name

    def rules(self, prefixed: bool) -> dict[str, Rule]:
        """The rules by the name in the file."""
        prefix = self.prefix if prefixed else ""
        return {prefix + rule.theirs: rule for rule in self.base} | {rule.theirs: rule for rule in self.head}


def same(theirs: str, ours: str, bias: bool = False) -> list[Rule]:
    """The weight of a module, and its bias where it has one."""
    rules: list[Rule] = [Same(f"{theirs}.weight", f"{ours}.weight")]
    return [*rules, Same(f"{theirs}.bias", f"{ours}.bias")] if bias else rules
