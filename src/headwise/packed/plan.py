"""A decoder's modules as the one structure that the C step reads, or the reason why it cannot."""

import ctypes
from typing import Any

import torch
from torch import Tensor, nn

from headwise.packed.blocks import PackedWeight
from headwise.packed.kinds import BLOCK, GROUP
from headwise.packed.linear import PackedLinear
from headwise.packed.native import weight_struct
from headwise.packed.structs import Decoder, Layer, Norm, Weight

ACTIVATIONS = {"silu": 0, "gelu_tanh": 1, "gelu": 2, "relu": 3}
NORMS = {"rms": 0, "layer": 1}
POSITIONS = ("none", "learned", "sinusoidal", "rotary")


class CannotPlan(Exception):
    """Why a model runs through its modules."""


class Plan:
    """The structure, and all that it points at: it must live as long as the structure is used."""

    def __init__(self, model: Any) -> None:
        # The rooms above are not imported here, so the model's parts are known by their names only.
        self.config = config = model.decoder.config
        self._kept: list[Tensor] = []
        self.packed = True
        """Whether all matrices are: plain floats are read faster by torch, when they meet many tokens."""
        check_kinds(config)
        blocks: list[Any] = list(model.decoder.blocks)
        self._layers = (Layer * len(blocks))()
        for layer, block in enumerate(blocks):
            self._fill(self._layers[layer], block, config.window(layer) or 0)
        self.decoder = Decoder(
            layers=len(blocks),
            dim=config.dim,
            heads=config.heads,
            key_heads=config.shared_heads,
            head_dim=config.size_of_head,
            hidden=config.hidden,
            rotary_dims=0 if model.decoder.rotary is None else model.decoder.rotary.dims,
            epsilon=config.epsilon,
            head_factor=model.head.scale,
            norm_kind=NORMS[config.norm],
            activation=ACTIVATIONS[config.activation],
            layer=ctypes.cast(self._layers, ctypes.POINTER(Layer)),
            final=self._norm(model.decoder.norm, config.dim),
            head=self._weight(model.head.words, model.config.vocabulary, config.dim),
        )

    def _fill(self, layer: Any, block: Any, window: int) -> None:
        config, attention, wide = self.config, block.attention, block.feedforward
        joined = config.heads * config.size_of_head
        shared = config.shared_heads * config.size_of_head
        check_block(block)
        for place, (linear, rows) in enumerate(
            ((attention.query, joined), (attention.key, shared), (attention.value, shared))
        ):
            layer.projections[place] = self._weight(linear, rows, config.dim)
        layer.output = self._weight(attention.output, config.dim, joined)
        if wide.gate is not None:
            layer.gate = self._weight(wide.gate, config.hidden, config.dim)
        layer.up = self._weight(wide.up, config.hidden, config.dim)
        layer.down = self._weight(wide.down, config.dim, config.hidden)
        layer.attention = self._norm(block.attention_norm, config.dim)
        layer.feedforward = self._norm(block.feedforward_norm, config.dim)
        layer.query = self._norm(attention.query_norm, config.size_of_head)
        layer.key = self._norm(attention.key_norm, config.size_of_head)
        layer.score_scale, layer.window = attention.scale, window

    def _weight(self, linear: Any, rows: int, columns: int) -> Weight:
        """The structure is filled from the sizes that the configuration promises, after they were compared."""
        weight: PackedWeight | Tensor
        if isinstance(linear, PackedLinear):
            weight, bias = linear.packed, linear.bias
            self._kept.append(weight.data)
        elif isinstance(linear, nn.Linear):
            weight, bias = self._floats(linear.weight), linear.bias
            self.packed = False
        else:
            raise CannotPlan(f"a {type(linear).__name__} stands where a linear layer should")
        if tuple(weight.shape) != (rows, columns):
            raise CannotPlan(f"a matrix has the shape {list(weight.shape)}, not [{rows}, {columns}]")
        return weight_struct(weight, None if bias is None else self._floats(bias))

    def _norm(self, norm: Any, size: int) -> Norm:
        if norm is None:
            return Norm()
        shift: Tensor | None = getattr(norm, "bias", None)
        for part in (norm.weight, shift):
            if part is not None and tuple(part.shape) != (size,):
                raise CannotPlan(f"a norm has the shape {list(part.shape)}, not [{size}]")
        return Norm(self._floats(norm.weight).data_ptr(), None if shift is None else self._floats(shift).data_ptr())

    def _floats(self, tensor: Tensor) -> Tensor:
        tensor = tensor.detach()
        if tensor.dtype != torch.float32 or tensor.device.type != "cpu" or not tensor.is_contiguous():
            raise CannotPlan(f"a tensor is {tensor.dtype} on {tensor.device}, not plain float32 on the processor")
        self._kept.append(tensor)
        return tensor


def check_block(block: Any) -> None:
    """Refuses blocks that a step does not compute."""
    if block.cross is not None or not block.pre:
        raise CannotPlan("its blocks are not of the plain kind with norms first")


def check_kinds(config: Any) -> None:
    """Refuses what a step does not compute."""
    if config.cross or not config.causal:
        raise CannotPlan("it is not a decoder of its own")
    if config.mixer != "attention":
        raise CannotPlan(f"{config.mixer} in the place of attention")
    if config.norm_place != "pre" or config.norm not in NORMS or config.activation not in ACTIVATIONS:
        raise CannotPlan(f"{config.norm} norms placed {config.norm_place} with {config.activation}")
    if config.positions.kind not in POSITIONS:
        raise CannotPlan(f"positions of the kind {config.positions.kind!r}")
    if config.positions.scaling is not None and config.positions.scaling.kind == "dynamic":
        raise CannotPlan("angles that change with the length of the text")
    for name, size, unit in (
        ("dim", config.dim, BLOCK),
        ("hidden", config.hidden, BLOCK),
        ("heads x head_dim", config.heads * config.size_of_head, BLOCK),
        ("head_dim", config.size_of_head, GROUP),
    ):
        if size % unit:
            raise CannotPlan(f"{name} is {size}, not a multiple of {unit}")
