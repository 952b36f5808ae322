"""The tokenizer that a GGUF file's metadata describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headwise.checkpoints.splitters import splitter, takes_whole_words
from headwise.checkpoints.tokenizer_backend import Roles, frame, guarded
from headwise.errors import TokenizerError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

KEY = "tokenizer.ggml."
CONTROL, WRITTEN = 3, 4
_NAMES = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "pad_token": "padding_token_id",
    "unk_token": "unknown_token_id",
    "sep_token": "seperator_token_id",  # the format's own spelling
    "cls_token": "cls_token_id",
    "mask_token": "mask_token_id",
}
_MORE_ENDS = ("eot_token_id", "eom_token_id")


def from_metadata(metadata: Mapping[str, Any], where: object) -> tuple[Backend, Roles]:
    """The backend and the roles of its ids."""
    kind = metadata.get(KEY + "model")
    builders = {"gpt2": _byte_level, "llama": _sentencepiece}
    if not isinstance(kind, str) or kind not in builders:
        raise TokenizerError(where, KEY + "model", f"{kind!r:.60} is not one of {', '.join(builders)}")
    tokens = _tokens(metadata, where)
    with guarded(where, KEY + "tokens"):
        backend = builders[kind](metadata, tokens, where)
        _add_special(backend, metadata, tokens, where)
    roles = _roles(metadata, len(tokens), where)
    begin = _flag(metadata, "add_bos_token", kind == "llama", where)
    end = _flag(metadata, "add_eos_token", False, where)
    for flag, role in ((begin, "begin"), (end, "end")):
        if flag and roles.get(role) is None:
            raise TokenizerError(where, KEY + "tokens", f"the file gives no id to {role} a text with, and asks for it")
    frame(backend, roles.get("begin") if begin else None, roles.get("end") if end else None)
    return backend, roles


def _tokens(metadata: Mapping[str, Any], where: object) -> list[str]:
    tokens = _texts(metadata, "tokens", where)
    if not tokens:
        raise TokenizerError(where, KEY + "tokens", "is missing or empty")
    if len(set(tokens)) != len(tokens):
        seen: set[str] = set()
        twice = next(token for token in tokens if token in seen or seen.add(token))
        raise TokenizerError(where, KEY + "tokens", f"the token {twice[:60]!r} occurs twice")
    return tokens


def _texts(metadata: Mapping[str, Any], name: str, where: object) -> list[str]:
    value = metadata.get(KEY + name, [])
    # The reader gives lists of texts as lists and lists of numbers as arrays.
    if not isinstance(value, list):
        raise TokenizerError(where, KEY + name, "must be a list of texts")
    return value


def _numbers(metadata: Mapping[str, Any], name: str, count: int, where: object) -> Sequence[float]:
    value = metadata.get(KEY + name)
    if value is None:
        return []
    if isinstance(value, str | list | int | float) or len(value) != count:
        raise TokenizerError(where, KEY + name, f"must be {count} numbers, one for each token")
    return value


def _flag(metadata: Mapping[str, Any], name: str, default: bool, where: object) -> bool:
    value = metadata.get(KEY + name, default)
    if not isinstance(value, bool):
        raise TokenizerError(where, KEY + name, f"must be true or false, not {value!r:.40}")
    return value


def _merges(metadata: Mapping[str, Any], where: object) -> list[tuple[str, str]]:
    merges: list[tuple[str, str]] = []
    for merge in _texts(metadata, "merges", where):
        left, _, right = merge.partition(" ")
        if not left or not right or " " in right:
            raise TokenizerError(where, KEY + "merges", f"{merge[:60]!r} is not two tokens with a space between")
        merges.append((left, right))
    return merges


def _byte_level(metadata: Mapping[str, Any], tokens: list[str], where: object) -> Backend:
    """Byte-level merging, as in GPT-2, Llama 3, Qwen and SmolLM."""
    from tokenizers import Tokenizer, decoders, models

    pre = metadata.get(KEY + "pre", "default")
    vocabulary = {token: index for index, token in enumerate(tokens)}
    model = models.BPE(vocabulary, _merges(metadata, where), ignore_merges=takes_whole_words(pre))
    backend = Tokenizer(model)
    backend.pre_tokenizer = splitter(pre, where)
    backend.decoder = decoders.ByteLevel()
    return backend


def _sentencepiece(metadata: Mapping[str, Any], tokens: list[str], where: object) -> Backend:
    """Merging by score with a byte for what is unknown, as in Llama 2 and Mistral."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    merges = _merges(metadata, where)
    if not merges:
        scores = _numbers(metadata, "scores", len(tokens), where)
        if not len(scores):
            raise TokenizerError(where, KEY + "scores", "is missing, and so is merges")
        merges = _merges_by_score(tokens, scores)
    unknown = metadata.get(KEY + "unknown_token_id", 0)
    if not isinstance(unknown, int) or not 0 <= unknown < len(tokens):
        raise TokenizerError(where, KEY + "unknown_token_id", f"{unknown!r:.40} is not the id of a token")
    vocabulary = {token: index for index, token in enumerate(tokens)}
    model = models.BPE(vocabulary, merges, fuse_unk=True, byte_fallback=True, unk_token=tokens[unknown])
    backend = Tokenizer(model)
    prefix = _flag(metadata, "add_space_prefix", True, where)
    scheme = "first" if prefix else "never"
    backend.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme=scheme, split=False)
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if prefix else steps)
    return backend


def _merges_by_score(tokens: list[str], scores: Sequence[float]) -> list[tuple[str, str]]:
    """Every way to make a token of two others; better scores first, and longer left parts before shorter ones."""
    known = {token: index for index, token in enumerate(tokens)}
    found: list[tuple[float, int, int, str, str]] = []
    for token, score in zip(tokens, scores, strict=True):
        pairs = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        pairs = [(left, right) for left, right in pairs if left in known and right in known]
        pairs.sort(key=lambda pair: (known[pair[0]], known[pair[1]]))
        found += [(score, len(left), len(right), left, right) for left, right in pairs]
    found.sort(key=lambda row: row[:3], reverse=True)
    return [(left, right) for *_, left, right in found]


def _add_special(backend: Backend, metadata: Mapping[str, Any], tokens: list[str], where: object) -> None:
    """Tokens that are matched whole in a text: control tokens, and those that a user may write."""
    from tokenizers import AddedToken

    kinds = _numbers(metadata, "token_type", len(tokens), where)
    control = [token for token, kind in zip(tokens, kinds, strict=False) if kind == CONTROL]
    written = [token for token, kind in zip(tokens, kinds, strict=False) if kind == WRITTEN]
    backend.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in control if token])
    backend.add_tokens([AddedToken(token, normalized=False, special=False) for token in written if token])


def _roles(metadata: Mapping[str, Any], count: int, where: object) -> Roles:
    def read(name: str) -> int | None:
        value = metadata.get(KEY + name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < count:
            raise TokenizerError(where, KEY + name, f"{value!r:.40} is not the id of one of {count} tokens")
        return value

    found = {name: id for name, key in _NAMES.items() if (id := read(key)) is not None}
    ends = tuple(id for id in map(read, _MORE_ENDS) if id is not None)
    return Roles(found, ends)
