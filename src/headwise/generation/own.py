"""The model's own settings: what its generation_config.json says, with every field used or refused by name.

Settings of taste for sampling (`do_sample`, `temperature`, `top_k`, ...) are left aside: greedy is the default, and who
samples says how.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwise.errors import CheckpointError, UnsupportedError
from headwise.transformer.model import Model

# What would change the text in a way that is not built here, and the values that mean "not in use".
REFUSED: dict[str, tuple[Any, ...]] = {
    "constraints": (None,),
    "diversity_penalty": (None, 0),
    "dola_layers": (None,),
    "encoder_no_repeat_ngram_size": (None, 0),
    "encoder_repetition_penalty": (None, 1),
    "exponential_decay_length_penalty": (None,),
    "force_words_ids": (None,),
    "forced_decoder_ids": (None, []),
    "guidance_scale": (None, 1),
    "num_beam_groups": (None, 1),
    "penalty_alpha": (None, 0),
    "sequence_bias": (None, {}, []),
    "token_healing": (None, False),
    "watermarking_config": (None,),
}
# Taste in sampling, speed, and what is given back beside the text.
LEFT_ASIDE = frozenset(
    [
        "_commit_hash",
        "_from_model_config",
        "assistant_confidence_threshold",
        "assistant_early_exit",
        "assistant_ensemble_weight",
        "assistant_lookbehind",
        "cache_config",
        "cache_implementation",
        "compile_config",
        "continuous_batching_config",
        "disable_compile",
        "do_sample",
        "epsilon_cutoff",
        "eta_cutoff",
        "is_assistant",
        "low_memory",
        "max_matching_ngram_size",
        "max_time",
        "min_p",
        "num_assistant_tokens",
        "num_assistant_tokens_schedule",
        "num_return_sequences",
        "output_attentions",
        "output_hidden_states",
        "output_logits",
        "output_scores",
        "prefill_chunk_size",
        "prompt_lookup_num_tokens",
        "remove_invalid_values",
        "return_dict_in_generate",
        "return_legacy_cache",
        "speculation_type",
        "target_lookbehind",
        "temperature",
        "top_h",
        "top_k",
        "top_p",
        "transformers_version",
        "typical_p",
        "use_cache",
        "use_mtp",
    ]
)


@dataclass(frozen=True)
class Own:
    """What the model asks for; None and empty: nothing."""

    max_length: int | None = None
    """Tokens in all, those the text begins with included."""
    max_new_tokens: int | None = None
    min_length: int = 0
    min_new_tokens: int = 0
    begin: int | None = None
    pad: int | None = None
    ends: frozenset[int] = frozenset()
    start: tuple[int, ...] = ()
    """What the target of an encoder-decoder begins with."""
    forced_begin: int | None = None
    forced_ends: tuple[int, ...] = ()
    bad_words: tuple[tuple[int, ...], ...] = ()
    suppressed: tuple[int, ...] = ()
    suppressed_first: tuple[int, ...] = ()
    stop: tuple[str, ...] = ()
    beams: int = 1
    length_penalty: float = 1.0
    early_stopping: bool | str = False
    renormalize: bool = False
    repetition_penalty: float = 1.0
    no_repeat_ngram: int = 0
    separator: str | None = None
    """Plain decoders trained on "article, separator, summary" say so under "headwise"."""
    prefix: str | None = None
    task: str | None = None


def read_own(model: Model, task: str | None = None) -> Own:
    """The settings that came with the model, for a task where it has some of its own; older ones are in config.json."""
    fields = dict(model.generation) or {name: value for name, value in model.config.raw.items() if name in _READ}
    fields |= _of_task(model, task, fields)
    where = f"{model.source or model.config.architecture}: generation_config.json"
    reader = _Reader(fields, where, model.config.vocabulary)
    reader.refuse_the_rest()
    ends = reader.ids("eos_token_id") or _known_ends(model)
    alone = {(end,) for end in ends}
    begin, start = reader.id("bos_token_id"), reader.ids("decoder_start_token_id")
    if not start and model.config.start_id is not None:
        start = (model.config.start_id,)
    return Own(
        max_length=reader.count("max_length"),
        max_new_tokens=reader.count("max_new_tokens"),
        min_length=reader.count("min_length") or 0,
        min_new_tokens=reader.count("min_new_tokens") or 0,
        begin=model.config.begin_id if begin is None else begin,
        pad=model.config.pad_id if (pad := reader.id("pad_token_id")) is None else pad,
        ends=frozenset(ends),
        start=start,
        forced_begin=reader.id("forced_bos_token_id"),
        forced_ends=reader.ids("forced_eos_token_id"),
        bad_words=tuple(word for word in reader.words("bad_words_ids") if word not in alone),
        suppressed=reader.ids("suppress_tokens"),
        suppressed_first=reader.ids("begin_suppress_tokens"),
        stop=reader.texts("stop_strings"),
        beams=reader.count("num_beams") or 1,
        length_penalty=reader.number("length_penalty", 1.0),
        early_stopping=reader.choice("early_stopping", (False, True, "never")),
        renormalize=bool(reader.choice("renormalize_logits", (False, True))),
        repetition_penalty=reader.number("repetition_penalty", 1.0),
        no_repeat_ngram=reader.count("no_repeat_ngram_size") or 0,
        **reader.ours(),
    )


_READ = frozenset(
    [
        "max_length",
        "max_new_tokens",
        "min_length",
        "min_new_tokens",
        "bos_token_id",
        "pad_token_id",
        "eos_token_id",
        "decoder_start_token_id",
        "forced_bos_token_id",
        "forced_eos_token_id",
        "bad_words_ids",
        "suppress_tokens",
        "begin_suppress_tokens",
        "stop_strings",
        "num_beams",
        "length_penalty",
        "early_stopping",
        "renormalize_logits",
        "repetition_penalty",
        "no_repeat_ngram_size",
        "headwise",
    ]
)


def _of_task(model: Model, task: str | None, fields: Mapping[str, Any]) -> dict[str, Any]:
    """What the configuration keeps under task_specific_params: other settings, and what a source begins with."""
    everything = model.config.raw.get("task_specific_params")
    found = everything.get(task) if isinstance(everything, dict) and task is not None else None
    if not isinstance(found, dict):
        return {}
    ours = fields.get("headwise") or {"prefix": found.get("prefix")}
    return {name: value for name, value in found.items() if name in _READ} | {"headwise": ours}


def _known_ends(model: Model) -> tuple[int, ...]:
    """Where no setting names them: what the configuration and the tokenizer know."""
    known = model.tokenizer.end_ids if model.tokenizer is not None else ()
    return tuple(dict.fromkeys((*model.config.end_ids, *known)))


class _Reader:
    """Checked fields of a file: what is wrong is said by name."""

    def __init__(self, fields: Mapping[str, Any], where: str, vocabulary: int) -> None:
        self._fields, self._where, self._vocabulary = fields, where, vocabulary

    def refuse_the_rest(self) -> None:
        for name, value in self._fields.items():
            if name in _READ or name in LEFT_ASIDE or value is None:
                continue
            if name not in REFUSED:
                raise UnsupportedError(f"{self._where}: {name}: is not known here; supported are {_list(_READ)}")
            if value not in REFUSED[name]:
                raise UnsupportedError(f"{self._where}: {name}: got {value!r}, and headwise does not do this")

    def _wrong(self, name: str, wanted: str) -> CheckpointError:
        return CheckpointError(self._where, name, f"got {self._fields[name]!r:.60}, wanted {wanted}")

    def count(self, name: str) -> int | None:
        value = self._fields.get(name)
        if value is not None and (type(value) is not int or value < 0):
            raise self._wrong(name, "a number of zero or more")
        return value

    def number(self, name: str, default: float) -> float:
        value = self._fields.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            raise self._wrong(name, "a number")
        return float(value)

    def choice(self, name: str, choices: tuple[Any, ...]) -> Any:
        value = self._fields.get(name)
        if value is not None and value not in choices:
            raise self._wrong(name, f"one of {_list(map(str, choices))}")
        return choices[0] if value is None else value

    def ids(self, name: str) -> tuple[int, ...]:
        """One id or several."""
        value = self._fields.get(name)
        return self._all_ids(name, [] if value is None else value if isinstance(value, list) else [value])

    def id(self, name: str) -> int | None:
        """One id; the first where several stand."""
        return next(iter(self.ids(name)), None)

    def words(self, name: str) -> tuple[tuple[int, ...], ...]:
        """Sequences of ids."""
        value = self._fields.get(name) or []
        if not isinstance(value, list) or not all(isinstance(word, list) and word for word in value):
            raise self._wrong(name, "lists of ids")
        return tuple(self._all_ids(name, word) for word in value)

    def _all_ids(self, name: str, value: list[Any]) -> tuple[int, ...]:
        if not all(type(id) is int and 0 <= id < self._vocabulary for id in value):
            raise self._wrong(name, f"ids below {self._vocabulary}")
        return tuple(value)

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._fields.get(name) or []
        several = [value] if isinstance(value, str) else value
        if not isinstance(several, list) or not all(isinstance(text, str) and text for text in several):
            raise self._wrong(name, "texts")
        return tuple(several)

    def ours(self) -> dict[str, str | None]:
        """What headwise itself records: the task a model was trained for, and how its text is laid out."""
        value: Any = self._fields.get("headwise") or {}
        told: dict[str, Any] = dict.fromkeys(("task", "separator", "prefix"))
        if not isinstance(value, dict) or not all(name in told for name in value):
            raise self._wrong("headwise", "no other fields than task, separator and prefix")
        told |= value
        if not all(text is None or isinstance(text, str) for text in told.values()):
            raise self._wrong("headwise", "task, separator and prefix, each a text")
        return told


def _list(names: Any) -> str:
    return ", ".join(sorted(names))
