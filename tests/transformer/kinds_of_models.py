"""Small models of every kind of part: norms, positions, feed-forward layers, windows, heads."""

from dataclasses import replace

import torch

from headwise import Decoder, Encoder, EncoderDecoder, ModelConfig, Positions, StackConfig
from headwise.attention.scaling import RotaryScaling

BASE = StackConfig(layers=2, dim=24, heads=4, hidden=40, causal=True)
SMALL = replace(BASE, norm="rms", gated=True, activation="silu", attention_bias=False, output_bias=False)


def _rotary(kind: str | None = None, **more: object) -> Positions:
    scaling = None if kind is None else RotaryScaling(kind, 4.0, 16, **more)  # type: ignore[arg-type]
    return Positions(kind="rotary", scaling=scaling)


STACKS: dict[str, StackConfig] = {
    "learned": replace(BASE, positions=Positions(kind="learned", count=64)),
    "sinusoidal": replace(BASE, positions=Positions(kind="sinusoidal"), norm_place="post", final_norm=False),
    "rotary": replace(SMALL, positions=_rotary(), key_value_heads=2, feedforward_bias=False),
    "partly rotary": replace(SMALL, positions=Positions(kind="rotary", dims=4), query_key_norm=True),
    "llama3": replace(SMALL, positions=_rotary("llama3", low=1.0, high=4.0)),
    "yarn": replace(SMALL, positions=_rotary("yarn", low=1.0, high=32.0)),
    "window": replace(SMALL, positions=_rotary(), windows=(3, None), activation="relu"),
    "buckets": replace(SMALL, positions=Positions(kind="buckets", buckets=8, farthest=12), scale=1.0, head_dim=5),
    "alibi": replace(BASE, positions=Positions(kind="alibi"), activation="gelu_tanh"),
    "none": replace(BASE, embedding_norm=True, scale_by_layer=True, embedding_scale=2.0),
}


def decoder(kind: str, seed: int = 0, layers: int = 2) -> Decoder:
    """A decoder with every number drawn."""
    stack = replace(STACKS[kind], layers=layers)
    return drawn(Decoder(ModelConfig(vocabulary=50, decoder=stack, tied=kind != "yarn")), seed)


def encoder(masked: bool = True) -> Encoder:
    """A post-norm encoder with token types and, perhaps, a head for masked words."""
    stack = replace(BASE, causal=False, norm_place="post", embedding_norm=True, final_norm=False)
    stack = replace(stack, positions=Positions(kind="learned", count=40, offset=2))
    head = "masked" if masked else "none"
    return drawn(Encoder(ModelConfig(vocabulary=50, encoder=stack, head=head, token_types=2, pooler=True)))


def encoder_decoder(kind: str = "sinusoidal") -> EncoderDecoder:
    """Both stacks, of different depth."""
    stack = STACKS[kind]
    config = ModelConfig(
        vocabulary=50,
        encoder=replace(stack, causal=False, layers=1),
        decoder=replace(stack, cross=True),
        head_bias=True,
        head_scale=0.5,
    )
    return drawn(EncoderDecoder(config))


def drawn(model, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            values = 0.3 * torch.randn(parameter.shape, generator=generator)
            parameter.copy_(values + 1 if parameter.ndim == 1 else values)
    return model.eval()


def ids(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 50, shape, generator=torch.Generator().manual_seed(seed))
