"""One HTML text from the page's modules, its style and its data: nothing is fetched when it opens."""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([a-z0-9_]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function\*?|const|class) ([A-Za-z0-9_$]+)", re.MULTILINE)


class Parts(NamedTuple):
    """What a page is made of: files in `assets`; further pages take base.css and the modules they need."""

    body: str = "page.html"
    styles: tuple[str, ...] = ("base.css", "views.css", "table.css", "proof.css")
    script: str = "main.js"


PAGE = Parts()


def assemble(header: dict[str, Any], blocks: Sequence[str], parts: Parts = PAGE) -> str:
    """The whole page; each block of numbers stands in a script element that no browser runs."""
    script, style = page_script(parts), page_style(parts)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    data = "\n".join(f'<script type="text/plain" id="block-{at}">{block}</script>' for at, block in enumerate(blocks))
    return _asset("document.html").format(
        body=_asset(parts.body),
        policy=policy,
        title=escape(header["title"]),
        style=style,
        header=inert_json(header),
        data=data,
        script=script,
    )


def inert_json(value: Any) -> str:
    """JSON that can hold no end of a script element and no comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text.encode("utf-8", "replace").decode()


@cache
def page_script(parts: Parts = PAGE) -> str:
    """All modules in one script, each in its own function, those that others need first."""
    order: list[str] = []
    _visit(parts.script, order, ())
    return '"use strict";\n' + "\n".join(_wrapped(name) for name in order)


@cache
def page_style(parts: Parts = PAGE) -> str:
    """The style sheets, one after the other."""
    return "\n".join(_asset(name) for name in parts.styles)


def _visit(name: str, order: list[str], above: tuple[str, ...]) -> None:
    """Append the modules that `name` needs, and then itself."""
    if name in above:
        raise ValueError(f"{name}: imports itself by way of {' > '.join(above)}")
    if name not in order:
        for needed in _IMPORT.finditer(_asset(f"js/{name}")):
            _visit(needed[2], order, (*above, name))
        order.append(name)


def _wrapped(name: str) -> str:
    """A module as a function that returns what it exports."""
    source = _asset(f"js/{name}")
    exported = [found[2] for found in _EXPORT.finditer(source)]
    source = _EXPORT.sub(r"\1 \2", _IMPORT.sub(lambda found: _import(found[1], found[2]), source))
    left_over = re.search(r"^(?:import|export)\b.*$", source, re.MULTILINE)
    if left_over:
        raise ValueError(f"{name}: cannot inline {left_over[0]!r}")
    return f"const {_variable(name)} = (() => {{\n{source}\nreturn {{ {', '.join(exported)} }};\n}})();"


def _import(names: str, module: str) -> str:
    return f"const {{{names}}} = {_variable(module)};\n"


def _variable(module: str) -> str:
    return f"module_{module.removesuffix('.js')}"


def _hash(text: str) -> str:
    """How a policy names a script or a style that may stand in the page."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asset(name: str) -> str:
    return (files("headwise.views.page") / "assets" / name).read_text(encoding="utf-8")
