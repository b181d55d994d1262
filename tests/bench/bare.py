"""A child process that answers the same requests with the bare loop: `python -m tests.bench.bare CHECKPOINT`.

A line on standard input is a JSON object with `bodies` and `speculation`; the answer is a line with seconds and tokens.
"""

import json
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, get_args

import mlx.core as mx

from models.decode.session import Request, Sampling, Speculation
from models.runtime import load_runtime
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
        self.told.write(json.dumps({"bodies": list(bodies), "speculation": speculation}) + "\n")
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
        seconds, tokens = 0.0, 0
        for body in asked["bodies"]:
            text = runtime.tokenizer.render(body["messages"], body.get("tools"), **body["chat_template_kwargs"])
            prompt = tuple(runtime.tokenizer.encode(text))
            request = Request(prompt, Sampling(), body["max_tokens"], runtime.tokenizer.eos_ids, asked["speculation"])
            session, ids = decode(batches[asked["speculation"]], request)
            seconds += session.stats.decode_seconds
            tokens += len(ids) - 1
        print(json.dumps({"seconds": seconds, "tokens": tokens}), flush=True)
    del batches, runtime
    mx.clear_streams()


if __name__ == "__main__":
    main()
