"""Who may ask: API keys, read from the settings and compared in constant time."""

import hmac
from collections.abc import Iterable
from hashlib import sha256

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from server.door.answering import Answers, UnsafeSettings
from server.door.hosts import is_loopback
from server.errors import WrongKey
from server.keyfile import KeyFileError, read_keys
from server.settings import Settings

OPEN = frozenset({"/health", "/ready", "/", "/status"})
"""Paths that need no key: for whoever watches over the server, and pages, which bring no data and ask with a key."""
OPEN_FOLDER = "/static/"
"""What the pages are made of."""


class Keys:
    """The keys that open this server; only their digests are held."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = tuple(sha256(key.encode()).digest() for key in keys)

    def __len__(self) -> int:
        return len(self._digests)

    def open_with(self, key: str) -> bool:
        """Whether it is one of them. Every one is compared, so the time tells nothing."""
        digest = sha256(key.encode()).digest()
        return sum(hmac.compare_digest(digest, own) for own in self._digests) > 0


def keys_of(settings: Settings) -> Keys:
    """The keys that the settings name, directly and in their file.

    Raises:
        UnsafeSettings: a key cannot be sent in a header, the file cannot be read or holds none, or other machines
            could ask without one.
    """
    keys = [key.get_secret_value() for key in settings.api_key]
    if settings.api_key_file is not None:
        try:
            keys += read_keys(settings.api_key_file)
        except KeyFileError as error:
            raise UnsafeSettings(str(error)) from error
    if any(not key or not key.isascii() or not key.isprintable() or " " in key for key in keys):
        raise UnsafeSettings("an API key must be printable ASCII without spaces, and not empty")
    if not keys and not settings.insecure and not is_loopback(settings.host):
        raise UnsafeSettings(
            f"listening on {settings.host} lets other machines in, and no API key is set. Give one (--api-key-file, "
            "LAGUNA_API_KEY), listen on 127.0.0.1, or say --insecure if everybody who can reach it may use it"
        )
    return Keys(keys)


def is_open(path: str) -> bool:
    """Whether everybody may ask for this."""
    return path in OPEN or (path.startswith(OPEN_FOLDER) and ".." not in path)


def presented(headers: Headers) -> list[str]:
    """What a request shows: a bearer token, as OpenAI's clients do, and `x-api-key`, as Anthropic's do."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = [token.strip()] if scheme.lower() == "bearer" else []
    own = headers.get("x-api-key")
    return [key for key in (*bearer, own) if key]


class KeyCheck:
    """Refuses requests without a key, where keys are set. Plain ASGI."""

    def __init__(self, app: ASGIApp, keys: Keys, answers: Answers) -> None:
        self._app = app
        self._keys = keys
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what may come in."""
        if scope["type"] != "http" or not self._keys or is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        shown = presented(Headers(scope=scope))
        if any(self._keys.open_with(key) for key in shown):
            await self._app(scope, receive, send)
            return
        await self._answers(Request(scope), WrongKey(given=bool(shown)))(scope, receive, send)
