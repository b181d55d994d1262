"""A child process that answers the same requests with the bare loop: `python -m tests.bench.bare CHECKPOINT`.

A line on standard input is a JSON object with `bodies`, `speculation` and `together`; the answer is a line with seconds
and tokens.
"""

import json
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, get_args

import mlx.core as mx

from models.decode.batch import Batch
from models.decode.session import Request, Sampling, Speculation
from models.runtime import load_runtime
from models.tokenizer import Tokenizer
from tests.bench.arms import decode
from tests.bench.blas import environment
from tests.bench.client import Body


@dataclass(frozen=True)
class Bare:
    """A bare loop that runs in another process."""

    told: IO[str]
    heard: IO[str]

    def answer(self, bodies: Sequence[Body], speculation: Speculation) -> dict[str, Any]:
        """Decode them one after another: `seconds` from the first id of each to its last, and `tokens` after it."""
        return self._asked(bodies, speculation, together=False)

    def rate(self, bodies: Sequence[Body], speculation: Speculation) -> float:
        """Decode them side by side: tokens a second of all together, from the first id of any to the last."""
        heard = self._asked(bodies, speculation, together=True)
        return heard["tokens"] / heard["seconds"]

    def _asked(self, bodies: Sequence[Body], speculation: Speculation, *, together: bool) -> dict[str, Any]:
        asked = {"bodies": list(bodies), "speculation": speculation, "together": together}
        self.told.write(json.dumps(asked) + "\n")
        self.told.flush()
        return json.loads(self.heard.readline())


@contextmanager
def bare_loop(checkpoint: Path, library: Path | None) -> Generator[Bare]:
    """The loop over `checkpoint` with this BLAS."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.bare", str(checkpoint)],
        env=environment(library),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        yield Bare(child.stdin, child.stdout)
    finally:
        child.stdin.close()
        child.wait(30)
        child.stdout.close()


def main() -> None:
    """Answer lines until there are no more."""
    runtime = load_runtime(sys.argv[1])
    batches = {speculation: runtime.batch() for speculation in get_args(Speculation)}
    for line in sys.stdin:
        asked = json.loads(line)
        batch = batches[asked["speculation"]]
        requests = [_request(runtime.tokenizer, body, asked["speculation"]) for body in asked["bodies"]]
        seconds, tokens = (_side_by_side if asked["together"] else _in_turn)(batch, requests)
        print(json.dumps({"seconds": seconds, "tokens": tokens}), flush=True)
    del batches, runtime
    mx.clear_streams()


def _request(tokenizer: Tokenizer, body: Body, speculation: Speculation) -> Request:
    text = tokenizer.render(body["messages"], body.get("tools"), **body["chat_template_kwargs"])
    return Request(tuple(tokenizer.encode(text)), Sampling(), body["max_tokens"], tokenizer.eos_ids, speculation)


def _in_turn(batch: Batch, requests: Sequence[Request]) -> tuple[float, int]:
    done = [decode(batch, request) for request in requests]
    return sum(session.stats.decode_seconds for session, _ in done), sum(len(ids) - 1 for _, ids in done)


def _side_by_side(batch: Batch, requests: Sequence[Request]) -> tuple[float, int]:
    for request in requests:
        batch.add(request)
    began, tokens = 0.0, 0
    while batch.sessions:
        ids = sum(len(update.ids) for update in batch.step())
        began = began or (time.perf_counter() if ids else 0.0)
        tokens += ids
    return time.perf_counter() - began, tokens


if __name__ == "__main__":
    main()
