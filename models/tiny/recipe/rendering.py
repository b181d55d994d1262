"""Chats as text through the embedded pair's own template, and as ids with the weight of each in the loss."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from models.template import ChatTemplate
from models.tiny.recipe.chats import Chat

FOLDER = Path(__file__).parent.parent
OPEN, CLOSE, THINK, ANSWER = "<assistant>", "</assistant>", "<think>", "</think>"


@dataclass(frozen=True)
class Encoded:
    """A chat's `ids` [n], and `taught` [n]: true where the assistant's own tokens stand."""

    ids: np.ndarray
    taught: np.ndarray


@cache
def template() -> ChatTemplate:
    """The embedded pair's template, compiled as the server compiles it."""
    return ChatTemplate((FOLDER / "chat_template.jinja").read_text(), {})


def render(chat: Chat, messages: int | None = None) -> str:
    """The whole chat, or its first `messages` messages followed by the opened assistant turn."""
    text = template().render(chat.messages[:messages], chat.tools or None, enable_thinking=chat.thinking)
    return text if messages is not None else text.removesuffix(OPEN + (THINK if chat.thinking else ANSWER))


def encode(tokenizer: Tokenizer, chat: Chat) -> Encoded:
    """Ids of the whole chat; an assistant's turn is taught from after its opened prompt to `</assistant>`."""
    ids = tokenizer.encode(render(chat), add_special_tokens=False).ids
    opener, closer = tokenizer.token_to_id(OPEN), tokenizer.token_to_id(CLOSE)
    starts = [i for i, token in enumerate(ids) if token == opener]
    stops = [i for i, token in enumerate(ids) if token == closer]
    turns = [i for i, message in enumerate(chat.messages) if message["role"] == "assistant"]
    taught = np.zeros(len(ids), bool)
    for turn, start, stop in zip(turns, starts, stops, strict=True):
        if turn in chat.trained_turns:
            taught[start + 2 : stop + 1] = True
    return Encoded(np.array(ids, np.int64), taught)
