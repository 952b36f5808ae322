"""What a model is made of: frozen dataclasses whose fields are kinds, never the names of families. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from headwise.attention.scaling import RotaryScaling

Activation = Literal["gelu", "gelu_tanh", "relu", "silu"]
Mixer = Literal["attention", "convolution", "dilated", "lstm", "gru"]
MIXERS: tuple[Mixer, ...] = get_args(Mixer)
Initialisation = Literal["normal", "normal_by_depth", "fan_in", "xavier"]


@dataclass(frozen=True)
class Positions:
    """How a stack knows where a token stands."""

    kind: Literal["none", "learned", "sinusoidal", "rotary", "buckets", "alibi"] = "none"
    count: int = 0
    """learned: how many positions there are; sinusoidal: how many the file of the reference library has room for."""
    offset: int = 0
    """learned: rows of the table that are left out before the first position."""
    layout: Literal["pairs", "halves"] = "pairs"
    """sinusoidal: sine and cosine side by side, or all sines and then all cosines."""
    base: float = 10000.0
    """rotary, sinusoidal: the longest wave is 2π times this."""
    dims: int | None = None
    """rotary: how many dimensions of a head are turned; None: all."""
    scaling: RotaryScaling | None = None
    """rotary: how the angles are stretched."""
    buckets: int = 32
    """buckets: how many there are."""
    farthest: int = 128
    """buckets: the distance from which on all share one."""


@dataclass(frozen=True)
class StackConfig:
    """A stack of equal blocks."""

    layers: int
    dim: int
    heads: int
    hidden: int
    """The width of the feed-forward layer."""
    mixer: Mixer = "attention"
    """What mixes the tokens; all but attention read from left to right, so the stack must be causal."""
    filter_width: int = 3
    """convolution, dilated: how many tokens a filter sees; dilated ones stand filter_width ** layer apart."""
    key_value_heads: int | None = None
    """None: as many as heads."""
    head_dim: int | None = None
    """None: dim / heads."""
    causal: bool = False
    cross: bool = False
    """Whether each block also attends to a memory."""
    windows: tuple[int | None, ...] = ()
    """One entry a layer: how many positions back a token sees; empty: all of them, everywhere."""
    positions: Positions = field(default_factory=Positions)
    norm: Literal["layer", "rms"] = "layer"
    epsilon: float = 1e-5
    norm_place: Literal["pre", "post"] = "pre"
    embedding_norm: bool = False
    final_norm: bool = True
    embedding_scale: float = 1.0
    activation: Activation = "gelu"
    gated: bool = False
    attention_bias: bool = True
    """Of query, key and value."""
    output_bias: bool = True
    feedforward_bias: bool = True
    query_key_norm: bool = False
    """Whether query and key of each head are normalised before they meet (Henry et al. 2020)."""
    scale: float | None = None
    """What q·k is multiplied with; None: 1/√head_dim."""
    scale_by_layer: bool = False
    """Whether it is divided by the number of the layer too, counted from one."""
    dropout: float = 0.0
    """Of what each part adds, and of the embeddings."""
    embedding_dropout: float | None = None
    """None: as dropout."""
    activation_dropout: float = 0.0
    """Of the wide vectors within the feed-forward layer."""
    attention_dropout: float = 0.0
    """Of the weights."""

    @property
    def size_of_head(self) -> int:
        """The length of one head's query."""
        return self.dim // self.heads if self.head_dim is None else self.head_dim

    @property
    def shared_heads(self) -> int:
        """How many heads have keys and values of their own."""
        return self.heads if self.key_value_heads is None else self.key_value_heads

    def dilation(self, layer: int) -> int:
        """How far apart the tokens stand that a filter of this layer sees."""
        return self.filter_width**layer if self.mixer == "dilated" else 1

    def window(self, layer: int) -> int | None:
        """How many positions back this layer sees; None: all."""
        return self.windows[layer] if self.windows else None


@dataclass(frozen=True)
class ModelConfig:
    """A whole model: an encoder, a decoder, or both, their embeddings and their head."""

    vocabulary: int
    encoder: StackConfig | None = None
    decoder: StackConfig | None = None
    head: Literal["none", "language", "masked"] = "language"
    head_bias: bool = False
    head_scale: float = 1.0
    """What the last vectors are multiplied with before the head."""
    tied: bool = True
    """Whether the head's matrix is the embedding."""
    token_types: int = 0
    pooler: bool = False
    initialisation: Initialisation = "normal"
    deviation: float = 0.02
    context: int = 0
    """The longest text of the training; 0: unknown."""
    pad_id: int | None = None
    begin_id: int | None = None
    end_ids: tuple[int, ...] = ()
    start_id: int | None = None
    """What an encoder-decoder's target begins with."""
    family: str = "headwise"
    architecture: str = "headwise"
    """The name under which the reference library knows it (`model_type`)."""
    raw: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False)
    """The configuration file as it was found, so that saving loses nothing."""

    @property
    def stacks(self) -> dict[str, StackConfig]:
        """The stacks there are, by name."""
        both = {"encoder": self.encoder, "decoder": self.decoder}
        return {name: stack for name, stack in both.items() if stack is not None}

    @property
    def dim(self) -> int:
        """The length of a token's vector."""
        return next(iter(self.stacks.values())).dim

    @property
    def layers(self) -> int:
        """Blocks of the decoder, or of the encoder where there is none."""
        return list(self.stacks.values())[-1].layers

    @property
    def heads(self) -> int:
        """Heads of the decoder, or of the encoder where there is none."""
        return list(self.stacks.values())[-1].heads
