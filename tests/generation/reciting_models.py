"""Real models whose weights make them say a given text: the token at each place depends on the place alone.

Attention and feed-forward layers add nothing; the vector of position p is the one whose best token is the script's.
"""

from dataclasses import replace
from typing import Any

import torch
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from headwise import Decoder, EncoderDecoder, ModelConfig, Positions, StackConfig
from headwise.checkpoints.tokenizer import Tokenizer
from headwise.checkpoints.tokenizer_backend import Roles

PAD, END, SEP, ASK, SAY = "<pad>", "<end>", "<sep>", "<ask>", "<say>"
TEMPLATE = "{% for message in messages %}<ask>{{ message.content }}{% endfor %}<say>"
LOUD = 20.0


def byte_tokenizer(template: str | None = None) -> Tokenizer:
    """Every byte is a token, so that a character beyond ASCII has two to four."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Backend(models.BPE(vocab={sign: id for id, sign in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    names = (PAD, END, SEP, ASK, SAY)
    backend.add_special_tokens([AddedToken(name, special=True) for name in names])
    roles = {"pad_token": backend.token_to_id(PAD), "eos_token": backend.token_to_id(END)}
    return Tokenizer(backend, Roles(roles), "bytes", template)


def id_of(name: str) -> int:
    """The id of a special token, or of a letter."""
    (id,) = byte_tokenizer().encode(name, special=False)
    return id


def stack(context: int, dim: int) -> StackConfig:
    """One small block, and room for so many tokens."""
    learned = Positions(kind="learned", count=context)
    return StackConfig(layers=1, dim=dim, heads=2, hidden=4, causal=True, positions=learned, activation="gelu_tanh")


def config(context: int = 512) -> ModelConfig:
    """A decoder's."""
    size = byte_tokenizer().vocabulary_size + 1  # an even number, for two heads
    return ModelConfig(
        vocabulary=size, decoder=stack(context, size), context=context, pad_id=id_of(PAD), end_ids=(id_of(END),)
    )


def reciting_decoder(context: int = 512, template: str | None = None, **generation: Any) -> Decoder:
    """It says nothing yet."""
    model = Decoder(config(context)).eval()
    silence(model)
    model.tokenizer, model.generation = byte_tokenizer(template), generation
    return model


def reciting_encoder_decoder(context: int = 512, **generation: Any) -> EncoderDecoder:
    """Its target begins with the filling, as T5's does."""
    plain = config(context)
    assert plain.decoder is not None
    both = replace(
        plain, encoder=replace(plain.decoder, causal=False), decoder=replace(plain.decoder, cross=True),
        start_id=plain.pad_id,
    )  # fmt: skip
    model = EncoderDecoder(both).eval()
    silence(model)
    model.tokenizer, model.generation = byte_tokenizer(), generation
    return model


@torch.no_grad()
def silence(model: Any) -> None:
    """Nothing is added to a position's vector but a little of its token."""
    for stack in model.stacks().values():
        for block in stack.blocks:
            for layer in (
                block.attention.output,
                block.feedforward.down,
                *([block.cross.output] if block.cross else []),
            ):
                layer.weight.zero_()
                layer.bias.zero_()
        stack.positions.weight.zero_()
    model.embedding.weight.copy_(torch.eye(model.config.vocabulary))


@torch.no_grad()
def recite(model: Any, text: str, after: int = 1) -> None:
    """From now on the model goes on with this text after so many tokens, and then ends."""
    ids = [*model.tokenizer.encode(text, special=False), id_of(END)]
    model.decoder.positions.weight.zero_()
    for place, id in enumerate(ids, after - 1):
        model.decoder.positions.weight[place, id] = LOUD
