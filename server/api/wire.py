"""JSON in and out: bytes to a checked request, with every fault a named refusal, and an answer to bytes."""

import json
import math
import re
from typing import Annotated, Any, NoReturn, TypeVar

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import ClientDisconnect

from server.api.limits import bounded
from server.errors import (
    BodyTooLarge,
    ClientGone,
    InvalidType,
    InvalidValue,
    MissingParameter,
    Refusal,
    TooDeep,
    UnreadableBody,
    UnsupportedMediaType,
)

_JSON_TYPE = re.compile(r"application/([\w.-]+\+)?json\s*(;|$)", re.IGNORECASE)


class Wire(BaseModel):
    """Base of everything a client may send: no lax conversions, no NaN, and unknown fields are not looked at."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False)


Asked = TypeVar("Asked", bound=Wire)
Item = TypeVar("Item")

Array = Annotated[list[Item], Field(fail_fast=True)]
"""A list that is refused at its first wrong item: a body of wrong items only would be read for minutes else."""


async def json_body(request: Request, limit: int) -> bytes:
    """The body, of at most `limit` bytes, which calls itself JSON.

    Raises:
        UnsupportedMediaType: the content type is not JSON (a web page of another origin can send only such).
        BodyTooLarge, ClientGone: what it says.
    """
    if not _JSON_TYPE.match(request.headers.get("content-type", "")):
        raise UnsupportedMediaType("Send the body as JSON, with the header 'Content-Type: application/json'.")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMediaType("Send the body as it is, without a 'Content-Encoding'.")
    refusal = BodyTooLarge(f"The request body is larger than {limit} bytes.")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise refusal
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > limit:
                raise refusal
    except ClientDisconnect as error:
        raise ClientGone from error
    return bytes(body)


def parsed(body: bytes) -> dict[str, Any]:
    """The JSON object in `body`; NaN and the infinities, which Python would let pass, are not JSON.

    Raises:
        UnreadableBody: not JSON, not UTF-8, or not an object.
        TooDeep, TooMany: more than any request needs.
        InvalidValue: a number, anywhere in it, is beyond the range of a double and could not be told again.
    """
    infinite: list[str] = []

    def number(digits: str) -> float:
        if math.isinf(read := float(digits)):
            infinite.append(digits)
        return read

    try:
        value = json.loads(body.decode("utf-8-sig"), parse_float=number, parse_constant=_no_constant)
    except RecursionError as error:
        raise TooDeep("The JSON body of your request is nested too deeply.") from error
    except ValueError as error:
        raise UnreadableBody(f"We could not parse the JSON body of your request: {_unread(error)}.") from error
    if not isinstance(value, dict):
        raise UnreadableBody(f"The JSON body of your request must be an object, not {json_kind(value)}.")
    bounded(value)
    if infinite:
        param = path(_place_of_infinity(value) or ())[:200]
        raise InvalidValue(
            f"Invalid value for '{param}': {infinite[0][:40]} is beyond the range of a double.", param=param
        )
    return value


class _NoJsonError(ValueError):
    """Python's reader would have let it pass."""


def _unread(error: ValueError) -> str:
    """What is wrong, in the words of the client's side."""
    match error:
        case json.JSONDecodeError():
            return f"{error.msg} (character {error.pos})"
        case UnicodeDecodeError():
            return f"it is not UTF-8 (byte {error.start})"
        case _NoJsonError():
            return str(error)
    # Python's own limit against numbers whose reading takes long.
    return "a number in it has too many digits"


def _place_of_infinity(value: object) -> tuple[int | str, ...] | None:
    """Where the first infinite number is, if there is one."""
    match value:
        case float() if math.isinf(value):
            return ()
        case dict() | list():
            for step, inner in value.items() if isinstance(value, dict) else enumerate(value):
                if (place := _place_of_infinity(inner)) is not None:
                    return (step, *place)
    return None


def stated(body: bytes) -> dict[str, Any]:
    """The fields that are set in the JSON object in `body`: null and absent are the same in every dialect.

    Raises:
        UnreadableBody, TooDeep, TooMany: as `parsed` does.
    """
    return {name: value for name, value in parsed(body).items() if value is not None}


def _no_constant(name: str) -> NoReturn:
    raise _NoJsonError(f"{name} is not a JSON value")


def json_kind(value: object) -> str:
    """What JSON calls this value."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
    return "an object"


def quoted(text: str) -> str:
    """A client's word for a message: short, and in ASCII, since half a surrogate pair cannot be part of one."""
    return ascii(text[:40])[1:-1]


def checked(schema: type[Asked], body: dict[str, Any], place: str = "") -> Asked:
    """`body`, which is at `place` in the request, as `schema`.

    Raises:
        MissingParameter, InvalidType, InvalidValue: the first field that is wrong, by its path.
    """
    try:
        return schema.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise _refusal(first, place) from error


def _refusal(fault: ErrorDetails, place: str) -> Refusal:
    param = f"{place}.{path(fault['loc'])}".strip(".")
    kind = fault["type"]
    if kind == "missing":
        return MissingParameter(f"Missing required parameter: '{param}'.", param=param)
    named: type[Refusal] = InvalidType if kind.endswith("_type") else InvalidValue
    what = "type" if named is InvalidType else "value"
    # The name of our class says nothing to a client.
    wanted = "Input should be an object" if kind == "model_type" else fault["msg"]
    return named(f"Invalid {what} for '{param}': {wanted}.", param=param)


def path(loc: tuple[int | str, ...]) -> str:
    """A place in the body as its clients write it, such as `messages[0].content[1].type`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in loc).removeprefix(".")


def compact(value: object) -> str:
    """JSON in ASCII without spaces. Some clients split lines at U+2028 and its like, and half a surrogate pair has no
    UTF-8; ASCII holds neither.
    """
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


class Json(JSONResponse):
    """A JSON answer that any string can be part of."""

    def render(self, content: object) -> bytes:
        """The body."""
        return compact(content).encode()
