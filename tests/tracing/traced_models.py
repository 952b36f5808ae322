"""Small random models of every kind that is recorded, and a kernel that remembers what the equation says."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from headwise.attention.equation import attention_steps
from headwise.attention.kernels import find_kernel
from headwise.transformer.config import ModelConfig, Positions, StackConfig
from headwise.transformer.model import Decoder, Encoder, EncoderDecoder, build

WORDS = 50
LEARNED = Positions(kind="learned", count=64)
ROTARY = Positions(kind="rotary")
STACK = StackConfig(layers=3, dim=24, heads=4, hidden=32, positions=LEARNED)

ENCODER = ModelConfig(vocabulary=WORDS, encoder=replace(STACK, norm_place="post", final_norm=False), head="none")
DECODER = ModelConfig(
    vocabulary=WORDS, decoder=replace(STACK, causal=True, positions=ROTARY, heads=6, key_value_heads=2, norm="rms")
)
WINDOWED = replace(DECODER, decoder=replace(DECODER.decoder, windows=(3, None, 3)))
ALIBI = replace(DECODER, decoder=replace(DECODER.decoder, positions=Positions(kind="alibi")))
BUCKETS = Positions(kind="buckets", buckets=8, farthest=6)
PAIR = ModelConfig(
    vocabulary=WORDS,
    encoder=replace(STACK, positions=BUCKETS, scale=1.0),
    decoder=replace(STACK, positions=BUCKETS, scale=1.0, causal=True, cross=True),
)
CONFIGS = {
    "encoder": ENCODER,
    "decoder": DECODER,
    "windowed": WINDOWED,
    "alibi": ALIBI,
    "pair": PAIR,
}


def make(name: str, seed: int = 0) -> Any:
    """A model of this kind in eval mode, with weights large enough that heads differ."""
    torch.manual_seed(seed)
    model: Encoder | Decoder | EncoderDecoder = build(CONFIGS[name])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.4) if parameter.ndim > 1 else parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


def ids_of(batch: int, tokens: int, seed: int = 1) -> Tensor:
    """Random ids."""
    return torch.randint(0, WORDS, (batch, tokens), generator=torch.Generator().manual_seed(seed))


def inputs_of(name: str, batch: int = 1, tokens: int = 9) -> tuple[Tensor, ...]:
    """What this model is called with."""
    return (ids_of(batch, tokens), ids_of(batch, 6, 2)) if name == "pair" else (ids_of(batch, tokens),)


class Witness:
    """Stands as a model's kernel and remembers the steps of the equation, on what each attention received."""

    def __init__(self, model: Any) -> None:
        self.steps: dict[tuple[str, int], Any] = {}
        for place in model.attentions():
            place.module.kernel = self._kernel(place.mode, place.layer)

    def _kernel(self, mode: str, layer: int) -> Any:
        def kernel(query: Any, key: Any, value: Any, mask: Any, bias: Any, scale: float, dropout: float) -> Tensor:
            self.steps[mode, layer] = attention_steps(query, key, value, mask, bias, scale)
            return find_kernel("auto")(query, key, value, mask, bias, scale, dropout)

        return kernel
