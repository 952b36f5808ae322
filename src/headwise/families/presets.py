"""Shapes with a name, to begin from."""

import math
from dataclasses import replace

from headwise.transformer.config import ModelConfig, Positions, StackConfig


def _transformer(layers: int, dim: int, heads: int, hidden: int, vocabulary: int = 37000) -> ModelConfig:
    """The encoder-decoder of Vaswani et al. 2017: post-norm, sinusoidal, one matrix for embeddings and head.

    All sines stand before all cosines, a fixed reordering of the paper's dimensions, so that the reference library
    reads what is saved (as Marian, the family of this shape).
    """
    stack = StackConfig(
        layers=layers,
        dim=dim,
        heads=heads,
        hidden=hidden,
        positions=Positions(kind="sinusoidal", count=1024, layout="halves"),
        norm_place="post",
        final_norm=False,
        embedding_scale=math.sqrt(dim),
        activation="relu",
        dropout=0.1,
    )
    return ModelConfig(
        vocabulary=vocabulary,
        encoder=stack,
        decoder=replace(stack, causal=True, cross=True),
        head_bias=True,
        initialisation="xavier",
        context=1024,
        pad_id=0,
        begin_id=1,
        end_ids=(2,),
        start_id=1,
        family="bart",
        architecture="marian",
    )


def _gpt2(layers: int, dim: int, heads: int, vocabulary: int = 50257, context: int = 1024) -> ModelConfig:
    """The decoders of Radford et al. 2019."""
    stack = StackConfig(
        layers=layers,
        dim=dim,
        heads=heads,
        hidden=4 * dim,
        causal=True,
        positions=Positions(kind="learned", count=context),
        activation="gelu_tanh",
        dropout=0.1,
        attention_dropout=0.1,
    )
    return ModelConfig(
        vocabulary=vocabulary,
        decoder=stack,
        initialisation="normal_by_depth",
        context=context,
        family="gpt2",
        architecture="gpt2",
    )


def _bert(layers: int, dim: int, heads: int, vocabulary: int = 30522, context: int = 512) -> ModelConfig:
    """The encoders of Devlin et al. 2019, with the head that guesses masked words."""
    stack = StackConfig(
        layers=layers,
        dim=dim,
        heads=heads,
        hidden=4 * dim,
        positions=Positions(kind="learned", count=context),
        epsilon=1e-12,
        norm_place="post",
        embedding_norm=True,
        final_norm=False,
        activation="gelu",
        dropout=0.1,
        attention_dropout=0.1,
    )
    return ModelConfig(
        vocabulary=vocabulary,
        encoder=stack,
        head="masked",
        head_bias=True,
        token_types=2,
        context=context,
        pad_id=0,
        family="bert",
        architecture="bert",
    )


presets: dict[str, ModelConfig] = {
    "transformer-base": _transformer(6, 512, 8, 2048),
    "transformer-big": _transformer(6, 1024, 16, 4096),
    "transformer-small": _transformer(3, 256, 4, 1024),
    "gpt2": _gpt2(12, 768, 12),
    "gpt2-small": _gpt2(6, 384, 6),
    "gpt2-tiny": _gpt2(4, 128, 4, context=256),
    "bert-base": _bert(12, 768, 12),
    "bert-tiny": _bert(2, 128, 2),
}
