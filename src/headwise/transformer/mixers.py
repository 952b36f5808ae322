"""What may stand where attention stands in a block: causal convolution, plain or dilated, and recurrence."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from headwise.attention.masks import Mask
from headwise.transformer.config import MIXERS, StackConfig


class Convolution(nn.Module):
    """glu(Σ_j x[t - j·dilation]·W_j + b)·W_O: filters over `width` tokens and a gate for each (Gehring et al. 2017)."""

    def __init__(self, dim: int, width: int, dilation: int) -> None:
        super().__init__()
        self.width, self.dilation = width, dilation
        # One matrix for all taps: many small products would be slower than one large one.
        self.filters = nn.Linear(width * dim, 2 * dim)
        self.output = nn.Linear(dim, dim)

    def forward(self, x: Tensor, mask: Mask) -> Tensor:
        """[batch, token, dim] -> the same; filling and other documents of a row count as nought."""
        if mask.padding is not None:
            x = x.masked_fill(~mask.padding.unsqueeze(-1), 0.0)
        taps = [self._back(x, tap * self.dilation, mask.documents) for tap in range(self.width)]
        return self.output(nn.functional.glu(self.filters(torch.cat(taps, dim=-1))))

    def taps(self, filter: int) -> Tensor:
        """What one filter, without its gate, multiplies tokens with, [tap, dim]; tap j is j·dilation tokens back."""
        return self.filters.weight[filter].view(self.width, -1)

    def _back(self, x: Tensor, steps: int, documents: Tensor | None) -> Tensor:
        """For each token, the one that stands so many places before it, or nought."""
        kept = max(x.shape[1] - steps, 0)
        earlier = nn.functional.pad(x[:, :kept], (0, 0, x.shape[1] - kept, 0))
        if documents is None or not steps:
            return earlier
        before = nn.functional.pad(documents[:, :kept], (x.shape[1] - kept, 0))
        return earlier.masked_fill((before != documents).unsqueeze(-1), 0.0)


class Recurrence(nn.Module):
    """LSTM (Hochreiter and Schmidhuber 1997) or GRU (Cho et al. 2014) of one layer, and W_O."""

    def __init__(self, dim: int, gru: bool) -> None:
        super().__init__()
        self.cell = nn.GRU(dim, dim, batch_first=True) if gru else nn.LSTM(dim, dim, batch_first=True)
        self.output = nn.Linear(dim, dim)
        biases = dict(self.cell.named_parameters())
        for name in ("bias_ih_l0", "bias_hh_l0"):
            nn.init.zeros_(biases[name])
        if not gru:
            # The forget gates begin open, so that what was read is not lost at once (Gers et al. 2000).
            nn.init.ones_(biases["bias_ih_l0"][dim : 2 * dim])

    def forward(self, x: Tensor, mask: Mask) -> Tensor:
        """[batch, token, dim] -> the same; filling changes no state, and each document of a row begins a new one."""
        if mask.padding is None and mask.documents is None:
            return self.output(self.cell(x)[0])
        texts = _texts(x, mask)
        apart = x.new_zeros(texts.number, texts.longest, x.shape[2])
        apart[texts.text, texts.place] = x[texts.kept]
        mixed = torch.zeros_like(x)
        mixed[texts.kept] = self.cell(apart)[0][texts.text, texts.place]
        return self.output(mixed)


class _Texts(NamedTuple):
    """Which tokens of a batch there are, and in which text, at which place, each of them stands."""

    kept: Tensor
    text: Tensor
    place: Tensor
    number: int
    longest: int


def _texts(x: Tensor, mask: Mask) -> _Texts:
    kept = torch.ones_like(x[..., 0], dtype=torch.bool) if mask.padding is None else mask.padding
    rows = torch.arange(len(x), device=x.device).unsqueeze(1).expand_as(kept)
    documents = torch.zeros_like(rows) if mask.documents is None else mask.documents
    row, document = rows[kept], documents[kept]
    begins = torch.ones_like(row, dtype=torch.bool)
    begins[1:] = (row[1:] != row[:-1]) | (document[1:] != document[:-1])
    text = begins.long().cumsum(0) - 1
    order = torch.arange(len(row), device=x.device)
    place = order - order[begins][text]
    # Where all is filling, one empty text stands for none: a cell wants at least one token.
    number, longest = (int(text[-1]) + 1, int(place.max()) + 1) if len(row) else (1, 1)
    return _Texts(kept, text, place, number, longest)


def make_mixer(config: StackConfig, layer: int) -> Convolution | Recurrence | None:
    """What stands in this layer in the place of attention; None where attention does."""
    if config.mixer not in MIXERS:
        raise ValueError(f"mixer: got {config.mixer!r}, wanted one of {', '.join(MIXERS)}")
    if config.mixer == "attention":
        return None
    _check(config)
    if config.mixer in ("lstm", "gru"):
        return Recurrence(config.dim, gru=config.mixer == "gru")
    return Convolution(config.dim, config.filter_width, config.dilation(layer))


def _check(config: StackConfig) -> None:
    """Refuse what only attention can do, rather than leave it out unsaid."""
    beside = f"beside mixer={config.mixer!r}"
    if not config.causal:
        raise ValueError(f"causal: got False {beside}, wanted True: it reads from left to right")
    if any(config.windows):
        raise ValueError(f"windows: got {config.windows} {beside}, wanted none: they are attention's")
    if config.positions.kind in ("rotary", "buckets", "alibi"):
        raise ValueError(
            f"positions: got {config.positions.kind!r} {beside}, wanted none, learned or sinusoidal: "
            "the others are part of attention"
        )
    if config.mixer in ("convolution", "dilated") and config.filter_width < 2:
        raise ValueError(f"filter_width: got {config.filter_width}, wanted at least 2 tokens")
