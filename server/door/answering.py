"""How the door says no: with the answer that the application makes of a refusal, in the dialect of the path."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from server.errors import Refusal

Answers = Callable[[Request, Refusal], Response]
"""A request and why it is refused, to the response that says so."""
