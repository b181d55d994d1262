"""One scripted generation, asked for in four dialects, and what each of them tells of it in the same words."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle
from types import MappingProxyType
from typing import Any

import httpx2

from tests.server.messages import wire as messages
from tests.server.responses import wire as responses
from tests.server.script import ids_of
from tests.server.stand import Stand
from tests.server.wire import chunks, folded

Told = dict[str, Any]
PARAMETERS: Told = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "tags": {"type": "array"}},
}
USER: list[Told] = [{"role": "user", "content": "hi"}]


@dataclass
class Script:
    """What the next generations say, and how it is cut into blocks."""

    ids: tuple[int, ...] = ()
    sizes: tuple[int, ...] = (1,)

    def say(self, text: str, sizes: list[int]) -> None:
        self.ids, self.sizes = ids_of(text), tuple(sizes)

    def __call__(self, prompt: str) -> Iterator[tuple[int, ...]]:
        start, ids = 0, self.ids
        for size in cycle(self.sizes):
            if start >= len(ids):
                return
            yield ids[start : start + size]
            start += size


@dataclass(frozen=True)
class Said:
    """A turn in no dialect."""

    reasoning: str
    text: str
    calls: tuple[tuple[str, str], ...]
    """Names and arguments, as they were written."""
    finish: str


@dataclass(frozen=True)
class Wish:
    """What is asked for beside the words: the same in every dialect that can say it."""

    thinks: bool = False
    most: int = 500
    stop: str | None = None
    tools: tuple[str, ...] = ("get_weather", "ping")

    def chat(self) -> Told:
        functions = [{"type": "function", "function": {"name": name, "parameters": PARAMETERS}} for name in self.tools]
        told: Told = {"messages": USER, "max_tokens": self.most, "tools": functions}
        return told | {"reasoning_effort": "high" if self.thinks else "none", "stop": self.stop}

    def responses(self) -> Told:
        functions = [{"type": "function", "name": name, "parameters": PARAMETERS} for name in self.tools]
        effort = {"effort": "high" if self.thinks else "none"}
        return {"input": "hi", "max_output_tokens": self.most, "tools": functions, "reasoning": effort}

    def messages(self) -> Told:
        tools = [{"name": name, "input_schema": PARAMETERS} for name in self.tools]
        told: Told = {"messages": USER, "max_tokens": self.most, "tools": tools}
        stops = None if self.stop is None else [self.stop]
        return told | {"thinking": {"type": "adaptive" if self.thinks else "disabled"}, "stop_sequences": stops}

    def completions(self) -> Told:
        return {"prompt": "hi", "max_tokens": self.most, "stop": self.stop}


def _whole(calls: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The calls that are one: what a stream began of a call that was cut is no JSON object."""
    return tuple((name, arguments) for name, arguments in calls if _is_object(arguments))


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def of_chat(message: Told, finish: str) -> Said:
    calls = [(call["name"], call["arguments"]) for call in message["tool_calls"]]
    return Said(message["reasoning_content"], message["content"], _whole(calls), finish)


def chat_whole(answer: Told) -> Said:
    (choice,) = answer["choices"]
    message = choice["message"]
    calls = [call["function"] for call in message.get("tool_calls", [])]
    plain = {"reasoning_content": message.get("reasoning_content", ""), "content": message["content"] or ""}
    return of_chat(plain | {"tool_calls": calls}, choice["finish_reason"])


def chat_streamed(response: httpx2.Response) -> Said:
    stream = chunks(response)
    return of_chat(folded(stream), stream[-1]["choices"][0]["finish_reason"])


def responses_whole(answer: Told) -> Said:
    told = responses.texts(answer)
    items = [item for item in answer["output"] if item["type"] == "function_call" and item["status"] == "completed"]
    calls = tuple((item["name"], item["arguments"]) for item in items)
    finish = "length" if answer["status"] == "incomplete" else "tool_calls" if calls else "stop"
    return Said(told["reasoning"], told["message"], calls, finish)


def responses_streamed(response: httpx2.Response) -> Said:
    return responses_whole(responses.folded(responses.events(response.text)))


FINISHES = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls"}


def messages_whole(answer: Told) -> Said:
    """Its input is an object, so arguments are told as this project spells them: as JSON in its plainest form."""
    blocks = answer["content"]
    joined = {kind: "".join(block[kind] for block in blocks if block["type"] == kind) for kind in ("thinking", "text")}
    used = [block for block in blocks if block["type"] == "tool_use"]
    calls = tuple((block["name"], json.dumps(block["input"])) for block in used)
    return Said(joined["thinking"], joined["text"], calls, FINISHES[answer["stop_reason"]])


def messages_streamed(response: httpx2.Response) -> Said:
    return messages_whole(messages.folded(messages.streamed(response)))


def messages_fragments(response: httpx2.Response) -> list[str]:
    """The arguments of the blocks that are calls, as the stream wrote them."""
    written: dict[int, str] = {}
    for name, data in messages.streamed(response):
        if name == "content_block_start" and data["content_block"]["type"] == "tool_use":
            written[data["index"]] = ""
        elif name == "content_block_delta" and data["index"] in written:
            written[data["index"]] += data["delta"]["partial_json"]
    return [text for text in written.values() if _is_object(text)]


@dataclass(frozen=True)
class Dialect:
    """A path, how to ask there, and how to read both kinds of answer."""

    path: str
    ask: Callable[[Wish], Told]
    whole: Callable[[Told], Said]
    streamed: Callable[[httpx2.Response], Said]
    common: Told = field(default_factory=dict)

    def post(self, served: Stand, wish: Wish, *, stream: bool) -> httpx2.Response:
        response = served.http.post(self.path, json=self.common | self.ask(wish) | {"stream": stream})
        assert response.status_code == 200, response.text
        return response


DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        "chat": Dialect("/v1/chat/completions", Wish.chat, chat_whole, chat_streamed),
        "responses": Dialect("/v1/responses", Wish.responses, responses_whole, responses_streamed, {"store": False}),
        "messages": Dialect("/v1/messages", Wish.messages, messages_whole, messages_streamed),
    }
)


def took(name: str, usage: Told) -> tuple[int, int]:
    """Tokens of the completion, and those of its reasoning; totals must be sums."""
    if name == "chat":
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        return usage["completion_tokens"], usage["completion_tokens_details"]["reasoning_tokens"]
    if name == "responses":
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
        return usage["output_tokens"], usage["output_tokens_details"]["reasoning_tokens"]
    return usage["output_tokens"], usage["output_tokens_details"]["thinking_tokens"]
