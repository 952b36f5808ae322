"""A stand-in for the model hub on the loopback interface: repositories that are dictionaries of files."""

import hashlib
import json
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
Repositories = Mapping[str, Mapping[str, bytes]]


class Hub:
    """Where it listens, and what was asked for: (method, path)."""

    def __init__(self) -> None:
        self.address = ""
        self.asked: list[tuple[str, str]] = []

    def files(self) -> set[str]:
        """The files whose content was sent."""
        return {
            path.split("/resolve/")[1].split("/", 1)[1]
            for how, path in self.asked
            if "/resolve/" in path and how == "GET"
        }


@contextmanager
def running(repositories: Repositories) -> Generator[Hub]:
    """Answers like the hub for these repositories."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.do_GET(body=False)

        def do_GET(self, body: bool = True) -> None:
            path = unquote(urlsplit(self.path).path)
            hub.asked.append((self.command, path))
            for name, files in repositories.items():
                if path == f"/api/models/{name}" or path.startswith(f"/api/models/{name}/"):
                    return self.say(200, describe(name, files, path), body)
                if path.startswith(f"/{name}/resolve/"):
                    file = path.split("/resolve/")[1].split("/", 1)[1]
                    if file in files:
                        return self.say(200, files[file], body, "application/octet-stream")
                    return self.say(404, b"{}", body, error="EntryNotFound")
            return self.say(404, b"{}", body, error="RepoNotFound")

        def say(self, code: int, content: bytes, body: bool, kind: str = "application/json", error: str = "") -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
            if error:
                self.send_header("X-Error-Code", error)
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Tests print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hub.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def describe(name: str, files: Mapping[str, bytes], path: str) -> bytes:
    """What the hub's interface tells about a repository, or about its tree of files."""
    answer: Any = {"id": name, "modelId": name, "sha": COMMIT, "private": False, "gated": False, "tags": []}
    answer["siblings"] = [{"rfilename": file} for file in files]
    if "/tree/" in path:
        answer = [
            {"type": "file", "path": file, "size": len(files[file]), "oid": hashlib.sha1(files[file]).hexdigest()}
            for file in files
        ]
    return json.dumps(answer).encode()
