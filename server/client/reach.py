"""Asking over HTTP who is there, in what state, and what it serves."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx2

from models.progress import DOING

QUICK = 5.0
"""Seconds for an answer that needs no model."""


class Unreachable(ValueError):
    """There is no server to ask, or not this one; the message says what to do."""


@dataclass(frozen=True)
class Loading:
    """How far a server's model is, in words; empty before the first step."""

    told: str


@dataclass(frozen=True)
class Served:
    """A server that answers, and what it serves."""

    url: str
    """Without a path, as `http://127.0.0.1:8000`."""
    key: str | None
    model: str
    context_length: int
    about: dict[str, Any]
    """What the model list says under `meta`."""

    @property
    def headers(self) -> dict[str, str]:
        """What opens it."""
        return key_header(self.key)


def key_header(key: str | None) -> dict[str, str]:
    """The header that carries a key."""
    return {} if key is None else {"authorization": f"Bearer {key}"}


class Door:
    """One address, asked without the proxies of the environment: the server is near."""

    def __init__(self, url: str, key: str | None) -> None:
        self.url, self.key = url.rstrip("/").removesuffix("/v1"), key
        self._http = httpx2.Client(base_url=self.url, timeout=QUICK, trust_env=False, headers=key_header(key))

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def look(self) -> Served | Loading | None:
        """Who is there: a server that is ready, one whose model is on its way, or nobody.

        Raises:
            Unreachable: it is no such server, it is broken, or it does not let us in.
        """
        health = self._get("/health")
        if health is None:
            return None
        told = _object(health)
        if "status" not in told or "last_step_age_seconds" not in told:
            raise Unreachable(f"what answers at {self.url} is another server: give the address of this one")
        match told["status"]:
            case "loading":
                return Loading(_way(told.get("loading")))
            case "ok":
                return self._served()
        raise Unreachable(f"the server at {self.url} is {told['status']}: {told.get('reason') or 'it says no more'}")

    def _get(self, path: str) -> httpx2.Response | None:
        """None where nobody listens."""
        try:
            return self._http.get(path)
        except httpx2.ConnectError:
            return None
        except httpx2.HTTPError as error:
            raise Unreachable(f"{self.url} does not answer: {error}") from error

    def _served(self) -> Served | None:
        answer = self._get("/v1/models")
        if answer is None:
            return None
        if answer.status_code in (401, 403):
            raise Unreachable(f"{self.url} wants an API key: set LAGUNA_API_KEY, or give --api-key")
        models = _object(answer).get("data")
        if answer.status_code != 200 or not models:
            raise Unreachable(f"{self.url} tells no model: {answer.text[:200]}")
        return Served(self.url, self.key, models[0]["id"], models[0]["context_length"], models[0].get("meta", {}))

    def knows(self, model: str) -> bool:
        """Whether the server answers to this name of a model."""
        answer = self._get(f"/v1/models/{quote(model)}")
        return answer is not None and answer.status_code == 200

    def speaks(self, path: str) -> bool:
        """Whether there is such a route; asked in a way that starts no generation."""
        answer = self._get(path)
        return answer is not None and answer.status_code not in (404, 501)


def _object(answer: httpx2.Response) -> dict[str, Any]:
    try:
        told = answer.json()
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _way(step: dict[str, Any] | None) -> str:
    """How far it is, for people."""
    if step is None:
        return ""
    doing = DOING.get(step["phase"], step["phase"])
    return f"{doing} {step['what']}: {100 * step['fraction']:.0f} %"
