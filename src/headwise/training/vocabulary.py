"""The tokenizer of a run: a byte-level BPE (Sennrich et al. 2016) trained on its texts, or the checkpoint's."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from headwise.checkpoints.tokenizer import Tokenizer
from headwise.checkpoints.tokenizer_backend import Roles, frame, guarded
from headwise.training.recipe import Recipe, Task

ROLES = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "sep_token": "<sep>", "mask_token": "<mask>"}
DEFAULT_SIZE = 8000
# What stands around every text: an encoder-decoder's source ends, a language model's text begins, and a summarizer's
# article is followed by the separator that the task puts there.
_FRAMES: dict[Task, tuple[str | None, str | None]] = {
    "language-model": ("<s>", None),
    "summarize": (None, None),
    "translate": (None, "</s>"),
    "masked-words": ("<s>", "</s>"),
}


def train_tokenizer(texts: Iterable[str], recipe: Recipe, where: Path) -> Tokenizer:
    """A vocabulary of all 256 bytes, the special tokens and what the texts repeat most."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, pre_tokenizers, trainers

    special = list(ROLES.values())
    if recipe.task == "summarize" and recipe.data.separator not in special:
        special.append(recipe.data.separator)
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=recipe.tokenizer.vocabulary or DEFAULT_SIZE,
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    with guarded(where, "tokenizer"):
        backend.train_from_iterator(texts, trainer)
        ids = {name: special.index(token) for name, token in ROLES.items()}
        begin, end = _FRAMES[recipe.task]
        frame(backend, backend.token_to_id(begin) if begin else None, backend.token_to_id(end) if end else None)
    tokenizer = Tokenizer(backend, Roles(ids), where)
    tokenizer.save(where)
    return tokenizer
