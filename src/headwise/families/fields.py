"""The fields of a configuration file, each checked before it is believed; what nobody asked for is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from headwise.errors import CheckpointError

Choice = TypeVar("Choice")
LARGEST = 1 << 24
LARGEST_NUMBER = 1e12
MOST_LAYERS = 2048

# Fields that configurations carry and that change nothing in what a model computes: how outputs are returned, which
# numbers training and writing begin with, ids of tokens, heads for tasks that are not read. A field that does change
# something belongs into the reader of its family, which asks for it.
_NAMES = """
    _name_or_path _commit_hash _attn_implementation attn_implementation transformers_version torch_dtype dtype
    architectures model_type auto_map transformers.js_config is_llama_config unsloth_fixed unsloth_version
    use_cache output_attentions output_hidden_states output_past output_scores return_dict return_dict_in_generate
    torchscript use_bfloat16 chunk_size_feed_forward gradient_checkpointing pretraining_tp save_step
    id2label label2id num_labels _num_labels problem_type finetuning_task task_specific_params tokenizer_class prefix
    model_max_length bos_token_id eos_token_id pad_token_id sep_token_id cls_token_id mask_token_id
    decoder_start_token_id forced_bos_token_id forced_eos_token_id force_bos_token_to_be_generated suppress_tokens
    begin_suppress_tokens bad_words_ids max_length min_length max_new_tokens do_sample early_stopping num_beams
    num_beam_groups diversity_penalty temperature top_k top_p typical_p repetition_penalty length_penalty
    no_repeat_ngram_size encoder_no_repeat_ngram_size num_return_sequences remove_invalid_values
    exponential_decay_length_penalty
    classifier_dropout classif_dropout seq_classif_dropout qa_dropout summary_first_dropout encoder_layerdrop
    decoder_layerdrop initializer_range initializer_factor init_std
    summary_activation summary_proj_to_labels summary_type summary_use_proj predict_special_tokens n_special n_ctx
    directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type
"""
HARMLESS = frozenset(_NAMES.split())


class Fields:
    """A configuration and the file it came from."""

    def __init__(self, where: object, raw: Mapping[str, Any]) -> None:
        self.where, self.raw = where, raw
        self._asked: set[str] = set()

    def error(self, name: str, problem: str) -> CheckpointError:
        """What is wrong with this field."""
        return CheckpointError(self.where, name[:80], problem)

    def get(self, name: str) -> Any:
        """The value as it is; None where there is none."""
        self._asked.add(name)
        return self.raw.get(name)

    def size(self, name: str, default: int | None = None, largest: int = LARGEST) -> int:
        """A whole number from one on; without a default it must be there."""
        value = self.get(name)
        if value is None and default is not None:
            return default
        if type(value) is not int or not 1 <= value <= largest:
            raise self.error(name, f"got {_short(value)}, wanted a whole number from 1 to {largest}")
        return value

    def whole(self, name: str, default: int) -> int:
        """A whole number from nought on."""
        return 0 if self.get(name) == 0 and self.get(name) is not False else self.size(name, default)

    def layers(self, name: str, default: int | None = None) -> int:
        """A number of layers."""
        return self.size(name, default, MOST_LAYERS)

    def number(self, name: str, default: float | None, low: float = 0.0, high: float = LARGEST_NUMBER) -> float:
        """A number between these; without a default it must be there."""
        value = self.get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self.error(name, f"got {_short(value)}, wanted a number from {low:g} to {high:g}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(name, f"got {_short(value)}, wanted true or false")
        return value

    def choice(self, name: str, choices: Mapping[str, Choice], default: str) -> Choice:
        """What this name stands for."""
        value = self.get(name)
        value = default if value is None else value
        if not isinstance(value, str) or value not in choices:
            raise self.error(name, f"got {_short(value)}, wanted one of {', '.join(choices)}")
        return choices[value]

    def token(self, name: str, vocabulary: int) -> int | None:
        """The id of a token."""
        return next(iter(self.tokens(name, vocabulary)), None)

    def tokens(self, name: str, vocabulary: int) -> tuple[int, ...]:
        """One id or several; -1 and ids past the vocabulary stand for none, as files in use have them."""
        value = self.get(name)
        several = value if isinstance(value, list) else [] if value is None else [value]
        if len(several) > 1000 or not all(type(one) is int for one in several):
            raise self.error(name, f"got {_short(value)}, wanted the id of a token, or a list of them")
        return tuple(one for one in several if 0 <= one < vocabulary)

    def must_be(self, name: str, *allowed: object) -> None:
        """Refuse a value under which the model would compute something else."""
        value = self.get(name)
        if value is not None and value not in allowed:
            raise self.error(name, f"got {_short(value)}, wanted {' or '.join(map(repr, allowed))}")

    def part(self, name: str) -> Fields | None:
        """An object within the configuration."""
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(name, f"got {_short(value)}, wanted an object")
        return Fields(self.where, value)

    def done(self, prefix: str = "") -> None:
        """Refuse the fields, of those with this prefix, that nobody asked for; empty and harmless ones may stay."""
        for name, value in self.raw.items():
            unasked = name.startswith(prefix) and name not in self._asked and name not in HARMLESS
            if unasked and not _is_empty(value):
                raise self.error(name, f"unknown field with the value {_short(value)}; it might change the result")


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, (bool, int, float, str, list, dict)) and not value)


def _short(value: object) -> str:
    if value is None:
        return "nothing"
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**30 else "an enormous number"
    return text if len(text) <= 60 else text[:57] + "..."
