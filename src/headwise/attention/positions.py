"""Where a token stands: sinusoidal, learned, rotary, relative buckets, ALiBi. Each names its paper."""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from headwise.attention.scaling import RotaryScaling

Layout = Literal["pairs", "halves"]


def sinusoids(positions: Tensor, dim: int, base: float = 10000.0, layout: Layout = "pairs") -> Tensor:
    """sin and cos of position / base^(2i/dim) (Vaswani et al. 2017, 3.5), interleaved in pairs or in two halves."""
    steps = torch.arange(0, dim, 2, device=positions.device, dtype=torch.float64)
    angles = positions.double().unsqueeze(-1) * base ** (-steps / dim)
    sine, cosine = angles.sin(), angles.cos()[..., : dim // 2]
    if layout == "halves":
        return torch.cat([sine, cosine], dim=-1).float()
    table = torch.zeros(*positions.shape, dim, device=positions.device, dtype=torch.float64)
    table[..., 0::2], table[..., 1::2] = sine, cosine
    return table.float()


class SinusoidalPositions(nn.Module):
    """The fixed vectors of the original paper, added to the embeddings."""

    def __init__(self, dim: int, base: float = 10000.0, layout: Layout = "pairs") -> None:
        super().__init__()
        self.dim, self.base = dim, base
        self.layout: Layout = layout

    def forward(self, positions: Tensor) -> Tensor:
        """[..., dim] for integer positions [...]."""
        return sinusoids(positions, self.dim, self.base, self.layout)


class LearnedPositions(nn.Module):
    """One trained vector per position, added to the embeddings (Gehring et al. 2017; Devlin et al. 2019)."""

    def __init__(self, count: int, dim: int, offset: int = 0) -> None:
        super().__init__()
        self.offset = offset
        self.weight = nn.Parameter(torch.empty(count + offset, dim))
        if not self.weight.is_meta:  # there a random start does nothing, but imports the compiler
            nn.init.normal_(self.weight, std=0.02)

    def forward(self, positions: Tensor) -> Tensor:
        """[..., dim] for integer positions [...]; families that reserve the first rows say so by `offset`."""
        return nn.functional.embedding(positions + self.offset, self.weight)


class Rotation(NamedTuple):
    """cos and sin of the angles by which query and key are turned, [batch or 1, 1, token, dims]."""

    cosine: Tensor
    sine: Tensor

    def apply(self, x: Tensor) -> Tensor:
        """Turn the first dims of x [batch, head, token, head_dim]; its halves are the two coordinates."""
        dims = self.cosine.shape[-1]
        turned, rest = (x, None) if dims == x.shape[-1] else x.split([dims, x.shape[-1] - dims], dim=-1)
        first, second = turned.chunk(2, dim=-1)
        turned = turned * self.cosine + torch.cat([-second, first], dim=-1) * self.sine
        return turned if rest is None else torch.cat([turned, rest], dim=-1)


class Rotary(nn.Module):
    """Turns query and key by an angle that grows with the position, so that q·k knows the distance (Su et al. 2021).

    The scalings: linear (Chen et al. 2023), dynamic (NTK-aware, growing with the text), llama3 (Llama 3.1, 2024) and
    yarn (Peng et al. 2023).
    """

    def __init__(
        self, head_dim: int, base: float = 10000.0, dims: int | None = None, scaling: RotaryScaling | None = None
    ) -> None:
        super().__init__()
        self.head_dim, self.base, self.scaling = head_dim, base, scaling
        self.dims = head_dim if dims is None else dims
        if self.dims % 2 or not 0 < self.dims <= head_dim:
            raise ValueError(f"dims: got {self.dims}, wanted an even number from 2 to head_dim={head_dim}")

    def forward(
        self, positions: Tensor, dtype: torch.dtype = torch.float32, length: int | Tensor | None = None
    ) -> Rotation:
        """The rotation for integer positions [token] or [batch, token].

        `length`: of the whole text, or [batch, 1] of each row's, for "dynamic".
        """
        frequencies, factor = self.frequencies(positions.device, length)
        angles = positions.float().unsqueeze(-1) * frequencies
        angles = torch.cat([angles, angles], dim=-1)
        angles = angles.unsqueeze(0) if angles.ndim == 2 else angles
        angles = angles.unsqueeze(1)
        return Rotation((angles.cos() * factor).to(dtype), (angles.sin() * factor).to(dtype))

    def frequencies(
        self, device: torch.device | None = None, length: int | Tensor | None = None
    ) -> tuple[Tensor, float]:
        """The angle per position of each pair of dimensions, and what cos and sin are multiplied with."""
        steps = torch.arange(0, self.dims, 2, device=device).float() / self.dims
        plain = 1.0 / self.base**steps
        scaling = self.scaling
        if scaling is None:
            return plain, 1.0
        if scaling.kind == "linear":
            return plain / scaling.factor, 1.0
        if scaling.kind == "divided":
            return plain / torch.tensor(scaling.divisors, device=device), 1.0
        if scaling.kind == "dynamic":
            return self._dynamic(scaling, steps, length), 1.0
        if scaling.kind == "llama3":
            return _llama3(scaling, plain), 1.0
        return self._yarn(scaling, plain)

    def _dynamic(self, scaling: RotaryScaling, steps: Tensor, length: int | Tensor | None) -> Tensor:
        """The base grows with the text, once it is longer than the training's."""
        if isinstance(length, Tensor):
            longest = length.clamp(min=scaling.original).unsqueeze(-1)
        else:
            longest = max(length or 0, scaling.original)
        stretch = scaling.factor * longest / scaling.original - (scaling.factor - 1)
        return 1.0 / (self.base * stretch ** (self.dims / (self.dims - 2))) ** steps

    def _yarn(self, scaling: RotaryScaling, plain: Tensor) -> tuple[Tensor, float]:
        """Fast dimensions stay, slow ones are stretched, between them a ramp over dimensions (yarn, section 3.2)."""

        def dimension(turns: float) -> float:
            return self.dims * math.log(scaling.original / (turns * 2 * math.pi)) / (2 * math.log(self.base))

        low, high = dimension(scaling.high), dimension(scaling.low)
        if scaling.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, self.dims - 1)
        width = max(high - low, 0.001)
        ramp = ((torch.arange(self.dims // 2, device=plain.device).float() - low) / width).clamp(0, 1)
        factor = scaling.attention_factor
        if factor is None:
            factor = 1.0 if scaling.factor <= 1 else 0.1 * math.log(scaling.factor) + 1.0
        return plain / scaling.factor * ramp + plain * (1 - ramp), factor


def _llama3(scaling: RotaryScaling, plain: Tensor) -> Tensor:
    """Short waves stay, long ones are stretched, those between blended by how often they fit the original length."""
    turns = scaling.original * plain / (2 * math.pi)
    blend = ((turns - scaling.low) / (scaling.high - scaling.low)).clamp(0, 1)
    return blend * plain + (1 - blend) * plain / scaling.factor


@dataclass(frozen=True, eq=False)
class DistanceBias:
    """A bias that depends on head and distance only: bias[head, query, key] = values[head, key - query + zero].

    A description, linear in length; kernels turn it into numbers as late as they can. The last query stands at the
    last key, as with masks.
    """

    values: Tensor
    """[head, distance]."""
    zero: int
    """The column of distance nought."""

    def tensor(
        self, queries: int, keys: int, rows: tuple[int, int] | None = None, columns: tuple[int, int] | None = None
    ) -> Tensor:
        """The bias [1, head, query, key], or the block of it with these rows and columns."""
        first, last = rows or (0, queries)
        start, stop = columns or (0, keys)
        here = torch.arange(first, last, device=self.values.device) + (keys - queries)
        there = torch.arange(start, stop, device=self.values.device)
        return self.values[:, there - here.unsqueeze(1) + self.zero].unsqueeze(0)


def bias_tensor(
    bias: Tensor | DistanceBias,
    queries: int,
    keys: int,
    rows: tuple[int, int] | None = None,
    columns: tuple[int, int] | None = None,
) -> Tensor:
    """The bias as numbers, [batch or 1, head or 1, query, key], or a block of it."""
    if isinstance(bias, DistanceBias):
        return bias.tensor(queries, keys, rows, columns)
    if rows is not None and bias.shape[-2] > 1:
        bias = bias[..., rows[0] : rows[1], :]
    if columns is not None and bias.shape[-1] > 1:
        bias = bias[..., columns[0] : columns[1]]
    return bias


class RelativeBuckets(nn.Module):
    """A trained bias per head and bucket of distance, buckets growing with the distance (Raffel et al. 2020, T5)."""

    def __init__(self, heads: int, buckets: int = 32, farthest: int = 128, both_sides: bool = True) -> None:
        super().__init__()
        self.heads, self.buckets, self.farthest, self.both_sides = heads, buckets, farthest, both_sides
        self.weight = nn.Parameter(torch.zeros(buckets, heads))

    def forward(self, queries: int, keys: int) -> DistanceBias:
        """The bias for so many queries, the last of which stands at the last key."""
        distances = _distances(queries, keys, self.weight.device)
        return DistanceBias(self.weight[self.bucket(distances)].T, zero=max(keys - 1, 0))

    def bucket(self, distance: Tensor) -> Tensor:
        """Half of the buckets hold one distance each, the other half ranges that grow to `farthest`."""
        count = self.buckets
        offset = torch.zeros_like(distance)
        if self.both_sides:
            count //= 2
            offset = (distance > 0).long() * count
            distance = distance.abs()
        else:
            distance = (-distance).clamp(min=0)
        exact = count // 2
        growth = torch.log(distance.float().clamp(min=1) / exact) / math.log(self.farthest / exact) * (count - exact)
        far = (exact + growth.long()).clamp(max=count - 1)
        return offset + torch.where(distance < exact, distance, far)


class ALiBi(nn.Module):
    """A penalty on distance, steeper from head to head (Press et al. 2022)."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def slopes(self) -> list[float]:
        """2^(-8/n), 2^(-16/n), ... for n heads; where n is no power of two, every other slope of twice that power."""
        power = 2 ** math.floor(math.log2(self.heads))
        slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
        extra = [2 ** (-4 * (i + 1) / power) for i in range(0, 2 * power, 2)]
        return slopes + extra[: self.heads - power]

    def forward(self, queries: int, keys: int, device: torch.device | None = None) -> DistanceBias:
        """The bias for so many queries, the last of which stands at the last key."""
        distances = _distances(queries, keys, device).abs()
        slopes = torch.tensor(self.slopes(), device=device)
        return DistanceBias(-slopes.unsqueeze(1) * distances, zero=max(keys - 1, 0))


def _distances(queries: int, keys: int, device: torch.device | None) -> Tensor:
    """Every distance that occurs, from the last query to the first key up to the first query to the last key."""
    return torch.arange(-max(keys - 1, 0), max(queries, 1), device=device)
