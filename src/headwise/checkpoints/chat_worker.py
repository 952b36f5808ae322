"""Renders one chat template from standard input to standard output, in a process that may be ended at any time."""

import json
import sys
from contextlib import suppress
from datetime import datetime
from typing import Any, NoReturn

# The process starts without site-packages; its arguments say where jinja2 is.
sys.path += sys.argv[1:]

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace


class Generation(Extension):
    """`{% generation %}` marks what the assistant wrote; rendering keeps its body."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def raise_exception(message: str) -> NoReturn:
    """What templates call to refuse a conversation."""
    raise TemplateError(message)


def strftime_now(form: str) -> str:
    """What templates call to write today's date."""
    return datetime.now().strftime(form)


def to_json(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """JSON without HTML escapes."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def render(template: str, values: dict[str, Any], limit: int) -> str:
    """The rendered text, refused once it is longer than limit."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = to_json
    helpers: dict[str, Any] = {"raise_exception": raise_exception, "strftime_now": strftime_now, "namespace": Namespace}
    environment.globals.update(helpers)
    parts: list[str] = []
    for part in environment.from_string(template).generate(**values):
        limit -= len(part)
        if limit < 0:
            raise TemplateError("the rendered text is too long")
        parts.append(part)
    return "".join(parts)


def limit_resources(memory: int, seconds: int) -> None:
    """Let the system end this process when a template asks for too much (not on Windows, which has no such limits)."""
    try:
        import resource
    except ImportError:
        return
    for what, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_FSIZE, 0)):
        hard = resource.getrlimit(what)[1]
        # macOS refuses to limit memory; processor time is limited everywhere.
        with suppress(ValueError, OSError):
            resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def main() -> None:
    """Read the request, render, write the answer."""
    request = json.loads(sys.stdin.buffer.read())
    limit_resources(request["memory"], request["seconds"])
    try:
        answer = {"text": render(request["template"], request["values"], request["characters"])}
    except MemoryError:
        answer = {"error": "needs too much memory"}
    except RecursionError:
        answer = {"error": "calls itself without end"}
    except Exception as error:  # a template can raise anything; it is the parent who names the file
        answer = {"error": f"{type(error).__name__}: {error}"[:300]}
    sys.stdout.buffer.write(json.dumps(answer).encode())


if __name__ == "__main__":
    main()
