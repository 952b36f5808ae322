"""Encoder, Decoder, EncoderDecoder: embeddings, one stack or two, and a head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headwise.attention.multihead import MultiHeadAttention
from headwise.errors import ContextError, UnsupportedError
from headwise.transformer.block import Block
from headwise.transformer.cache import ModelCache
from headwise.transformer.config import ModelConfig, StackConfig
from headwise.transformer.embedding import make_embedding
from headwise.transformer.heads import LanguageHead, MaskedHead, Pooler
from headwise.transformer.initialise import initialise
from headwise.transformer.stack import Stack


class AttentionPlace(NamedTuple):
    """Where an attention module stands."""

    mode: str
    """"encoder", "decoder" or "cross"."""
    layer: int
    module: MultiHeadAttention


class Model(nn.Module):
    """What all models have: a configuration, perhaps a tokenizer, and the places of their attention."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.tokenizer: Any = None
        """Set by `headwise.load`."""
        self.source: str | None = None
        """Where the weights came from."""
        self.name: str | None = None
        """The registered name, if it was loaded by one."""
        self.generation: Mapping[str, Any] = {}
        """The settings for writing that came with it."""
        self.embedding = make_embedding(config.vocabulary, config.dim)

    @property
    def family(self) -> str:
        """The family whose tables read it, such as "llama"."""
        return self.config.family

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.embedding.weight.device

    def stacks(self) -> dict[str, Stack]:
        """The stacks there are: "encoder", "decoder" or both."""
        return {name: module for name, module in self.named_children() if isinstance(module, Stack)}

    def attentions(self) -> list[AttentionPlace]:
        """Every attention of the model, in the order of the run."""
        places: list[AttentionPlace] = []
        for name, stack in self.stacks().items():
            for layer, block in enumerate(stack.blocks):
                assert isinstance(block, Block)
                if block.attention is not None:
                    places.append(AttentionPlace(name, layer, block.attention))
                if block.cross is not None:
                    places.append(AttentionPlace("cross", layer, block.cross))
        return places

    def tie(self) -> None:
        """Make the head's matrix the embedding, where the configuration says so."""
        head = getattr(self, "head", None)
        if not self.config.tied or not isinstance(head, LanguageHead | MaskedHead):
            return
        # Packed matrices are no parameters; they share their blocks already.
        if "weight" in dict(self.embedding.named_parameters()):
            head.words.weight = self.embedding.weight

    def _finish(self) -> None:
        initialise(self)
        self.tie()


class Encoder(Model):
    """Every token sees every other: texts to vectors."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        stack = _needed(config.encoder, "encoder")
        self.encoder = Stack(stack, config.token_types)
        self.pooler = Pooler(stack.dim) if config.pooler else None
        self.head = MaskedHead(config, stack) if config.head == "masked" else None
        self._finish()

    def forward(self, ids: Tensor, padding: Tensor | None = None, token_types: Tensor | None = None) -> Tensor:
        """The last hidden states, [batch, token, dim], of ids [batch, token]; padding: True for tokens."""
        return self.encoder(self.embedding(ids), padding=padding, token_types=token_types)

    def masked_logits(self, hidden: Tensor) -> Tensor:
        """A score for each word at each place, from the last hidden states."""
        if self.head is None:
            raise ValueError(f"this {self.config.architecture} came without a head for masked words")
        return self.head(hidden)

    def embed(self, texts: str | Sequence[str], batch: int = 32, truncate: int | None = None) -> Tensor:
        """One vector of length one for each text: the mean of its tokens' vectors (Reimers and Gurevych 2019).

        A text longer than the model allows is an error; `truncate` cuts every text to so many tokens instead, the
        special ones around it among them.
        """
        if self.tokenizer is None:
            raise UnsupportedError(f"model: {self.source or 'this one'} came without a tokenizer, and embeds no texts")
        one = isinstance(texts, str)
        rows = [self._cut(self.tokenizer.encode(text), truncate) for text in ([texts] if one else texts)]
        longest = max(map(len, rows), default=0)
        if self.config.context and longest > self.config.context:
            raise ContextError(f"a text has {longest} tokens, and the model allows {self.config.context}")
        vectors = torch.empty(len(rows), self.config.dim, device=self.device)
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
        for first in range(0, len(rows), batch):
            chosen = order[first : first + batch]
            vectors[torch.tensor(chosen)] = self._mean_vectors([rows[row] for row in chosen])
        return vectors[0] if one else vectors

    def _cut(self, ids: list[int], longest: int | None) -> list[int]:
        """At most so many ids; the special one at the end stays."""
        if longest is None or len(ids) <= longest:
            return ids
        closing = ids[-1:] if ids[-1] in self.tokenizer.special_ids else []
        return ids[: longest - len(closing)] + closing

    @torch.inference_mode()
    def _mean_vectors(self, rows: list[list[int]]) -> Tensor:
        ids, padding = pad(rows, self.config.pad_id or 0, self.device)
        hidden = self(ids, None if bool(padding.all()) else padding).float()
        kept = padding.unsqueeze(-1)
        mean = (hidden * kept).sum(1) / kept.sum(1).clamp(min=1)
        return nn.functional.normalize(mean, dim=-1)


class Decoder(Model):
    """Every token sees those before it: the language model."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.decoder = Stack(_needed(config.decoder, "decoder"))
        self.head = LanguageHead(config)
        self._finish()

    def forward(
        self,
        ids: Tensor,
        padding: Tensor | None = None,
        cache: ModelCache | None = None,
        documents: Tensor | None = None,
    ) -> Tensor:
        """The scores of every next word, [batch, token, vocabulary]; padding: True for tokens, False for filling."""
        return self.head(self.hidden(ids, padding, cache, documents))

    def hidden(
        self,
        ids: Tensor,
        padding: Tensor | None = None,
        cache: ModelCache | None = None,
        documents: Tensor | None = None,
    ) -> Tensor:
        """The last hidden states, before the head; `documents` numbers the texts that are packed in a row."""
        return self.decoder(self.embedding(ids), padding=padding, documents=documents, cache=cache)

    def new_cache(self, capacity: int = 0) -> ModelCache:
        """An empty cache for this model; `capacity` tokens are held without growing."""
        return ModelCache(self.decoder.config, capacity)


class EncoderDecoder(Model):
    """An encoder reads the source; a decoder, which also attends to what was read, writes the target."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.encoder = Stack(_needed(config.encoder, "encoder"), config.token_types)
        self.decoder = Stack(_needed(config.decoder, "decoder"))
        self.head = LanguageHead(config)
        self._finish()

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_padding: Tensor | None = None,
        target_padding: Tensor | None = None,
        cache: ModelCache | None = None,
    ) -> Tensor:
        """The scores of every next word of the target, [batch, token, vocabulary]."""
        memory = self.encode(source, source_padding)
        return self.decode(target, memory, source_padding, target_padding, cache)

    def encode(self, source: Tensor, source_padding: Tensor | None = None) -> Tensor:
        """What the decoder attends to, [batch, token, dim]."""
        return self.encoder(self.embedding(source), padding=source_padding)

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        source_padding: Tensor | None = None,
        target_padding: Tensor | None = None,
        cache: ModelCache | None = None,
    ) -> Tensor:
        """The scores of every next word, given what was read."""
        return self.head(self.hidden(target, memory, source_padding, target_padding, cache))

    def hidden(
        self,
        target: Tensor,
        memory: Tensor,
        source_padding: Tensor | None = None,
        target_padding: Tensor | None = None,
        cache: ModelCache | None = None,
    ) -> Tensor:
        """The last hidden states of the target, before the head."""
        return self.decoder(
            self.embedding(target),
            padding=target_padding,
            cache=cache,
            memory=memory,
            memory_padding=source_padding,
        )

    def new_cache(self, capacity: int = 0) -> ModelCache:
        """An empty cache for the decoder."""
        return ModelCache(self.decoder.config, capacity)


def build(config: ModelConfig) -> Encoder | Decoder | EncoderDecoder:
    """The model that this configuration describes."""
    if config.encoder is not None and config.decoder is not None:
        return EncoderDecoder(config)
    return Encoder(config) if config.decoder is None else Decoder(config)


def pad(
    rows: Sequence[Sequence[int]], pad_id: int, device: torch.device | str | None = None, left: bool = False
) -> tuple[Tensor, Tensor]:
    """Rows of ids as one rectangle [batch, token], and the padding that says which of them are tokens."""
    longest = max(map(len, rows), default=0)
    ids = torch.full((len(rows), longest), pad_id, dtype=torch.int64)
    padding = torch.zeros(len(rows), longest, dtype=torch.bool)
    for number, row in enumerate(rows):
        place = slice(longest - len(row), longest) if left else slice(0, len(row))
        ids[number, place] = torch.tensor(row, dtype=torch.int64)
        padding[number, place] = True
    return ids.to(device), padding.to(device)


def _needed(stack: StackConfig | None, name: str) -> StackConfig:
    if stack is None:
        raise ValueError(f"config.{name}: got None, wanted a StackConfig")
    return stack
