"""The fold of a stream is the answer, however the blocks were cut and the choices came between each other."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from models.decode.logprobs import Scored
from server.api.completions import encode
from server.attribution import Attribution
from server.events import Answer, Content, Event, Finished, Report, Usage
from server.transcript import Transcript
from tests.server.script import EOS, ScriptTokenizer, ids_of
from tests.server.wire import events
from tools.laguna import fold
from tools.stops import Stops
from tools.verbatim import Verbatim

KEYS = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
WORDS = ["<think>", "</think>", "<tool_call>", "f", "<arg_key>", "\n", " ", "ö", "😀", "END", "E", "EN"]
REPORT = Report(1, 0, 0, 0.0, 0.0, 0, {}, speculation_off=None, cache_parted=None)
CHOICE = st.tuples(st.lists(st.sampled_from(WORDS), max_size=12), st.integers(1, 5), st.booleans())


def spoken(words: list[str], size: int, whole: bool) -> tuple[list[Event], Answer]:
    """What one choice says in blocks of `size` ids, and the answer it comes to; the last character may be cut."""
    tokenizer = ScriptTokenizer()
    told = Transcript(tokenizer.decoder(), Stops(("END",)), Verbatim(), attribution=Attribution(tokenizer.bytes_of))
    ids = ids_of("".join(words))[: None if whole else -1]
    pieces = []
    for start in range(0, len(ids), size):
        block = ids[start : start + size]
        pieces += told.push(block, [Scored(-id_ / 64, ((EOS - 1, -1.0), (id_, -id_ / 64))) for id_ in block])
    pieces += told.finish("stop")
    end = Finished(told.reason("length"), Usage(3, told.completion_tokens, 0, 0), REPORT)
    tokens = [token for piece in pieces if isinstance(piece, Content) for token in piece.tokens]
    return [*pieces, end], Answer(fold(pieces), end, tuple(tokens))


async def interleaved(queues: list[list[Event]], order: list[int]) -> AsyncGenerator[tuple[int, Event]]:
    """Every queue in its own order, and between them in that of `order`."""
    step = 0
    while any(queues):
        waiting = [index for index, queue in enumerate(queues) if queue]
        index = waiting[order[step % len(order)] % len(waiting)]
        step += 1
        yield index, queues[index].pop(0)


async def framed(queues: list[list[Event]], order: list[int], envelope: encode.Envelope) -> list[dict[str, Any]]:
    frames = [frame.decode() async for frame in encode.frames(interleaved(queues, order), envelope)]
    *data, done = events("".join(frames))
    assert done == "[DONE]"
    return [json.loads(item) for item in data]


@given(
    st.lists(CHOICE, min_size=2, max_size=4).filter(lambda said: len(said) != 3),
    st.lists(st.integers(0, 9), min_size=1, max_size=6),
    st.sampled_from(["", "Écho "]),
    st.booleans(),
    st.booleans(),
)
def test_the_fold_of_the_stream_is_the_answer(
    said: list[tuple[list[str], int, bool]], order: list[int], echo: str, scored: bool, counted: bool
) -> None:
    told = [spoken(*choice) for choice in said]
    envelope = encode.Envelope("k", 1, "m", (echo,) * len(said), 2, logprobs=scored, include_usage=counted)
    whole = encode.body([answer for _, answer in told], envelope)
    stream = asyncio.run(framed([list(queue) for queue, _ in told], order, envelope))
    folded: list[dict[str, Any]] = []
    for choice in whole["choices"]:
        own = [each for chunk in stream for each in chunk["choices"] if each["index"] == choice["index"]]
        scores = [each["logprobs"] for each in own if each["logprobs"] is not None]
        joined = {key: [entry for part in scores for entry in part[key]] for key in KEYS}
        folded.append(
            {
                "index": choice["index"],
                "text": "".join(each["text"] for each in own),
                "logprobs": joined if scored else None,
                "finish_reason": own[-1]["finish_reason"],
            }
        )
        assert all(each["finish_reason"] is None for each in own[:-1])
    assert folded == whole["choices"]
    last = stream[-1]
    assert last["laguna"] == whole["laguna"]
    assert (last.get("usage"), "usage" in stream[0]) == (whole["usage"] if counted else None, counted)
