"""The same accuracies from plain loops over the eager attentions of the transformers library."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from atlas_models import CORPUS, corpus
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import headwise
from headwise.analysis.atlas.corpora import chunks, sentences
from headwise.analysis.atlas.counts import Total
from headwise.analysis.atlas.relations import shipped
from headwise.analysis.atlas.sentence import Sentence
from headwise.analysis.atlas.worker import Plan, Worker

EWT = Path(__file__).parents[4] / "shared" / "data" / "ewt" / "dev.conllu.gz"
ROWS = ("object", "determiner", "adjective", "auxiliary", "passive-auxiliary")
NOUNS = {"NOUN", "PROPN", "PRON"}
CLEAR = 1e-5
"""A head that gives two words weights as close as this may answer either way."""


def split_words(place: Path) -> None:
    """A tokenizer that cuts most words of the corpus in pieces."""
    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    texts = [sentence.text for sentence in corpus()]
    backend.train_from_iterator(
        texts, trainers.WordPieceTrainer(vocab_size=120, special_tokens=special, show_progress=False)
    )
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **names).save_pretrained(place)


@pytest.fixture
def small(tmp_path: Path) -> tuple[Any, Any]:
    """A random BERT, in both libraries."""
    split_words(tmp_path)
    config = transformers.BertConfig(
        vocab_size=120,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=64,
        attn_implementation="eager",
    )
    torch.manual_seed(3)
    theirs = transformers.BertModel(config).eval()
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if parameter.ndim > 1 and "LayerNorm" not in name:
                parameter.normal_(std=0.4)
    theirs.save_pretrained(tmp_path)
    return theirs, headwise.load(tmp_path)


def pairs_of(sentence: Sentence) -> Iterator[tuple[str, int, int]]:
    """Relation, from, to: read off the columns once more."""
    for number, word in enumerate(sentence.words):
        if word.head < 0:
            continue
        above, upos, deprel = sentence.words[word.head], word.columns.get("upos"), word.columns["deprel"]
        if deprel == "obj" and above.columns.get("upos") == "VERB" and upos in NOUNS:
            yield "object", word.head, number
        if deprel == "det" and upos == "DET" and above.columns.get("upos") in ("NOUN", "PROPN"):
            yield "determiner", number, word.head
        if deprel == "amod" and upos == "ADJ" and above.columns.get("upos") in ("NOUN", "PROPN"):
            yield "adjective", number, word.head
        if deprel in ("aux", "aux:pass") and upos == "AUX" and above.columns.get("upos") == "VERB":
            yield "auxiliary" if deprel == "aux" else "passive-auxiliary", number, word.head


def looks(model: Any, tokenizer: Any, text: str, spans: list[tuple[int, int]]) -> tuple[Any, list[int]]:
    """[lens, layer · head, word, word] by plain sums and means, and which of them each word of the corpus is."""
    encoded = tokenizer(text, return_offsets_mapping=True, return_tensors="pt")
    offsets = encoded.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        ran = model(**encoded, output_attentions=True, output_hidden_states=True)
    tokens = [[at for at, (a, b) in enumerate(offsets) if a < end and b > start and b > a] for start, end in spans]
    assert all(tokens)
    tokens, which = joined(tokens)
    heads = model.config.num_attention_heads
    found: list[list[Any]] = [[], []]
    for layer, block in enumerate(model.encoder.layer):
        own, dense = block.attention.self, block.attention.output.dense
        with torch.no_grad():
            value = own.value(ran.hidden_states[layer])[0].view(len(offsets), heads, -1)
        width = value.shape[-1]
        for head in range(heads):
            weights = ran.attentions[layer][0, head].double().numpy()
            part = dense.weight[:, head * width : (head + 1) * width].detach().double()
            wrote = weights * (value[:, head].double() @ part.T).norm(dim=-1).numpy()
            for lens, matrix in enumerate((weights, wrote)):
                columns = np.stack([matrix[:, goal].sum(axis=1) for goal in tokens], axis=1)
                found[lens].append(np.stack([columns[own].mean(axis=0) for own in tokens]))
    return np.array(found), which


def joined(tokens: list[list[int]]) -> tuple[list[list[int]], list[int]]:
    """Words that share a token are one, as did and n't whose tokens are didn, ' and t."""
    found: list[list[int]] = []
    which: list[int] = []
    for own in tokens:
        if found and set(found[-1]) & set(own):
            found[-1] = sorted({*found[-1], *own})
        else:
            found.append(own)
        which.append(len(found) - 1)
    return found, which


def plainly(model: Any, tokenizer: Any, texts: list[Sentence]) -> tuple[dict[Any, Any], dict[Any, Any], dict[Any, int]]:
    """By relation and direction: how often each head was right, how often it could not be told, and of how many."""
    right: dict[Any, Any] = {}
    open_: dict[Any, Any] = {}
    count: dict[Any, int] = {}
    for sentence in texts:
        seen, which = looks(model, tokenizer, sentence.text, [(word.start, word.end) for word in sentence.words])
        goals: dict[Any, set[int]] = {}
        for name, source, goal in pairs_of(sentence):
            goals.setdefault((name, 0, source), set()).add(goal)
            goals.setdefault((name, 1, goal), set()).add(source)
        for (name, way, word), words in goals.items():
            source, wanted = which[word], {which[goal] for goal in words} - {which[word]}
            if not wanted:
                continue
            scores = seen[:, :, source].copy()
            scores[:, :, source] = -1
            two = np.sort(scores, axis=-1)[..., -2:]
            hit = np.isin(scores.argmax(-1), list(wanted))
            right[name, way] = right.get((name, way), 0) + hit
            open_[name, way] = open_.get((name, way), 0) + (two[..., 1] - two[..., 0] < CLEAR * two[..., 1])
            count[name, way] = count.get((name, way), 0) + 1
    return right, open_, count


def check(theirs: Any, tokenizer: Any, ours: Any, file: Path, limit: int) -> int:
    """Count both ways; returns the number of questions that were compared."""
    (chunk,) = chunks([file], limit, limit)
    relations = {name: shipped()[name] for name in ROWS}
    total = Total(ours.config.encoder.layers * ours.config.encoder.heads)
    total.add(Worker(ours.eval(), Plan(relations, random=False, measures=False)).work(chunk))
    texts = [sentence for _, sentence in sentences(chunk)]
    right, unsure, count = plainly(theirs, tokenizer, texts)
    for row, found in right.items():
        counts = total.rows[row]
        assert counts.pairs.sum() == count[row]
        difference = np.abs(counts.heads["right"].sum(0).T - found)
        assert (difference <= unsure[row]).all(), (row, difference.max())
        assert difference.sum() <= 2
    assert total.unaligned == 0
    return sum(count.values())


def test_the_accuracies_are_those_of_plain_loops(small: tuple[Any, Any]) -> None:
    theirs, ours = small
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(theirs.name_or_path or ours.source)
    assert check(theirs, tokenizer, ours, CORPUS, 48) > 300


@pytest.mark.weights
@pytest.mark.skipif(not EWT.exists(), reason="the data for measuring is not here")
def test_the_accuracies_of_real_weights_on_a_treebank(minilm: Any) -> None:
    theirs = transformers.BertModel.from_pretrained(minilm.source, attn_implementation="eager").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm.source)
    assert check(theirs, tokenizer, minilm, EWT, 200) > 1000
