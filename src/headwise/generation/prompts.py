"""Prompts: texts become the ids that the model continues, and what does not fit is refused with the numbers."""

from __future__ import annotations

from headwise.checkpoints.tokenizer import Tokenizer
from headwise.errors import ContextError, UnsupportedError
from headwise.generation.own import Own
from headwise.generation.settings import DEFAULT_TOKENS, Settings
from headwise.transformer.model import Decoder, Encoder, EncoderDecoder

Writer = Decoder | EncoderDecoder


def check_writer(model: Decoder | EncoderDecoder | Encoder) -> Writer:
    """Refuse models that cannot write, and those without a tokenizer."""
    if not isinstance(model, Decoder | EncoderDecoder):
        kind = getattr(getattr(model, "config", None), "architecture", type(model).__name__)
        raise UnsupportedError(f"model: a {kind} reads texts and does not write; wanted a decoder or encoder-decoder")
    if model.tokenizer is None:
        raise UnsupportedError(f"model: {model.source or 'this one'} came without a tokenizer, wanted one that has it")
    return model


def encode(model: Writer, text: str, own: Own, chat: bool = False) -> list[int]:
    """The ids of a prompt or source; a decoder's prompt is left open, without the end that some tokenizers add."""
    tokenizer: Tokenizer = model.tokenizer
    if chat:
        return tokenizer.encode(tokenizer.chat([{"role": "user", "content": text}]), special=False)
    ids = tokenizer.encode(text)
    if isinstance(model, EncoderDecoder):
        return ids
    return begun(open_end(tokenizer, text, ids, own), own)


def open_end(tokenizer: Tokenizer, text: str, ids: list[int], own: Own) -> list[int]:
    """The ids without an end that the tokenizer added; one that the text itself spells stays."""
    closes = own.ends | ({tokenizer.separator_id} if tokenizer.separator_id is not None else set())
    if ids and ids[-1] in closes and tokenizer.encode(text, special=False)[-1:] != ids[-1:]:
        return ids[:-1]
    return ids


def begun(ids: list[int], own: Own) -> list[int]:
    """A prompt of no token begins with the model's own first one."""
    if ids:
        return ids
    if own.begin is None:
        raise ValueError("prompt: got an empty one, and this model has no token to begin with; wanted some text")
    return [own.begin]


def room(model: Writer, ids: list[int], settings: Settings) -> int:
    """How many tokens may be written for this prompt; what cannot fit is an error, never a cut."""
    context, own = model.config.context, settings.own
    if isinstance(model, EncoderDecoder):
        if context and len(ids) > context:
            raise ContextError(f"the source has {len(ids):,} tokens, and the model allows {context:,}")
        return _fit("the target", len(own.start), settings, context)
    return _fit("the prompt", len(ids), settings, context)


def _fit(what: str, used: int, settings: Settings, context: int) -> int:
    """What the caller wants must fit; what the model asks for, or the default, is as much of it as fits."""
    wanted = settings.max_tokens
    if wanted is not None:
        if context and used + wanted > context:
            raise ContextError(
                f"{what} has {used:,} tokens and {wanted:,} more were asked for: "
                f"{used + wanted:,}, and the model allows {context:,}"
            )
        return wanted
    most = _asked(settings.own, used) or DEFAULT_TOKENS
    if context and used >= context:
        raise ContextError(f"{what} has {used:,} tokens, and the model allows {context:,} with the new ones")
    return max(1, min(most, context - used) if context else most)


def _asked(own: Own, used: int) -> int | None:
    """How many tokens the model's own settings ask for, new or in all."""
    if own.max_new_tokens or not own.max_length:
        return own.max_new_tokens or None
    if own.max_length <= used:
        raise ContextError(
            f"the prompt has {used:,} tokens, and the model's own max_length is {own.max_length:,} with the new ones; "
            "wanted a shorter one, or max_tokens"
        )
    return own.max_length - used
