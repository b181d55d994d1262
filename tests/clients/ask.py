"""What every client asks for: a tool and its result, a typed answer, and two things that are refused."""

from typing import Any, Literal

from pydantic import BaseModel, Field

MODEL = "laguna-tiny"
CONTEXT = 4096
"""Tokens; the server of these tests has no more."""
HELLO = "Hello there."
ASK = "What is the weather in Oslo?"
LONG = "word " * 2 * CONTEXT
RESULT = '{"temperature": 7, "sky": "cloudy"}'
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


class Verdict(BaseModel):
    """What a typed answer is read into."""

    word: Literal["yes", "no", "perhaps"]
    score: int = Field(ge=0, le=10)
    sure: bool


def reads_result(text: str) -> bool:
    """Whether an answer says what the tool told."""
    return "7" in text and "cloudy" in text
