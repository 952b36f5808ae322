"""`headwise.generate`: the text as it comes, where it ends, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import torch
from reciting_models import END, TEMPLATE, id_of, recite, reciting_decoder, reciting_encoder_decoder

import headwise
from headwise import Decoder
from headwise.errors import CheckpointError, ContextError, UnsupportedError

PROMPT = "Sing:"
SONG = "Naïve 東京 👩‍🚀 sang. The end came 🇩🇪 at last"


def singer(**generation: Any) -> Decoder:
    model = reciting_decoder(**generation)
    recite(model, SONG, after=len(PROMPT))
    return model


def test_the_new_text_and_nothing_else() -> None:
    assert headwise.generate(singer(), PROMPT) == SONG
    assert headwise.generate(singer(), [PROMPT, PROMPT]) == [SONG, SONG]


def test_rows_leave_the_batch_when_they_are_done() -> None:
    """What is said depends on the place alone, so a longer prompt finds the song further on."""
    prompts = [PROMPT, PROMPT + "xx", PROMPT + "x" * 20, PROMPT + "x"]
    texts = headwise.generate(singer(), prompts, batch=3)
    assert texts == [headwise.generate(singer(), prompt) for prompt in prompts]
    assert texts[0] == SONG
    assert len(set(map(len, texts))) == 4


def test_pieces_come_as_they_are_readable_and_no_character_is_split() -> None:
    pieces = list(headwise.generate(singer(), PROMPT, stream=True))
    assert "".join(pieces) == SONG
    assert "\N{REPLACEMENT CHARACTER}" not in "".join(pieces)
    # Every byte is a token here: each piece is one character.
    assert pieces == list(SONG)


def test_a_piece_comes_before_the_next_token_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    model, steps = singer(), []
    forward = model.hidden
    monkeypatch.setattr(model, "hidden", lambda *a, **k: steps.append(1) or forward(*a, **k))
    monkeypatch.setattr("headwise.packed.step.level", lambda: "torch")
    stream = headwise.generate(model, PROMPT, stream=True)
    assert not steps
    assert next(stream) == "N"  # type: ignore[call-overload]
    assert len(steps) == 1


@pytest.mark.parametrize(
    ("stop", "text"),
    [
        ("The end", "Naïve 東京 👩‍🚀 sang. "),
        (["last", "end", "京"], "Naïve 東"),
        ("🇩🇪", "Naïve 東京 👩‍🚀 sang. The end came "),
        (["sang. That", "at lastly"], SONG),
    ],
)
def test_stop_strings_across_the_borders_of_tokens(stop: Any, text: str) -> None:
    assert headwise.generate(singer(), PROMPT, stop=stop) == text
    assert "".join(headwise.generate(singer(), PROMPT, stop=stop, stream=True)) == text
    assert headwise.generate(singer(), PROMPT, stop=stop, beams=2) == text


def test_ends_that_the_model_names() -> None:
    assert headwise.generate(singer(stop_strings=["sang"]), PROMPT) == "Naïve 東京 👩‍🚀 "
    assert headwise.generate(singer(eos_token_id=[id_of(END), id_of("T")]), PROMPT) == "Naïve 東京 👩‍🚀 sang. "


def test_past_the_end() -> None:
    model = reciting_decoder(stop_strings=["One"])
    recite(model, "One.<end>Two.", after=len(PROMPT))
    assert headwise.generate(model, PROMPT) == ""
    assert headwise.generate(model, PROMPT, max_tokens=11, ignore_end=True) == "One.Two."


def test_as_many_tokens_as_asked_for() -> None:
    assert headwise.generate(singer(), PROMPT, max_tokens=4) == "Naï"[:3]
    assert headwise.generate(singer(), PROMPT, max_tokens=3) == "Na\N{REPLACEMENT CHARACTER}"
    assert headwise.generate(singer(max_new_tokens=2), PROMPT) == "Na"
    assert headwise.generate(singer(max_length=len(PROMPT) + 2), PROMPT) == "Na"
    assert headwise.generate(singer(max_length=len(PROMPT) + 2), PROMPT, max_tokens=5) == "Naïv"
    with pytest.raises(ContextError, match="the prompt has 5 tokens, and the model's own max_length is 5"):
        headwise.generate(singer(max_length=len(PROMPT)), PROMPT)


def test_the_template_wraps_the_prompt() -> None:
    model = reciting_decoder(template=TEMPLATE)
    recite(model, "Yes.", after=len("<ask>") - 4 + len("Hello?") + 1)
    assert headwise.generate(model, "Hello?", chat=True) == "Yes."
    assert headwise.generate(model, "Hello?") != "Yes."


def test_chat_without_a_template_is_refused() -> None:
    with pytest.raises(CheckpointError, match=r"chat_template: this model has none"):
        headwise.generate(singer(), PROMPT, chat=True)


def test_a_context_that_is_too_small_is_an_error_with_the_numbers() -> None:
    model = reciting_decoder(context=32)
    with pytest.raises(ContextError, match=r"the prompt has 30 tokens and 3 more were asked for: 33.*allows 32"):
        headwise.generate(model, "x" * 30, max_tokens=3)
    with pytest.raises(ContextError, match="the prompt has 32 tokens, and the model allows 32"):
        headwise.generate(model, "x" * 32)
    assert len(headwise.generate(model, "x" * 30, ignore_end=True)) == 2
    both = reciting_encoder_decoder(context=32)
    with pytest.raises(ContextError, match="the source has 33 tokens, and the model allows 32"):
        headwise.generate(both, "x" * 33)
    with pytest.raises(ContextError, match="the target has 1 tokens and 32 more were asked for"):
        headwise.generate(both, "x", max_tokens=32)


def test_one_prompt_too_long_and_nothing_is_written() -> None:
    model = reciting_decoder(context=32)
    model.hidden = None  # type: ignore[assignment,method-assign]
    with pytest.raises(ContextError, match="the prompt has 40 tokens"):
        headwise.generate(model, ["x", "x" * 40])


def test_an_empty_prompt_begins_with_the_models_own_token() -> None:
    model = reciting_decoder(bos_token_id=id_of(END))
    recite(model, "From nothing.", after=1)
    assert headwise.generate(model, "") == "From nothing."
    with pytest.raises(ValueError, match="prompt: got an empty one"):
        headwise.generate(reciting_decoder(), "")


def test_an_end_that_the_tokenizer_adds_is_left_out() -> None:
    from headwise.checkpoints.tokenizer_backend import frame

    model = singer()
    frame(model.tokenizer._backend, None, id_of(END))
    assert headwise.generate(model, PROMPT) == SONG


def test_models_that_cannot_write_are_refused(minilm_shape: headwise.Encoder) -> None:
    with pytest.raises(UnsupportedError, match="reads texts and does not write"):
        headwise.generate(minilm_shape, "x")
    model = singer()
    model.tokenizer = None
    with pytest.raises(UnsupportedError, match="without a tokenizer"):
        headwise.generate(model, "x")


@pytest.fixture
def minilm_shape() -> headwise.Encoder:
    from reciting_models import stack

    return headwise.Encoder(headwise.ModelConfig(vocabulary=8, encoder=stack(8, 8), head="none"))


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"top_p": 0.5}, "top_p: is for sampling, and temperature is 0"),
        ({"temperature": -1}, "temperature: got -1, wanted a number from 0"),
        ({"temperature": float("nan")}, "temperature: got nan"),
        ({"temperature": 1, "top_p": 0}, "top_p: got 0, wanted more than 0"),
        ({"temperature": 1, "top_k": 0}, "top_k: got 0, wanted a whole number of 1 or more"),
        ({"max_tokens": 0}, "max_tokens: got 0"),
        ({"max_tokens": True}, "max_tokens: got True"),
        ({"beams": 2, "temperature": 1}, "beams: got 2 beside temperature 1"),
        ({"beams": 2, "stream": True}, "stream: got it beside beams=2"),
        ({"stop": ""}, "stop: got"),
        ({"seed": 1.5}, "seed: got 1.5, wanted a whole number"),
        ({"early_stopping": "soon"}, "early_stopping: got 'soon'"),
    ],
)
def test_wishes_that_make_no_sense(wish: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        headwise.generate(singer(), PROMPT, **wish)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("guidance_scale", 3.0, "guidance_scale: got 3.0, and headwise does not do this"),
        ("num_beam_groups", 2, "num_beam_groups: got 2"),
        ("wishful_thinking", 1, "wishful_thinking: is not known here"),
        ("eos_token_id", 9999, "eos_token_id: got 9999, wanted ids below"),
        ("eos_token_id", "x", "eos_token_id: got 'x'"),
        ("max_new_tokens", -1, "max_new_tokens: got -1"),
        ("bad_words_ids", [[]], r"bad_words_ids: got \[\[\]\], wanted lists of ids"),
        ("length_penalty", "long", "length_penalty: got 'long', wanted a number"),
        ("early_stopping", "maybe", "early_stopping: got 'maybe'"),
        ("headwise", {"seperator": "x"}, "headwise: got .* wanted no other fields than"),
        ("headwise", {"separator": 3}, "headwise: got .* each a text"),
    ],
)
def test_settings_of_a_model_that_cannot_be_followed(field: str, value: Any, message: str) -> None:
    with pytest.raises((UnsupportedError, CheckpointError), match=f"generation_config.json: {message}"):
        headwise.generate(singer(**{field: value}), PROMPT)


def test_settings_that_are_not_in_use_are_no_trouble() -> None:
    model = singer(guidance_scale=1.0, num_beam_groups=1, temperature=0.2, do_sample=True, transformers_version="5")
    assert headwise.generate(model, PROMPT) == SONG


def test_forced_and_forbidden_tokens() -> None:
    model = singer(forced_eos_token_id=id_of(END), suppress_tokens=[id_of("N")], max_new_tokens=3)
    text = headwise.generate(model, PROMPT)
    assert text[0] != "N"
    assert text[1] == "a"
    assert len(text) == 2
    both = reciting_encoder_decoder(forced_bos_token_id=id_of("Z"))
    recite(both, "song")
    assert headwise.generate(both, "x") == "Zong"


def test_an_encoder_decoder_must_know_how_a_target_begins() -> None:
    from dataclasses import replace

    model = reciting_encoder_decoder()
    model.config = replace(model.config, start_id=None)
    with pytest.raises(UnsupportedError, match="says not how a target begins; wanted decoder_start_token_id"):
        headwise.generate(model, "x")
    model.generation = {"decoder_start_token_id": id_of(END)}
    recite(model, "Now.")
    assert headwise.generate(model, "x") == "Now."


def test_settings_of_a_directory_are_read(tmp_path: Path) -> None:
    model = singer(max_new_tokens=5)
    again = headwise.load(headwise.save(model, tmp_path / "saved"))
    assert dict(again.generation) == {"max_new_tokens": 5}
    assert headwise.generate(again, PROMPT) == "Naïv"


@torch.no_grad()
def test_recording_a_generation_gives_a_receipt_that_holds() -> None:
    model = singer()
    with headwise.record(model) as recording:
        assert headwise.generate(model, PROMPT) == SONG
    assert recording.trace.receipt().ok
