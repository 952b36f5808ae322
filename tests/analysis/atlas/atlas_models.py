"""Small models whose heads are known, because the test sets their weights, and the corpus they read."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, pre_tokenizers, processors

import headwise
from headwise.analysis.atlas.corpora import chunks, sentences
from headwise.analysis.atlas.sentence import Sentence
from headwise.checkpoints.tokenizer import Tokenizer
from headwise.checkpoints.tokenizer_backend import Roles

CORPUS = Path(__file__).parent / "sentences.conllu"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
PLACES, KINDS, PAIRS = 20, 6, 48
NEXT, VERB, PAIR, EVERYWHERE = range(4)
"""What the heads of `known` read: the next word, the verb, the object that belongs to the verb, nothing."""


def corpus() -> list[Sentence]:
    """The sentences of the tests, parsed."""
    return [sentence for chunk in chunks([CORPUS]) for _, sentence in sentences(chunk)]


def tokenizer(words: list[str]) -> Tokenizer:
    """Each word is one token, between [CLS] and [SEP]."""
    names = [*SPECIAL, *sorted({word.lower() for word in words})]
    backend = Backend(models.WordLevel({name: at for at, name in enumerate(names)}, unk_token="[UNK]"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.add_special_tokens(SPECIAL)
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", names.index("[CLS]")), ("[SEP]", names.index("[SEP]"))]
    )
    ids = {"cls_token": names.index("[CLS]"), "sep_token": names.index("[SEP]"), "pad_token": 0, "unk_token": 1}
    return Tokenizer(backend, Roles(ids), "the tests")


def encoder(layers: int = 1, heads: int = 4, dim: int = 4 * 48, seed: int = 0, causal: bool = False) -> Any:
    """A model with random weights that knows the words of the corpus."""
    known = tokenizer([word.form for sentence in corpus() for word in sentence.words])
    stack = headwise.StackConfig(
        layers=layers,
        dim=dim,
        heads=heads,
        hidden=dim,
        causal=causal,
        positions=headwise.Positions(kind="learned", count=PLACES),
        norm_place="post",
    )
    config = headwise.ModelConfig(
        vocabulary=known.vocabulary_size,
        encoder=None if causal else stack,
        decoder=stack if causal else None,
        head="language" if causal else "none",
        context=PLACES,
        pad_id=0,
    )
    torch.manual_seed(seed)
    model = (headwise.Decoder if causal else headwise.Encoder)(config).eval()
    model.tokenizer = known
    return model


@torch.no_grad()
def known() -> Any:
    """One layer: its first head reads the next word, its second the verb, its third the verb's own object."""
    model = encoder()
    model.embedding.weight.zero_()
    positions = model.encoder.positions.weight
    positions.zero_()
    positions[:, :PLACES] = torch.eye(PLACES)
    texts = corpus()
    pairs = [
        (sentence.words[word.head].form, word.form)
        for sentence in texts
        for word in sentence.words
        if word.columns["deprel"] == "obj"
    ]
    id_of = {
        word.lower(): model.tokenizer.encode(word, special=False)[0]
        for s in texts
        for word in [w.form for w in s.words]
    }
    for sentence in texts:
        for word in sentence.words:
            if word.columns["upos"] == "VERB":
                model.embedding.weight[id_of[word.form.lower()], PLACES] = 1
    for at, (verb, goal) in enumerate(pairs):
        model.embedding.weight[id_of[verb.lower()], PLACES + KINDS + at] = 1
        model.embedding.weight[id_of[goal.lower()], PLACES + KINDS + PAIRS + at] = 1
    attention = model.encoder.blocks[0].attention
    for part in (attention.query, attention.key):
        part.weight.zero_()
        part.bias.zero_()
    width = attention.head_dim
    strong = 60.0
    for place in range(PLACES - 1):
        attention.query.weight[place, place] = strong
        attention.key.weight[place, place + 1] = 1
    attention.query.bias[width] = strong
    attention.key.weight[width, PLACES] = 1
    for at in range(PAIRS):
        attention.query.weight[2 * width + at, PLACES + KINDS + at] = strong
        attention.key.weight[2 * width + at, PLACES + KINDS + PAIRS + at] = 1
    return model
