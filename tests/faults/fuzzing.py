"""What fuzzers throw bytes at: each target takes any bytes, and raises nothing but a refusal by name."""

import asyncio
import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import httpx2

from models.checkpoint import embedded_path
from models.messages import TemplateError
from models.tokenizer import Tokenizer
from server.api.chat import schema as chat
from server.api.completions import schema as completions
from server.api.messages import schema as messages
from server.api.responses import schema as responses
from server.api.responses.store import Store
from server.app import create_app
from server.engine import Engine
from server.errors import Refusal
from server.settings import Settings
from server.verdicts import envelope
from tests.server.script import ScriptPair, says
from tools.laguna import Reader, fold

TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"k": {}}}}}
]
MARKERS = (
    b"<think>", b"</think>", b"<tool_call>", b"</tool_call>", b"<arg_key>", b"</arg_key>", b"<arg_value>",
    b"</arg_value>", b"f", b"k", b"\n", b"{", b"}", b'"', "ä🦎".encode(),
)  # fmt: skip
"""What a byte below their number stands for, so that plain bytes reach deep into the dialect."""

Target = Callable[[bytes], None]


def spelt(data: bytes) -> str:
    """Text in which the dialect's markers are as frequent as letters."""
    return b"".join(MARKERS[byte] if byte < len(MARKERS) else bytes([byte]) for byte in data).decode(errors="replace")


def reader(data: bytes) -> None:
    """What the model writes, cut in two: the pieces are those of the whole, and every call is a JSON object."""
    text, cut = spelt(data), (data[0] if data else 0)
    whole, parted = Reader(TOOLS, thinking=True), Reader(TOOLS, thinking=True)
    one = fold([*whole.push(text), *whole.finish("stop")])
    two = fold([*parted.push(text[:cut]), *parted.push(text[cut:]), *parted.finish("stop")])
    assert one == two
    assert all(isinstance(json.loads(call.arguments), dict) for call in one.calls)


def refusing(understood: Callable[[bytes], object]) -> Target:
    """A dialect's reader of bodies."""

    def target(data: bytes) -> None:
        try:
            understood(data)
        except Refusal as refusal:
            envelope(refusal)

    return target


def embedded_tokenizer() -> Tokenizer:
    """The embedded pair's."""
    return Tokenizer.load(embedded_path(), eos_ids=frozenset())


def rendering(tokenizer: Tokenizer) -> Target:
    """A message of any text through the chat template: none of it becomes a marker of the template's own."""

    def target(data: bytes) -> None:
        said = [{"role": "user", "content": spelt(data)}]
        plain = tokenizer.render_marked([{"role": "user", "content": ""}])
        try:
            rendered = tokenizer.render_marked(said)
        except TemplateError:
            return
        specials = {
            tokenizer.token_id("<tool_call>"),
            tokenizer.token_id("<assistant>"),
            tokenizer.token_id("</think>"),
        }
        ids, empty = (tokenizer.encode_at(each, [])[0] for each in (rendered, plain))
        assert sum(id_ in specials for id_ in ids) == sum(id_ in specials for id_ in empty)

    return target


SCHEMAS: Mapping[str, Target] = MappingProxyType(
    {
        "chat": refusing(chat.understood),
        "completions": refusing(completions.understood),
        "messages": refusing(messages.understood),
        "count_tokens": refusing(messages.countable),
        "responses": refusing(lambda body: responses.understood(body, Store(4, 1 << 20))),
    }
)
"""Bodies, by dialect."""

PLACES = (
    ("POST", "/v1/chat/completions"), ("POST", "/v1/completions"), ("POST", "/v1/messages"),
    ("POST", "/v1/messages/count_tokens"), ("POST", "/v1/responses"), ("POST", "/v1/responses/input_tokens"),
    ("POST", "/v1/tokenize"), ("POST", "/v1/detokenize"), ("GET", "/v1/responses/"), ("GET", "/v1/models/"),
    ("DELETE", "/v1/responses/"), ("GET", "/"),
)  # fmt: skip
"""Where a request may go; a path that ends in a slash goes on with what the fuzzer says."""


def shaped(text: str) -> bytes:
    """A body in which every dialect finds what it needs."""
    said = {"messages": [{"role": "user", "content": text}], "prompt": text, "input": text, "model": text[:3]}
    return json.dumps(said | {"max_tokens": 5, "stream": len(text) % 2 == 0}).encode()


@contextmanager
def routed() -> Generator[Target]:
    """Requests to the whole application, around a script, without a socket: none meets a fault of ours."""
    settings = Settings(log_level="error")
    engine = Engine(lambda: ScriptPair(says("fine"), context_length=512), settings)
    transport = httpx2.ASGITransport(create_app(engine, settings))

    async def asked(data: bytes) -> int:
        method, path = PLACES[data[0] % len(PLACES)]
        said = data[2:] if data[1] % 2 else shaped(spelt(data[2:]))
        path += quote(data[2:]) if path.endswith("/") else f"?limit={quote(data[2:5])}" if data[1] % 3 == 0 else ""
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            content = said if method == "POST" else None
            told = await http.request(method, path, content=content, headers={"content-type": "application/json"})
        return told.status_code

    with asyncio.Runner() as runner:
        runner.run(engine.start())
        while engine.state == "loading":
            runner.run(asyncio.sleep(0.01))

        def target(data: bytes) -> None:
            status = runner.run(asked(data.ljust(2, b"\0")))
            assert status < 500, (status, data)

        try:
            yield target
        finally:
            runner.run(engine.stop())
