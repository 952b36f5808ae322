"""Small models in directories, for the command line: an encoder, a decoder, both, and a family that is not ours."""

from pathlib import Path
from typing import Any

import torch
import transformers as library
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CORPUS = [
    "The kids were scared of the lions, so they left right away.",
    "Action gets results. Love Apple phones. Apple pie with cream.",
    "Keys on the table belong to Sarah; she lost them yesterday!",
] * 2
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SIZES: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
PAIR: dict[str, Any] = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}


def word_pieces(size: int) -> Tokenizer:
    """Of a small vocabulary, so that some words are several tokens."""
    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=SPECIAL, show_progress=False)
    backend.train_from_iterator(CORPUS, trainer)
    ends = [(name, backend.token_to_id(name)) for name in ("[SEP]", "[CLS]")]
    backend.post_processor = processors.BertProcessing(*ends)
    return backend


def byte_level() -> Tokenizer:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(CORPUS, trainer)
    return backend


def build(name: str, size: int) -> Any:
    """A random model of a vocabulary of this size."""
    if name == "encoder":
        return library.BertModel(library.BertConfig(**SIZES, vocab_size=size, max_position_embeddings=64))
    if name == "decoder":
        shared = {"num_key_value_heads": 2, "max_position_embeddings": 2048}
        return library.LlamaForCausalLM(library.LlamaConfig(**SIZES, **shared, vocab_size=size, bos_token_id=0))
    if name == "neox":
        return library.GPTNeoXForCausalLM(library.GPTNeoXConfig(**SIZES, vocab_size=size))
    config = library.T5Config(**PAIR, vocab_size=size, decoder_start_token_id=0, pad_token_id=0, eos_token_id=3)
    return library.T5ForConditionalGeneration(config)


def write(name: str, folder: Path) -> Path:
    """The model and its tokenizer, as the reference library saves them."""
    torch.manual_seed(5)
    backend = byte_level() if name in ("decoder", "neox") else word_pieces(120)
    model = build(name, backend.get_vocab_size())
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.25)
    model.save_pretrained(folder / name)
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]"} if name in ("encoder", "pair") else {}
    library.PreTrainedTokenizerFast(tokenizer_object=backend, **special).save_pretrained(folder / name)
    return folder / name
