"""What the checks share: how they say no, to a request and to settings."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from server.errors import Refusal

Answers = Callable[[Request, Refusal], Response]
"""A request and why it is refused, to the response that says so in the dialect of the path."""


class UnsafeSettings(ValueError):
    """The settings would open the server further than they say, or name what can never be met."""
