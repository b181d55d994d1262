"""A choice of tools, in the words that OpenAI's dialects share."""

from typing import Literal

from pydantic_core import PydanticCustomError

Word = Literal["auto", "none", "required"]
Kind = Literal["auto", "none", "required", "function", "allowed_tools"]


def spelled_out(value: object) -> object:
    """A choice in one word as the object that says the same.

    Raises:
        PydanticCustomError: it is another word.
    """
    if isinstance(value, str) and value not in ("auto", "none", "required"):
        raise PydanticCustomError("choice", "expected 'auto', 'none', 'required' or an object")
    return {"type": value} if isinstance(value, str) else value
