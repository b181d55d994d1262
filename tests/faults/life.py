"""A server over the embedded pair in a process of its own, and what it says of a few topics."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests.server.process import answers, free_port
from tests.server.stand import wait_until

ROOT = Path(__file__).parents[2]
SYSTEM = "You are a careful assistant. " * 30


@dataclass(frozen=True)
class Life:
    """One process over the embedded pair."""

    process: subprocess.Popen[bytes]
    http: httpx2.Client

    def ask(self, topic: str) -> tuple[str, int]:
        """What it answers, and how many tokens of the prompt it had kept."""
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": f"Tell me about {topic}."}]
        body = {"messages": messages, "max_tokens": 12, "seed": 3, "temperature": 1}
        told: dict[str, Any] = self.http.post("/v1/chat/completions", json=body).json()
        message = told["choices"][0]["message"]
        cached = (told["usage"].get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        return f"{message.get('reasoning_content')}|{message['content']}", cached


@contextmanager
def life(folder: Path, module: str | None = None, *words: str) -> Generator[Life]:
    """Started, and at the end killed, if it still lives; what it keeps lies in `folder`.

    Args:
        folder: for `--cache-dir`.
        module: run in the server's place, with the port, the folder and these words.
    """
    port = free_port()
    plain = ("server", "serve", "--port", str(port), "--cache-dir", str(folder))
    command = plain if module is None else (module, str(port), str(folder), *words)
    process = subprocess.Popen(
        [sys.executable, "-m", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT
    )
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            wait_until(lambda: answers(http) or process.poll() is not None)
            yield Life(process, http)
    finally:
        process.kill()
        process.wait()
