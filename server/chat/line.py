"""The way to a server: one request an answer, hung up when it is left."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx2

from server.chat.answer import AnswerFailed, Event, events, lines
from server.client.reach import Door, Served

SILENCE = 600.0
"""Seconds without a byte after which a stream is given up; the server sends comments far more often."""


class HttpLine:
    """Chat completions over one connection."""

    def __init__(self, served: Served) -> None:
        self._door = Door(served.url, served.key)
        timeout = httpx2.Timeout(SILENCE, connect=5.0)
        self._http = httpx2.Client(base_url=served.url, headers=served.headers, timeout=timeout, trust_env=False)

    def close(self) -> None:
        """Hang up."""
        self._door.close()
        self._http.close()

    def knows(self, model: str) -> bool:
        """Whether the server answers to that name."""
        return self._door.knows(model)

    @contextmanager
    def answer(self, body: Mapping[str, Any]) -> Generator[Iterator[Event]]:
        """The events of an answer; leaving the context early ends it on the server too.

        Raises:
            AnswerFailed: the server refused, or the connection broke.
        """
        try:
            with self._http.stream("POST", "/v1/chat/completions", json=body) as response:
                if response.status_code != 200:
                    raise AnswerFailed(_refusal(response))
                yield events(lines(response.iter_bytes()))
        except httpx2.HTTPError as error:
            raise AnswerFailed(f"the connection broke: {error or type(error).__name__}") from error


def _refusal(response: httpx2.Response) -> str:
    text = response.read().decode("utf-8", "replace")
    try:
        return response.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return f"status {response.status_code}: {text[:200]}"
