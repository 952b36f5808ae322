"""The reduction: while a batch runs, each layer's weights become words and answers at once, and are forgotten."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwise.analysis.atlas.batches import Batch
from headwise.attention.equation import attention_steps
from headwise.errors import HeadwiseError
from headwise.tracing.collect import output_of
from headwise.tracing.seam import places_of, tapped
from headwise.tracing.tap import Call, Received, Tap

LENSES = ("weight", "wrote")
"""What a head looks at most: by its weights, or by how long what it wrote is, weight·‖v W_O‖."""
SHARES = ("next", "previous", "same", "first", "far", "special")
MEASURES = (*SHARES, "entropy", "sink")
"""Means over the words of a corpus: where the weight goes, how spread it is, and how much its largest goal draws."""
FAR = 5
"""Words from which on a look is far."""


@dataclass(eq=False)
class Tally:
    """What is counted of one chunk."""

    right: Tensor
    """[key, head, lens]: how often each head, all layers in a row, answered rightly."""
    shuffled: Tensor | None
    """The same, when the pairs are shuffled."""
    sums: Tensor | None
    """[head, measure]: the sums over words (sink: over sentences) of what heads do without labels."""


class Reader(Tap):
    """Sees one stack of a model run a batch, and tallies the answers."""

    def __init__(self, model: Any, wrote: bool = True) -> None:
        super().__init__()
        self.model, self.wrote = model, wrote
        self.mode = "decoder" if model.config.encoder is None else "encoder"
        stack = model.config.stacks[self.mode]
        self.causal: bool = stack.causal
        self.layers, self.heads = int(stack.layers), int(stack.heads)
        self.batch: Batch | None = None
        self.tally: Tally | None = None
        self.seen = 0
        self._widths: dict[int, Tensor] = {}
        self._kinds: dict[int, Tensor] = {}

    def wants(self, mode: str, layer: int) -> bool:
        """The attention of this stack to itself."""
        return mode == self.mode

    @torch.inference_mode()
    def read(self, batch: Batch, tally: Tally) -> None:
        """Run the batch; the tally grows."""
        self.batch, self.tally, self.seen = batch, tally, 0
        self.thread = threading.get_ident()  # an engine may call from another thread than the one that made this
        device = self.model.device
        ids = batch.ids.to(device)
        padding = None if batch.padding is None else batch.padding.to(device)
        places = [place for place in places_of(self.model) if place.mode == self.mode]
        with tapped(places, self), _one_kernel_for_all_shapes(self.model):
            if self.mode == "decoder":
                self.model.hidden(ids, padding)
            elif self.model.config.decoder is not None:
                self.model.encode(ids, padding)
            else:
                self.model(ids, padding)
        self.batch = self.tally = None
        if self.seen != self.layers:
            raise HeadwiseError(f"model: {self.seen} of its {self.layers} layers were seen to attend")

    def finish(self, call: Call) -> None:
        """The answers of one layer."""
        batch, tally, seen = self.batch, self.tally, call.received
        self.seen += 1
        assert batch is not None
        assert tally is not None
        assert seen is not None
        weights = (
            attention_steps(seen.query, seen.key, seen.value, seen.mask, seen.bias, seen.scale).weights.float().cpu()
        )
        heads = slice(call.layer * self.heads, (call.layer + 1) * self.heads)
        words = batch.means.unsqueeze(1) @ (weights @ batch.members.unsqueeze(1))
        self.count(batch, tally, words, heads, 0)
        if tally.sums is not None:
            tally.sums[heads] += self._shares(batch, weights, words)
        if not self.wrote:
            return
        weights *= self._norms(call, seen).unsqueeze(2)
        words = batch.means.unsqueeze(1) @ (weights @ batch.members.unsqueeze(1))
        self.count(batch, tally, words, heads, 1)

    def count(self, batch: Batch, tally: Tally, words: Tensor, heads: slice, lens: int) -> None:
        """Add up which heads are right."""
        answers = answers_of(batch, words)[batch.case_row]
        tally.right[:, heads, lens].index_add_(0, batch.case_key, batch.right.gather(1, answers).int())
        if tally.shuffled is not None:
            hits = (answers == batch.shuffled.unsqueeze(1)).int()
            tally.shuffled[:, heads, lens].index_add_(0, batch.case_key, hits)

    def _norms(self, call: Call, seen: Received) -> Tensor:
        """[sentence, head, token]: how long each value is after the head's part of W_O."""
        if call.layer not in self._widths:
            weight, _ = output_of(call.output_layer)
            if weight is None:
                raise HeadwiseError(f"model: layer {call.layer} has no W_O that could be read")
            parts = torch.from_numpy(weight).float().unflatten(1, (self.heads, -1)).transpose(0, 1)
            # ‖v W‖ = ‖v R‖ where W = QR: as many numbers as the head is wide, and not as the model.
            self._widths[call.layer] = torch.linalg.qr(parts, mode="r").R
        value = seen.value.float().cpu()
        value = value.repeat_interleave(self.heads // value.shape[1], dim=1)
        return (value @ self._widths[call.layer].mT).norm(dim=-1)

    def _shares(self, batch: Batch, weights: Tensor, words: Tensor) -> Tensor:
        """[head, measure]: sums over the words of the batch."""
        width = words.shape[-1]
        if width not in self._kinds:
            distance = torch.arange(width) - torch.arange(width).unsqueeze(1)
            first = torch.zeros_like(distance, dtype=torch.bool)
            first[:, 0] = True
            kinds = (distance == 1, distance == -1, distance == 0, first, distance.abs() >= FAR)
            self._kinds[width] = torch.stack(kinds, dim=-1).flatten(0, 1).float()
        means = batch.means.unsqueeze(1)
        looks = (words.flatten(2) @ self._kinds[width]).sum(0)
        added = (means @ (weights @ batch.special[:, None, :, None])).sum((0, 2))
        spread = -torch.special.xlogy(weights, weights).sum(-1, keepdim=True)
        entropy = (means @ spread).sum((0, 2))
        drawn = (means @ weights).sum(2) / batch.units[:, None, None]
        sink = drawn.amax(-1).sum(0).unsqueeze(1)
        return torch.cat([looks, added, entropy, sink], dim=1).double()


@contextmanager
def _one_kernel_for_all_shapes(model: Any) -> Generator[None]:
    """oneDNN compiles an activation for every shape it meets and keeps it, a quarter of a megabyte each time."""
    before = bool(torch.backends.mkldnn.enabled)
    if all(parameter.dtype == torch.float32 for parameter in model.parameters()):  # others it computes faster
        torch.backends.mkldnn.enabled = False
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = before


def answers_of(batch: Batch, words: Tensor) -> Tensor:
    """[row, head]: the unit that each head looks at most, among those that may be the answer."""
    rows = words[batch.row_sentence, :, batch.row_unit]
    if batch.looked_at is not None:
        columns = words[batch.row_sentence, :, :, batch.row_unit]
        rows = torch.where(batch.looked_at[:, None, None], columns, rows)
    return rows.masked_fill(~batch.allowed.unsqueeze(1), -1).argmax(-1)


def random_twin(model: Any, seed: int) -> Any:
    """The same model with weights drawn anew."""
    from headwise.transformer.model import build

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        twin = build(model.config)
    twin.tokenizer, twin.source = model.tokenizer, "random weights"
    return twin.eval().to(model.device)
