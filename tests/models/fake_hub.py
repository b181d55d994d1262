"""A hub on 127.0.0.1: the endpoints that huggingface_hub calls to list and download a model, and ways to fail."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from huggingface_hub import constants

from models.hub import PATTERNS


def commit_of(revision: str) -> str:
    """The commit that a revision's name stands for here."""
    return sha1(revision.encode()).hexdigest()


@dataclass
class Repository:
    """Files by revision. `gated`: the listing is open, the files are not."""

    revisions: dict[str, dict[str, bytes]]
    gated: bool = False

    def files(self, revision: str) -> dict[str, bytes] | None:
        """Those of a branch or of the commit that it stands for."""
        return next((files for name, files in self.revisions.items() if revision in (name, commit_of(name))), None)


@dataclass
class Hub:
    """What the server has, what it was asked, and how it misbehaves."""

    repositories: dict[str, Repository] = field(default_factory=dict)
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Method, path and Range of each request."""
    cut: dict[str, int] = field(default_factory=dict)
    """File name: bytes after which the connection of the next download breaks; each is used once."""
    stalled: dict[str, int] = field(default_factory=dict)
    """File name: bytes after which a download stands still until the server ends."""
    ended: threading.Event = field(default_factory=threading.Event)
    status: int | None = None
    """An answer to everything, such as 500."""
    url: str = ""

    def downloads(self, name: str) -> list[str | None]:
        """The Range of each download of a file."""
        return [span for method, path, span in self.asked if method == "GET" and path.endswith(f"/{name}")]


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on the terminal."""

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append((self.command, path, self.headers.get("Range")))
        if self.hub.status is not None:
            return self._send(self.hub.status, {}, b"")
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            return self._api("/".join(parts[2:4]), parts[4], "/".join(parts[5:]))
        if parts[2:3] != ["resolve"]:
            return self._send(404, {}, b"")
        return self._file("/".join(parts[:2]), parts[3], "/".join(parts[4:]))

    def _found(self, repo: str, revision: str) -> dict[str, bytes] | None:
        """The files, or None after a refusal."""
        repository = self.hub.repositories.get(repo)
        if repository is None:
            self._send(404, {"X-Error-Code": "RepoNotFound"}, b"{}")
            return None
        files = repository.files(revision)
        if files is None:
            self._send(404, {"X-Error-Code": "RevisionNotFound"}, b"{}")
        return files

    def _api(self, repo: str, what: str, revision: str) -> None:
        files = self._found(repo, revision)
        if files is None:
            return
        if what == "revision":
            body: object = {"id": repo, "sha": commit_of(revision), "siblings": [{"rfilename": name} for name in files]}
        else:
            body = [
                {"type": "file", "path": name, "size": len(data), "oid": sha1(data).hexdigest()}
                for name, data in files.items()
            ]
        self._send(200, {"Content-Type": "application/json"}, json.dumps(body).encode())

    def _file(self, repo: str, revision: str, name: str) -> None:
        files = self._found(repo, revision)
        if files is None:
            return
        if self.hub.repositories[repo].gated:
            return self._send(403, {"X-Error-Code": "GatedRepo"}, b"")
        data, span = files[name], self.headers.get("Range")
        headers = {"ETag": f'"{sha1(data).hexdigest()}"', "X-Repo-Commit": revision, "Accept-Ranges": "bytes"}
        if span is None:
            return self._send(200, headers, data, self.hub.cut.pop(name, None) if self.command == "GET" else None)
        start = int(span.removeprefix("bytes=").partition("-")[0])
        headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        return self._send(206, headers, data[start:])

    def _send(self, status: int, headers: dict[str, str], body: bytes, cut: int | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        stalled = next((at for name, at in self.hub.stalled.items() if self.path.endswith(f"/{name}")), None)
        if stalled is not None:
            self.wfile.write(body[:stalled])
            self.hub.ended.wait(60)
            self.close_connection = True
            return
        self.wfile.write(body if cut is None else body[:cut])
        if cut is not None:
            self.close_connection = True


@contextmanager
def serving() -> Generator[Hub]:
    """A running server; its address is `url`."""
    hub = Hub()

    class Bound(Handler):
        pass

    Bound.hub = hub
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        hub.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def reached(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Generator[Hub]:
    """A running server that huggingface_hub takes for the hub, and an empty cache."""
    with serving() as hub:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
        monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 10_000)
        yield hub


def files(folder: Path) -> dict[str, bytes]:
    """What is wanted of a checkpoint."""
    return {path.name: path.read_bytes() for pattern in PATTERNS for path in folder.glob(pattern)}
