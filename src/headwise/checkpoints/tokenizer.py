"""Text to ids and back, with every piece traceable to where it stands in the text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.checkpoints.chat import render_chat
from headwise.checkpoints.pieces import (
    Encoded,
    Pieces,
    Span,
    byte_of,
    byte_spans,
    find_spans,
    known_byte_spans,
    show_bytes,
    to_bytes,
    widen,
)
from headwise.checkpoints.tokenizer_backend import Roles, guarded
from headwise.errors import TokenizerError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

    from headwise.checkpoints.gguf import GGUFFile

_BYTE = {f"<0x{byte:02X}>": bytes([byte]) for byte in range(256)}


class Tokenizer:
    """A model's own vocabulary; `where` is the file that errors name."""

    def __init__(self, backend: Backend, roles: Roles, where: object, chat_template: str | None = None) -> None:
        self._backend = backend
        self._roles = roles
        self.where = where
        self.chat_template = chat_template
        self.begin_id, self.end_id, self.pad_id = roles.get("begin"), roles.get("end"), roles.get("pad")
        self.unknown_id, self.mask_id = roles.get("unknown"), roles.get("mask")
        self.separator_id = roles.get("separator")
        ends = {*roles.more_ends, self.end_id}
        self.end_ids = frozenset(id for id in ends if id is not None)
        with guarded(where, "tokenizer"):
            added = backend.get_added_tokens_decoder()
            self.special_ids = {id for id, token in added.items() if token.special} | {
                *roles.ids.values(),
                *roles.more_ends,
            }
            self.vocabulary_size = max(backend.get_vocab(True).values(), default=-1) + 1
            decoder = json.loads(backend.decoder.__getstate__()) if backend.decoder else {}
            self._skipped = {id for id, token in added.items() if token.special}
            kinds = {decoder.get("type"), *(step.get("type") for step in decoder.get("decoders", []))}
        self.is_byte_level = kinds == {"ByteLevel"}
        self._joins_marked_words = bool(kinds & {"Metaspace", "ByteFallback"})

    def __repr__(self) -> str:
        return f"Tokenizer({str(self.where)!r}, vocabulary_size={self.vocabulary_size})"

    def encode(self, text: str, special: bool = True) -> list[int]:
        """The ids of a text; with `special`, also those the model expects around every text."""
        return self._encode(text, special).ids

    def encode_many(self, texts: Sequence[str], special: bool = True) -> list[list[int]]:
        """The ids of several texts, on all processors."""
        with guarded(self.where, "text"):
            return [found.ids for found in self._backend.encode_batch_fast(list(texts), add_special_tokens=special)]

    def _encode(self, text: str, special: bool) -> Any:
        with guarded(self.where, "text"):
            return self._backend.encode(text, add_special_tokens=special)

    def decode(self, ids: Iterable[int], skip_special: bool = True) -> str:
        """The text of ids; bytes that make up no character become U+FFFD."""
        known = self._known(ids)
        with guarded(self.where, "ids"):
            return self._backend.decode(known, skip_special_tokens=skip_special)

    def _known(self, ids: Iterable[int]) -> list[int]:
        known = [int(id) for id in ids]
        for id in known:
            if not 0 <= id < 2**32:
                raise TokenizerError(self.where, "ids", f"{id} is not the id of a token")
        return known

    def token(self, id: int) -> str:
        """The token as the vocabulary spells it; empty for an id that it has not."""
        (id,) = self._known([id])
        return self._backend.id_to_token(id) or ""

    def is_byte(self, id: int) -> bool:
        """Whether it stands for one byte in a vocabulary of words, as <0xF0> does."""
        return self._joins_marked_words and self.token(id) in _BYTE

    def raw(self, ids: Iterable[int], skip_special: bool = False) -> list[bytes]:
        """The bytes each id stands for, in a vocabulary of bytes or of words marked with ▁."""
        tokens = ["" if skip_special and id in self._skipped else self.token(id) for id in ids]
        if self.is_byte_level:
            return [to_bytes(token) for token in tokens]
        return [_BYTE.get(token) or token.replace("▁", " ").encode("utf-8", "replace") for token in tokens]

    def tokens(self, ids: Iterable[int]) -> Pieces:
        """Readable pieces; their offsets stand in `decode(ids, skip_special=False)`."""
        known = self._known(ids)
        if self.is_byte_level or self._joins_marked_words:
            parts = self.raw(known)
            spans = byte_spans(parts)
            joined = b"".join(parts).decode("utf-8", "replace")
            # Decoders of marked words drop the first word's space.
            lost = len(joined) - len(self.decode(known, skip_special=False))
            spans = [(max(start - lost, 0), max(end - lost, 0)) for start, end in spans] if lost else spans
            return Pieces([show_bytes(part) for part in parts], spans)
        pieces = [self.readable(id) for id in known]
        return Pieces(pieces, find_spans(self.decode(known, skip_special=False), pieces))

    def readable(self, id: int) -> str:
        """One id for a reader: its text, with bytes that are only part of a character written as <0xF0>."""
        if self.is_byte_level or self._joins_marked_words:
            return show_bytes(self.raw([id])[0])
        return self.token(id).removeprefix("##")

    def annotate(self, text: str, special: bool = True) -> Encoded:
        """The text as the model sees it, each piece with its place in the text."""
        encoding = self._encode(text, special)
        ids: list[int] = encoding.ids
        pieces = [self.readable(id) for id in ids]
        spans = self._spans(text, encoding, pieces)
        added = [bool(mask) for mask in encoding.special_tokens_mask]
        for at, (id, (start, end)) in enumerate(zip(ids, spans, strict=True)):
            # An id may be special and stand for real text, as [UNK] does.
            added[at] |= id in self.special_ids and text[start:end].strip() == pieces[at].strip()
        return Encoded(text, ids, Pieces(pieces, spans), added)

    def _spans(self, text: str, encoding: Any, pieces: list[str]) -> list[Span]:
        """Offsets into the text; what was added to it stands between characters."""
        added: list[int] = encoding.special_tokens_mask
        offsets: list[Span] = encoding.offsets
        if self.is_byte_level and not self._known_bytes >= set(text.encode()):
            # The library drops bytes that the vocabulary has not, and then miscounts.
            parts = [b"" if mask else raw for mask, raw in zip(added, self.raw(encoding.ids), strict=True)]
            offsets = known_byte_spans(text, parts, self._known_bytes) or offsets
        spans: list[Span] = []
        reached = 0
        for piece, span, mask in zip(pieces, offsets, added, strict=True):
            spans.append((reached, reached) if mask else widen(text, span, piece, reached))
            reached = max(reached, spans[-1][1])
        return spans

    @cached_property
    def _known_bytes(self) -> set[int]:
        return {byte for sign, byte in byte_of().items() if self._backend.token_to_id(sign) is not None}

    def chat(self, messages: Sequence[Mapping[str, Any]], generate: bool = True) -> str:
        """The conversation as this model's template writes it; encode it with special=False."""
        if self.chat_template is None:
            raise TokenizerError(self.where, "chat_template", "this model has none; give it plain text")
        return render_chat(
            self.chat_template, messages, generate=generate, special=self._role_texts(), where=self.where
        )

    def _role_texts(self) -> dict[str, str]:
        return {name: self.token(id) for name, id in self._roles.ids.items()}

    def save(self, directory: str | Path) -> None:
        """Write tokenizer.json and tokenizer_config.json, which the transformers library opens with equal ids."""
        directory = Path(directory)
        settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", **self._role_texts()}
        settings["clean_up_tokenization_spaces"] = False
        if self.chat_template is not None:
            settings["chat_template"] = self.chat_template
        with guarded(directory, "tokenizer.json"):
            content = self._backend.to_str()
        _write(directory / "tokenizer.json", content)
        _write(directory / "tokenizer_config.json", json.dumps(settings, ensure_ascii=False, indent=2) + "\n")


def _write(path: Path, text: str) -> None:
    """Write under a temporary name and rename, so that nothing half-written stays."""
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise TokenizerError(path, "file", f"cannot be written: {error.strerror}") from None


def open_tokenizer(path: str | Path | GGUFFile) -> Tokenizer:
    """The tokenizer of a directory, of a GGUF file, or of the directory that a file of weights lies in."""
    from headwise.checkpoints.gguf import GGUFFile, open_gguf

    if isinstance(path, GGUFFile):
        return _from_gguf(path)
    path = Path(path)
    if path.suffix.lower() == ".gguf":
        return _from_gguf(open_gguf(path))
    from headwise.checkpoints.tokenizer_files import from_directory

    directory = path if path.is_dir() else path.parent
    backend, roles, template = from_directory(directory)
    return Tokenizer(backend, roles, directory, template)


def _from_gguf(file: GGUFFile) -> Tokenizer:
    from headwise.checkpoints.tokenizer_gguf import from_metadata

    backend, roles = from_metadata(file.metadata, file.path)
    template = file.metadata.get("tokenizer.chat_template")
    if template is not None and not isinstance(template, str):
        raise TokenizerError(file.path, "tokenizer.chat_template", "must be text")
    return Tokenizer(backend, roles, file.path, template)
