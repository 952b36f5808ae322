"""Documents: files of text, Markdown or HTML become plain readable text."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from headwise.errors import HeadwiseError, UnsupportedError

HTML = (".html", ".htm", ".xhtml")
MARKDOWN = (".md", ".markdown")
_UNREAD = (
    "script, style, noscript, template, svg, nav, body > header, footer, aside, form, button, iframe, head, [hidden]"
)
_BLOCKS = (
    "p, div, section, article, main, h1, h2, h3, h4, h5, h6, li, blockquote, pre, tr, dt, dd, figcaption, br, table"
)
_BREAK = "\N{PARAGRAPH SEPARATOR}"


class DocumentError(HeadwiseError):
    """A file that is not a text."""


def read_document(source: str | Path) -> str:
    """The readable text of a file, or of standard input for "-"; by its suffix, or by its beginning."""
    name = "standard input" if str(source) == "-" else str(source)
    content = sys.stdin.buffer.read() if str(source) == "-" else Path(source).read_bytes()
    text = decode(content, name)
    suffix = Path(name).suffix.lower()
    if suffix in HTML or (suffix not in MARKDOWN and _begins_as_html(text)):
        text = readable_html(text)
    elif suffix in MARKDOWN:
        text = readable_markdown(text)
    if not text.strip():
        raise DocumentError(f"{name}: holds no readable text")
    return text


def decode(content: bytes, name: str) -> str:
    """UTF-8 with a byte order mark or without, or UTF-16 with one; anything else is an error that says where."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")) and len(content) % 2 == 0:
        encoding = "utf-16"
    else:
        encoding = "utf-8-sig"
        if (zero := content.find(b"\0")) >= 0:
            raise DocumentError(f"{name}: is not a text: byte {zero} is zero; wanted text, Markdown or HTML")
    try:
        return content.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        found = f"byte {error.start} is 0x{content[error.start]:02x}"
        raise DocumentError(f"{name}: is not UTF-8 text: {found}; wanted text, Markdown or HTML") from None


def _begins_as_html(text: str) -> bool:
    return re.match(r"\s*(?:<\?xml[^>]*>\s*)?<(?:!doctype html|html)\b", text, re.IGNORECASE) is not None


def readable_html(text: str) -> str:
    """What a reader sees of the main part of a page, parsed as browsers do, without navigation, scripts and forms."""
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError:
        raise UnsupportedError("HTML: selectolax is not installed; pip install 'headwise[html]'") from None
    tree = LexborHTMLParser(text)
    for node in tree.css(_UNREAD):
        node.decompose()
    main = tree.css_first("main") or tree.css_first("[role=main]")
    articles = tree.css("article")
    root = main or (articles[0] if len(articles) == 1 else tree.body or tree.root)
    if root is None:
        return ""
    for node in root.css(_BLOCKS):
        node.insert_before(_BREAK)
        node.insert_after(_BREAK)
    # White space means nothing in HTML; paragraphs end where blocks do.
    paragraphs = root.text(deep=True).split(_BREAK)
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs if paragraph.strip())


def readable_markdown(text: str) -> str:
    """The text without its marks: a heading is a paragraph, a link its words; code stays as it is."""
    text = re.sub(r"\A---\n.*?\n(?:---|\.\.\.)\n", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^ {0,3}(?:```|~~~).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^ {0,3}#{1,6}[ \t]+(.*?)[ \t#]*$", r"\n\1\n", text, flags=re.MULTILINE)
    text = re.sub(r"^ {0,3}(?:=+|-{3,}|\*{3,}|_{3,})[ \t]*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^ {0,3}\[[^\]]+\]:[ \t]+\S.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^(?: {0,3}>[ \t]?)+", "", text, flags=re.MULTILINE)
    text = re.sub(r"!?\[([^\]]*)\]\([^()\s]*(?:\([^()]*\)[^()\s]*)?(?:[ \t]+\"[^\"]*\")?\)", r"\1", text)
    text = re.sub(r"!?\[([^\]]+)\]\[[^\]]*\]", r"\1", text)
    text = re.sub(r"(?<![\w*])(\*{1,3})(?=\S)(.+?)(?<=\S)\1(?![\w*])", r"\2", text)
    text = re.sub(r"(?<![\w_])(_{1,3})(?=\S)(.+?)(?<=\S)\1(?![\w_])", r"\2", text)
    return re.sub(r"`+([^`\n]+)`+", r"\1", text).strip()
