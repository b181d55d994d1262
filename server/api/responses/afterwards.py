"""What becomes of a response afterwards: it is read, cancelled, deleted, and asked for its input."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request

from server.api.responses.store import Store
from server.errors import InvalidValue, Refusal, UnsupportedParameter

MOST_LISTED, LISTED = 100, 20
"""Items in one page, and where nothing is said."""


def afterwards(store: Store) -> APIRouter:
    """`/responses/{id}` and what is below it."""
    router = APIRouter()

    @router.get("/responses/{response_id}")
    async def retrieve(response_id: str, request: Request) -> dict[str, Any]:
        """The response as it is now."""
        if request.query_params.get("stream", "false") != "false":
            told = "'stream' is not supported here: a stream cannot be taken up again."
            raise UnsupportedParameter(told, param="stream")
        return store.response(response_id).response

    @router.delete("/responses/{response_id}")
    async def delete(response_id: str) -> dict[str, Any]:
        """Keep it no more."""
        store.delete(response_id)
        return {"id": response_id, "object": "response", "deleted": True}

    @router.post("/responses/{response_id}/cancel")
    async def cancel(response_id: str) -> dict[str, Any]:
        """End a response that is still being streamed."""
        before = store.response(response_id).response
        if store.cancel(response_id):
            return before | {"status": "cancelled"}
        if before["status"] != "cancelled":
            raise InvalidValue(f"Cannot cancel a response that is {before['status']}.", param="response_id")
        return before

    @router.get("/responses/{response_id}/input_items")
    async def input_items(response_id: str, request: Request) -> dict[str, Any]:
        """The items that it answered, those of its own request alone."""
        return page(store.response(response_id).listed, dict(request.query_params))

    return router


def page(items: Sequence[dict[str, Any]], query: dict[str, str]) -> dict[str, Any]:
    """A part of a list, the latest first unless it is asked for the other way round.

    Raises:
        Refusal: `limit`, `order` or `after` mean nothing here.
    """
    limit, order = query.get("limit", str(LISTED)), query.get("order", "desc")
    # Python reads no number of thousands of digits.
    if not limit.isdecimal() or len(limit) > len(str(MOST_LISTED)) or not 1 <= int(limit) <= MOST_LISTED:
        raise _wrong("limit", f"expected a number from 1 to {MOST_LISTED}")
    if order not in ("asc", "desc"):
        raise _wrong("order", "expected 'asc' or 'desc'")
    ordered = list(items if order == "asc" else reversed(items))
    if "after" in query:
        at = next((place for place, item in enumerate(ordered, 1) if item["id"] == query["after"]), None)
        if at is None:
            raise _wrong("after", "no item has this id")
        ordered = ordered[at:]
    shown = ordered[: int(limit)]
    ends = {"first_id": shown[0]["id"] if shown else None, "last_id": shown[-1]["id"] if shown else None}
    return {"object": "list", "data": shown, "has_more": len(ordered) > len(shown)} | ends


def _wrong(param: str, expected: str) -> Refusal:
    return InvalidValue(f"Invalid value for '{param}': {expected}.", param=param)
