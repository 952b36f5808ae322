"""Files become readable text, or an error that says what they are."""

import io
import sys
from pathlib import Path

import pytest

from headwise.generation.documents import DocumentError, decode, read_document, readable_markdown

PAGE = """<!DOCTYPE html><html><head><title>Not this</title><style>p{}</style></head><body>
<nav>Home</nav><main><h1>Bees</h1><p>They <b>fly</b>&nbsp;far &amp; wide.</p><ul><li>one</li><li>two</li></ul>
<script>alert(1)</script><p>Line<br>break</p></main><footer>Imprint</footer></body></html>"""
READ = "Bees\n\nThey fly far & wide.\n\none\n\ntwo\n\nLine\n\nbreak"


@pytest.mark.parametrize("name", ["page.html", "page.HTM", "page.txt", "page"])
def test_what_a_reader_sees_of_a_page(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(PAGE)
    assert read_document(tmp_path / name) == READ


def test_the_article_of_a_page_without_a_main_part(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text("<body><header>Top</header><div>Menu</div><article><p>It.</p></article><p>Other</p></body>")
    assert read_document(file) == "It."
    file.write_text("<p>Unclosed <i>marks")
    assert read_document(file) == "Unclosed marks"


def test_markdown_without_its_marks() -> None:
    text = (
        '---\ntitle: x\n---\n# Head #\n\nSome *thin* and **thick** [link](http://a.b/c_(d) "t") `code`.\n\n> quoted\n\n'
    )
    text += "| a_b |\n\n- item\n\n![alt](x.png)\n\n```py\nx = 1\n```\n<!-- gone\n\naway -->\nTwo * three * four"
    found = readable_markdown(text)
    wanted = [
        "Head",
        "Some thin and thick link code.",
        "quoted",
        "| a_b |",
        "- item",
        "alt",
        "x = 1",
        "Two * three * four",
    ]
    assert [line for line in found.split("\n") if line] == wanted


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"plain", "plain"),
        ("\ufeffwith a mark".encode(), "with a mark"),
        ("Zoë\r\nend\r".encode(), "Zoë\nend\n"),
        ("\ufeffZoë".encode("utf-16-le"), "Zoë"),
        ("\ufeffZoë".encode("utf-16-be"), "Zoë"),
    ],
)
def test_encodings(content: bytes, text: str) -> None:
    assert decode(content, "x") == text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "x: is not a text: byte 8 is zero"),
        (b"caf\xe9 au lait", "x: is not UTF-8 text: byte 3 is 0xe9"),
        (b"\xff\xfe\x00\xd8", "x: is not UTF-8 text"),
    ],
)
def test_what_is_no_text(content: bytes, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        decode(content, "x")


def test_nothing_to_read(tmp_path: Path) -> None:
    for name, content in (("a.txt", " \n"), ("a.html", "<script>x</script>"), ("a.md", "<!-- x -->")):
        (tmp_path / name).write_text(content)
        with pytest.raises(DocumentError, match=f"{name}: holds no readable text"):
            read_document(tmp_path / name)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PAGE.encode())))
    assert read_document("-") == READ
