"""Chat templates give the reference library's text, and a hostile one gets nothing but an error of one line."""

import time
from pathlib import Path
from typing import Any

import pytest
import tokenizer_makers as make
from transformers import AutoTokenizer

from headwise.checkpoints.chat import render_chat
from headwise.checkpoints.tokenizer import open_tokenizer
from headwise.errors import TokenizerError

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": 'Wörter & <b>tags</b> "quoted" {{ 1 }}\n\nline 👩‍🚀'},
    {"role": "assistant", "content": "  spaces  "},
    {"role": "user", "content": "And?"},
]
TEMPLATES = {
    "marked": "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "names": "{{ bos_token }}{% for m in messages %}{{ m.content | trim }}{{ eos_token }}{% endfor %}",
    "blocks": "{% for m in messages %}\n    {% if m.role == 'user' %}\n{{ m.content }}\n    {% endif %}\n{% endfor %}",
    "namespace": "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
    "json": "{{ messages | tojson }}{{ messages[0] | tojson(indent=2) }}",
    "loops": "{% for m in messages %}{% if loop.index0 == 1 %}{% continue %}{% endif %}{{ loop.index }}"
    "{% if loop.index0 == 2 %}{% break %}{% endif %}{% endfor %}",
    "generation": "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
    "defaults": "{{ tools is none }}{{ documents is none }}{{ nothing is defined }}{{ messages[0].x is defined }}",
    "date": "{{ strftime_now('%Y') }}",
    "methods": "{{ messages[1].content.split('&')[0].upper() }}{{ messages[0].items() | list }}",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    backend = make.byte_level(["<s>", "</s>", "<|im_start|>", "<|im_end|>"])
    return make.write_json(tmp_path_factory.mktemp("chat"), backend, settings)


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("generate", [True, False])
def test_the_text_is_the_reference_librarys(folder: Path, name: str, generate: bool) -> None:
    theirs, ours = AutoTokenizer.from_pretrained(folder), open_tokenizer(folder)
    theirs.chat_template = ours.chat_template = TEMPLATES[name]
    expected = theirs.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=generate)
    assert ours.chat(MESSAGES, generate=generate) == expected


def test_ids_of_a_conversation(folder: Path) -> None:
    theirs, ours = AutoTokenizer.from_pretrained(folder), open_tokenizer(folder)
    theirs.chat_template = ours.chat_template = TEMPLATES["marked"]
    expected = theirs.apply_chat_template(MESSAGES, add_generation_prompt=True)["input_ids"]
    assert ours.encode(ours.chat(MESSAGES), special=False) == expected


@pytest.mark.parametrize("source", ["config", "list", "file"])
def test_where_templates_stand(tmp_path: Path, source: str) -> None:
    template = "{{ messages[0].content }}!"
    settings: dict[str, Any] = {"chat_template": template}
    if source == "list":
        other = {"name": "tool_use", "template": "other"}
        settings = {"chat_template": [other, {"name": "default", "template": template}]}
    if source == "file":
        settings = {"chat_template": "other"}
        (tmp_path / "chat_template.jinja").write_text(template)
    make.write_json(tmp_path, make.byte_level(), settings)
    assert open_tokenizer(tmp_path).chat([{"role": "user", "content": "Hi"}]) == "Hi!"


def test_a_model_without_a_template_says_so(folder: Path) -> None:
    with pytest.raises(TokenizerError, match="chat_template: this model has none"):
        open_tokenizer(folder).chat(MESSAGES)


def render(template: str, messages: Any = MESSAGES, seconds: int = 1) -> str:
    return render_chat(template, messages, generate=True, special={}, where="a.gguf", seconds=seconds)


HOSTILE = {
    "class": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "globals": "{{ cycler.__init__.__globals__['os'].popen('id').read() }}",
    "function": "{{ raise_exception.__globals__ }}",
    "closure": "{{ strftime_now.__code__.co_consts }}",
    "attribute filter": "{{ '' | attr('__class__') | attr('__base__') }}",
    "format": "{{ '{0.__class__}'.format(messages) }}",
    "self": "{{ self.__init__.__globals__ }}",
    "namespace": "{{ namespace.__init__.__globals__ }}",
    "change": "{% set _ = messages.append(1) %}{{ messages }}",
    "include": "{% include '/etc/passwd' %}",
    "import": "{% import 'os' as os %}",
    "raise": "{{ raise_exception('no\nsystem\nmessage') }}",
    "syntax": "{% for %}",
    "unknown tag": "{% evil %}",
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "division": "{{ 1 / 0 }}",
    "undefined": "{{ messages.a.b.c }}",
    "range": "{% for i in range(10**9) %}{% endfor %}",
    "loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "power": "{{ 9 ** (9 ** 9) }}",
    "memory": "{{ 'a' * 10**10 }}",
    "list": "{% set a = [0] * 10**9 %}{{ a | length }}",
    "text": "{% for i in range(90000) %}{{ 'a' * 1000 }}{% endfor %}",
    "deep": "{{ " + "(" * 20_000 + " }}",
    "exit": "{{ ''.format_map({}).__reduce__() }}{{ x() }}",
    "surrogate": "{{ '\\ud800'.encode() }}",
}
# What the sandbox does not give is undefined, and undefined is written as nothing.
NOTHING = {"function", "attribute filter", "format"}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_templates_get_one_line(name: str) -> None:
    begun = time.monotonic()
    if name in NOTHING:
        assert render(HOSTILE[name]) == ""
        return
    with pytest.raises(TokenizerError, match=r"^a\.gguf: chat_template: ") as caught:
        render(HOSTILE[name])
    told = str(caught.value)
    assert "\n" not in told
    assert len(told) < 400
    assert not {"uid=", "root:", "<class", "<module"} & set(told.split())
    assert time.monotonic() - begun < 60


@pytest.mark.parametrize("messages", [[{"content": object()}], [{"content": b"bytes"}], [{1j: 2}]])
def test_messages_are_plain(messages: Any) -> None:
    with pytest.raises(TokenizerError, match="messages: must be plain text"):
        render("{{ messages }}", messages)


def test_the_environment_cannot_change_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(1)")
    (tmp_path / "jinja2.py").write_text("raise SystemExit(1)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert render("{{ messages[3].content }}") == "And?"


def test_a_python_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(TokenizerError, match="chat_template: no process could be started"):
        render("a")


def test_a_template_that_waits_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(slow))
    with pytest.raises(TokenizerError, match="did not end within -4 seconds"):
        render("a", seconds=-4)
