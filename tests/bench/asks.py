"""What is asked in the benches over HTTP: turns of held-out chats as request bodies, none of them twice."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from models.tiny.recipe.chats import held_out
from models.tiny.recipe.score import turns_of

LONG = 90
"""Characters that an answer should have at least."""
ROOM = 192

Body = dict[str, Any]


def asks(first: int = 0, long: int = LONG) -> Iterator[Body]:
    """Greedy requests for the first long turn of each held-out chat that has one, from chat `first` on."""
    for index in count(first):
        chat = held_out(index)
        texts = [text for _, _, text in turns_of(chat)]
        turns = [turn for turn, text in zip(chat.trained_turns, texts, strict=True) if len(text) >= long]
        if turns:
            yield body(chat.messages[: turns[0]], chat.tools, thinking=chat.thinking)


def body(messages: list[Body], tools: list[Body], *, thinking: bool) -> Body:
    """A request in OpenAI's shape: past calls carry their arguments as JSON text."""
    made: Body = {
        "messages": [wired(message) for message in messages],
        "temperature": 0,
        "max_tokens": ROOM,
        "chat_template_kwargs": {"enable_thinking": thinking},
    }
    return made | ({"tools": tools} if tools else {})


def wired(message: Body) -> Body:
    """The message with the arguments of its calls as JSON text."""
    calls = [
        call | {"function": call["function"] | {"arguments": _text(call["function"]["arguments"])}}
        for call in message.get("tool_calls") or ()
    ]
    return message | ({"tool_calls": calls} if calls else {})


def _text(arguments: Body | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
