"""The endless copy of the embedded pair."""

from pathlib import Path

from models.decode.session import Request, Sampling
from models.runtime import load_runtime
from tests.bench.checkpoint import copied


def test_answers_of_the_endless_copy_end_at_their_limit(tmp_path: Path) -> None:
    runtime = load_runtime(str(copied(tmp_path, endless=True)), "none")
    for asked in ("Hello!", "Say that again.", "What is the weather in Oslo?"):
        ids = runtime.tokenizer.encode(runtime.tokenizer.render([{"role": "user", "content": asked}]))
        batch = runtime.batch()
        session = batch.add(Request(tuple(ids), Sampling(), 400, runtime.tokenizer.eos_ids))
        while session.finish is None:
            batch.step()
        assert (session.finish, len(session.emitted)) == ("length", 400)
