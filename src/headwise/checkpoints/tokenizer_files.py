"""The tokenizer of a directory: tokenizer.json, or the older pairs of vocabulary files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.checkpoints.safetensors import parse_json, read_json
from headwise.checkpoints.splitters import QWEN2, by_pattern
from headwise.checkpoints.tokenizer_backend import NAMES, Roles, frame, guarded
from headwise.errors import TokenizerError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

MAX_FILE = 256 << 20
MAX_TEMPLATE = 1 << 20
WANTED = "tokenizer.json, vocab.json with merges.txt, or vocab.txt"
SENTENCEPIECE = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "source.spm")

_GPT2 = ("GPT2Tokenizer",)
_ROBERTA = ("RobertaTokenizer", "BartTokenizer")
_QWEN2 = ("Qwen2Tokenizer",)

_TOKEN_NAMES = sorted({name for names in NAMES.values() for name in names})

# What each kind of vocabulary calls its tokens when no file says so.
_ROBERTA_TOKENS: dict[str, Any] = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "cls_token": "<s>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "mask_token": "<mask>",
}
_BERT_TOKENS: dict[str, Any] = {
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "mask_token": "[MASK]",
}
_GPT2_TOKENS: dict[str, Any] = dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>")
_QWEN2_TOKENS: dict[str, Any] = dict.fromkeys(("eos_token", "pad_token"), "<|endoftext|>")
_TOKENS_OF = {
    **dict.fromkeys(_GPT2, _GPT2_TOKENS),
    **dict.fromkeys(_ROBERTA, _ROBERTA_TOKENS),
    **dict.fromkeys(_QWEN2, _QWEN2_TOKENS),
}
_CLASS_OF = {"gpt2": "GPT2Tokenizer", "roberta": "RobertaTokenizer", "bart": "BartTokenizer", "qwen2": "Qwen2Tokenizer"}


def from_directory(directory: Path) -> tuple[Backend, Roles, str | None]:
    """The backend, the roles of its ids, and the chat template."""
    settings = _settings(directory)
    complete = (directory / "tokenizer.json").exists()
    if not complete:
        settings = _defaults(directory, settings) | settings
    backend = _backend(directory, settings)
    _add_listed(backend, directory, settings)
    roles = _roles(backend, directory, settings)
    if not complete:  # a tokenizer.json says itself what stands around a text
        _respect_flags(backend, roles, directory, settings)
    return backend, roles, _template(directory, settings)


def _settings(directory: Path) -> dict[str, Any]:
    """What the small files say, the more particular file first; `config` is the model's own."""
    result: dict[str, Any] = {"config": {}}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (directory / name).exists():
            result |= read_json(directory / name, TokenizerError)
    if (directory / "config.json").exists():
        result["config"] = read_json(directory / "config.json", TokenizerError)
    return result


def _defaults(directory: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    if (directory / "vocab.json").exists():
        return _TOKENS_OF.get(_class(directory, settings) or "", {})
    return _BERT_TOKENS


def _backend(directory: Path, settings: Mapping[str, Any]) -> Backend:
    if (directory / "tokenizer.json").exists():
        return _from_json(directory / "tokenizer.json")
    if (directory / "vocab.json").exists() and (directory / "merges.txt").exists():
        return _from_merges(directory, settings)
    if (directory / "vocab.txt").exists():
        return _from_words(directory / "vocab.txt", settings)
    for name in SENTENCEPIECE:
        if (directory / name).exists():
            raise TokenizerError(directory / name, "file", f"sentencepiece models are not read; wanted {WANTED}")
    raise TokenizerError(directory, "tokenizer", f"none was found; wanted {WANTED}")


def read_text(path: Path, most: int = MAX_FILE) -> str:
    """The text of a file, when it is one and not too long."""
    try:
        if not path.is_file():
            raise TokenizerError(path, "file", "is not a regular file")
        if path.stat().st_size > most:
            raise TokenizerError(path, "file", f"is larger than {most} bytes")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise TokenizerError(path, "file", "is not valid UTF-8") from None
    except OSError as error:
        raise TokenizerError(path, "file", f"cannot be read: {error.strerror}") from error


def _from_json(path: Path) -> Backend:
    from tokenizers import Tokenizer

    text = read_text(path)
    _check_merges(path, parse_json(path, "tokenizer.json", text.encode(), TokenizerError).get("model"))
    with guarded(path, "tokenizer.json"):
        backend = Tokenizer.from_str(text)
        # Both belong to whoever makes a batch; MiniLM's file would fill every text up to 128 ids.
        backend.no_truncation()
        backend.no_padding()
    return backend


def _check_merges(path: Path, model: object) -> None:
    """Every second part of a merge begins with the prefix, where there is one: the library cuts it off unseen."""
    prefix = model.get("continuing_subword_prefix") if isinstance(model, dict) else None
    merges = model.get("merges") if isinstance(model, dict) else None
    if not prefix or not isinstance(merges, list):
        return
    for merge in merges:
        second = (
            merge.partition(" ")[2]
            if isinstance(merge, str)
            else merge[-1]
            if isinstance(merge, list) and merge
            else ""
        )
        if not str(second).startswith(str(prefix)):
            raise TokenizerError(path, "merges", f"{str(merge)[:60]!r} does not continue with {str(prefix)[:20]!r}")


def _class(directory: Path, settings: Mapping[str, Any]) -> str | None:
    name = settings.get("tokenizer_class") or _CLASS_OF.get(str(settings["config"].get("model_type")))
    name = name.removesuffix("Fast") if isinstance(name, str) else None
    if name in ("PreTrainedTokenizer", "TokenizersBackend"):
        return None
    known = [*_GPT2, *_ROBERTA, *_QWEN2]
    if name is not None and name not in known:
        raise TokenizerError(
            directory, "tokenizer_class", f"{name[:60]!r} with merges.txt is not one of {', '.join(known)}"
        )
    return name


def _from_merges(directory: Path, settings: Mapping[str, Any]) -> Backend:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    path = directory / "vocab.json"
    vocabulary = read_json(path, TokenizerError)
    for token, id in vocabulary.items():
        if not isinstance(id, int) or isinstance(id, bool) or not 0 <= id < 2**31:
            raise TokenizerError(path, token[:60], f"{id!r:.40} is not an id")
    kind = _class(directory, settings)
    with guarded(directory / "merges.txt", "merges"):
        backend = Tokenizer(models.BPE(vocabulary, _merges(directory / "merges.txt")))
        prefix = settings.get("add_prefix_space") is True
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
        backend.decoder = decoders.ByteLevel()
        if kind in _QWEN2:
            backend.normalizer = normalizers.NFC()
            backend.pre_tokenizer = by_pattern(QWEN2)
        if kind in _ROBERTA:
            first, last = ((name, _needed(vocabulary, name, path)) for name in ("<s>", "</s>"))
            backend.post_processor = processors.RobertaProcessing(last, first, True, prefix)
    return backend


def _needed(vocabulary: Mapping[str, int], token: str, path: Path) -> int:
    if token not in vocabulary:
        raise TokenizerError(path, token, "is not in the vocabulary")
    return vocabulary[token]


def _merges(path: Path) -> list[tuple[str, str]]:
    merges: list[tuple[str, str]] = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip() or (number == 1 and line.startswith("#version")):
            continue
        parts = tuple(line.removesuffix("\r").split(" "))
        if len(parts) != 2:
            raise TokenizerError(path, f"line {number}", f"{line[:60]!r} is not two tokens with a space between")
        merges.append(parts)
    return merges


def _from_words(path: Path, settings: Mapping[str, Any]) -> Backend:
    """BERT's list of word pieces."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    words = [line.removesuffix("\r") for line in read_text(path).removesuffix("\n").split("\n")]
    vocabulary = {word: index for index, word in enumerate(words)}
    unknown, first, last = (_content(settings[name]) or "" for name in ("unk_token", "cls_token", "sep_token"))
    accents = settings.get("strip_accents")
    with guarded(path, "vocabulary"):
        backend = Tokenizer(models.WordPiece(vocabulary, unk_token=unknown))
        backend.normalizer = normalizers.BertNormalizer(
            handle_chinese_chars=settings.get("tokenize_chinese_chars") is not False,
            strip_accents=accents if isinstance(accents, bool) else None,
            lowercase=settings.get("do_lower_case") is not False,
        )
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.WordPiece()
        ends = ((name, _needed(vocabulary, name, path)) for name in (last, first))
        backend.post_processor = processors.BertProcessing(*ends)
    return backend


def _content(value: object) -> str | None:
    """A token as text: written plainly, or as an object with `content`."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) and value else None


def _add_listed(backend: Backend, directory: Path, settings: Mapping[str, Any]) -> None:
    """Special tokens that only the small files name: they are matched whole, if the vocabulary has them."""
    from tokenizers import AddedToken

    values = [settings.get(name) for name in _TOKEN_NAMES]
    listed = settings.get("added_tokens_decoder")
    if isinstance(listed, dict):
        values += [about for about in listed.values() if isinstance(about, dict) and about.get("special") is True]
    with guarded(directory, "special tokens"):
        there = {token.content for token in backend.get_added_tokens_decoder().values()}
        for value in values:
            token = _content(value)
            if token is None or token in there or backend.token_to_id(token) is None:
                continue
            about: Mapping[str, Any] = value if isinstance(value, dict) else {}
            flags = {name: about.get(name) is True for name in ("lstrip", "rstrip", "single_word", "normalized")}
            backend.add_special_tokens([AddedToken(token, special=True, **flags)])
            there.add(token)


def _roles(backend: Backend, directory: Path, settings: Mapping[str, Any]) -> Roles:
    found: dict[str, int] = {}
    for name in _TOKEN_NAMES:
        token = _content(settings.get(name))
        id = backend.token_to_id(token) if token is not None else None
        if id is not None:
            found[name] = id
    config = settings["config"]
    for name in ("bos_token", "eos_token", "pad_token"):
        ids = _ids(backend, config.get(name + "_id"))
        if name not in found and ids:
            found[name] = ids[0]
    more = _ids(backend, config.get("eos_token_id"))
    if (directory / "generation_config.json").exists():
        more += _ids(backend, read_json(directory / "generation_config.json", TokenizerError).get("eos_token_id"))
    return Roles(found, tuple(dict.fromkeys(more)))


def _ids(backend: Backend, value: object) -> list[int]:
    """The ids in a field that holds one or several, without those that the vocabulary has not."""
    values = value if isinstance(value, list) else [value]
    right = [id for id in values if isinstance(id, int) and not isinstance(id, bool) and 0 <= id < 2**31]
    return [id for id in right if backend.id_to_token(id) is not None]


def _respect_flags(backend: Backend, roles: Roles, directory: Path, settings: Mapping[str, Any]) -> None:
    """`add_bos_token` and `add_eos_token`, when they are given, decide what stands around a text."""
    flags = [settings.get(name) for name in ("add_bos_token", "add_eos_token")]
    if not any(isinstance(flag, bool) for flag in flags):
        return
    begin = roles.get("begin") if flags[0] is True else None
    end = roles.get("end") if flags[1] is True else None
    with guarded(directory / "tokenizer_config.json", "add_bos_token"):
        frame(backend, begin, end)


def _template(directory: Path, settings: Mapping[str, Any]) -> str | None:
    if (directory / "chat_template.jinja").exists():
        return read_text(directory / "chat_template.jinja", MAX_TEMPLATE)
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = [item for item in template if isinstance(item, dict)]
        template = next((item.get("template") for item in named if item.get("name") == "default"), None)
    if template is not None and not isinstance(template, str):
        raise TokenizerError(directory / "tokenizer_config.json", "chat_template", "must be text")
    return template
