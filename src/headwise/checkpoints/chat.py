"""Chat templates: programs that come with a checkpoint, so they run sandboxed and in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headwise.errors import TokenizerError

MEMORY = 1 << 29
SECONDS = 10
CHARACTERS = 4_000_000


def render_chat(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    generate: bool,
    special: Mapping[str, str],
    where: object,
    seconds: int = SECONDS,
) -> str:
    """The conversation as the template writes it; `special` holds bos_token, eos_token and their like."""
    values = {**special, "messages": list(messages), "add_generation_prompt": generate}
    request = {
        "template": template,
        "values": values | {"tools": None, "documents": None},
        "memory": MEMORY,
        "seconds": seconds,
        "characters": CHARACTERS,
    }
    try:
        content = json.dumps(request).encode()
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"must be plain text, numbers, lists and dictionaries: {error}"
        raise TokenizerError(where, "messages", problem) from error
    answer = _ask_worker(content, seconds, where)
    if not isinstance(answer.get("text"), str):
        raise TokenizerError(where, "chat_template", " ".join(str(answer.get("error")).split()))
    return answer["text"]


def _ask_worker(request: bytes, seconds: int, where: object) -> dict[str, Any]:
    worker = Path(__file__).with_name("chat_worker.py")
    # -I and -S: nothing of the user's environment is imported, and the process starts in a third of the time.
    command = [sys.executable, "-I", "-S", str(worker), *_jinja_homes()]
    try:
        done = subprocess.run(command, input=request, capture_output=True, timeout=seconds + 5)
    except subprocess.TimeoutExpired:
        raise TokenizerError(where, "chat_template", f"did not end within {seconds} seconds") from None
    except OSError as error:
        raise TokenizerError(where, "chat_template", f"no process could be started for it: {error}") from error
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise TokenizerError(where, "chat_template", "asked for too much memory or time and was stopped") from None
    return answer


def _jinja_homes() -> list[str]:
    """The directories that hold jinja2 and what it needs; finding them imports nothing."""
    specs = [find_spec(name) for name in ("jinja2", "markupsafe")]
    return list(dict.fromkeys(str(Path(spec.origin).parent.parent) for spec in specs if spec and spec.origin))
