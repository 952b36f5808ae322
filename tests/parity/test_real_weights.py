"""Real weights as the package index serves them, against the reference library reading the same files."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

import headwise

SENTENCES = [
    f"{opening} {middle}{ending}"
    for opening, middle in zip(
        ["The kids", "Nobody", "Yesterday", "In Łódź", "A heat pump", "Two of the five", "She", "日本の",
         "It", "Bread"],
        ["ran home", "answered", "it rained for hours on end", "the tram stops at midnight", "moves warmth uphill",
         "reports were never read by anybody, as it turned out", "paused", "電車は速い", "isn't", "needs flour"],
        strict=True,
    )
    for ending in (".", "?!", ", and then the whole town talked about it for a week.", " 🙂", " " + "again " * 40)
]  # fmt: skip
TEXT = (
    "The attention of a head is a weighted mean: each word asks a question, every earlier word offers a key, and the "
    "products decide whose value is passed on. In 2017 this replaced recurrence. def mean(xs): return sum(xs) / len(xs)"
    '\n\nOnce upon a time there was a lighthouse keeper called Ada, who counted 1234 ships in a year. "How many more?" '
    "she asked, and nobody knew. Élan, naïveté, Straße, 東京, and a smile 🙂 went past; the wind turned north-east.\n"
)  # fmt: skip


@pytest.fixture(scope="module")
def their_minilm(minilm: Any) -> Any:
    return transformers.BertModel.from_pretrained(minilm.source, attn_implementation="eager").eval()


@pytest.fixture(scope="module")
def their_smollm2(smollm2: Any) -> Any:
    """It takes the reference library a quarter of a minute to open."""
    file = Path(smollm2.source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = transformers.AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    return model.eval()


def padded(rows: list[list[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    ids = torch.full((len(rows), max(map(len, rows))), pad_id)
    kept = torch.zeros_like(ids, dtype=torch.bool)
    for number, row in enumerate(rows):
        ids[number, : len(row)], kept[number, : len(row)] = torch.tensor(row), True
    return ids, kept


@pytest.mark.weights
def test_fifty_sentences_in_one_padded_batch(minilm: Any, their_minilm: Any, close: Callable[..., None]) -> None:
    rows = [minilm.tokenizer.encode(sentence) for sentence in SENTENCES]
    assert len(rows) == 50
    assert len({len(row) for row in rows}) > 10
    ids, kept = padded(rows, minilm.tokenizer.pad_id)
    close(minilm(ids, kept)[kept], their_minilm(ids, attention_mask=kept.long()).last_hidden_state[kept])


@pytest.mark.weights
def test_sentence_vectors(minilm: Any, their_minilm: Any, close: Callable[..., None]) -> None:
    vectors = []
    for sentence in SENTENCES:
        ids = torch.tensor([minilm.tokenizer.encode(sentence)])
        hidden = their_minilm(ids).last_hidden_state[0]
        mean = hidden.sum(0) / len(hidden)
        vectors.append(mean / mean.square().sum().sqrt())
    ours = minilm.embed(SENTENCES, batch=7)
    close(ours, torch.stack(vectors))
    assert torch.allclose(minilm.embed(SENTENCES[3]), ours[3], atol=1e-6)


@pytest.mark.weights
def test_a_cut_sentence_keeps_its_ends(minilm: Any, close: Callable[..., None]) -> None:
    long = "rain " * 600
    with pytest.raises(ValueError, match="602 tokens, and the model allows 512"):
        minilm.embed(long)
    close(minilm.embed(long, truncate=12), minilm.embed("rain " * 10))


@pytest.mark.weights
def test_three_hundred_tokens(smollm2: Any, their_smollm2: Any, record_property: Callable[[str, Any], None]) -> None:
    ids = torch.tensor([smollm2.tokenizer.encode(TEXT * 3)[:300]])
    assert ids.shape[1] == 300
    ours, theirs = smollm2(ids), their_smollm2(ids).logits
    difference = (ours - theirs).abs().max().item()
    record_property("largest", difference)
    assert difference < 1e-3
    assert torch.equal(ours.argmax(-1), theirs.argmax(-1))


@pytest.mark.weights
def test_written_token_by_token(smollm2: Any, their_smollm2: Any) -> None:
    ids = torch.tensor([smollm2.tokenizer.encode(TEXT)[:20]])
    wanted = their_smollm2.generate(ids, max_new_tokens=8, do_sample=False, pad_token_id=0, eos_token_id=None)
    cache, piece, written = smollm2.new_cache(), ids, ids
    for _ in range(8):
        piece = smollm2(piece, cache=cache)[:, -1:].argmax(-1)
        written = torch.cat([written, piece], dim=1)
    assert torch.equal(written, wanted)


@pytest.mark.weights
def test_saved_real_weights(smollm2: Any, tmp_path: Path) -> None:
    headwise.save(smollm2, tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "llama"
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ids = smollm2.tokenizer.encode(TEXT)
    assert tokenizer(TEXT)["input_ids"] == ids
    some = torch.tensor([ids[:20]])
    difference = (smollm2(some) - theirs(some).logits).abs().max()
    assert difference < 1e-3
