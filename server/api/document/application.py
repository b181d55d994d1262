"""An application whose OpenAPI document tells what its routes read and answer."""

from typing import Any

from fastapi import FastAPI

from server.api.document.answers import ANSWERS, SCHEMAS, STREAMED
from server.api.document.requests import QUERIES, bodies
from server.verdicts import VERDICTS

Document = dict[str, Any]

NEVER = frozenset({499})
"""Statuses that nobody reads: the client had gone."""
BY_DOOR = frozenset({400, 401, 408, 414, 421, 431, 500, 501, 503})
"""What any path may answer, before its route is asked or after that failed."""
OF_BODY = frozenset({404, 413, 415, 429, 504})
"""What comes with a body beside that: the model it names, its size and type, a full line, a deadline."""
STATUSES = {verdict.status for verdict in VERDICTS.values()} - NEVER
MEANINGS = {
    status: ", ".join(sorted({row.code or row.type for row in VERDICTS.values() if row.status == status}))
    for status in STATUSES
}
"""The codes of each status."""


class Application(FastAPI):
    """FastAPI with a document of ours: the routes check their bodies by hand, so it cannot know them."""

    def openapi(self) -> Document:
        """The document, made once. Every path below `/v1` answers without that, too."""
        if self.openapi_schema is None:
            self.openapi_schema = _told(super().openapi())
        return self.openapi_schema


def _told(found: Document) -> Document:
    taken, schemas = bodies()
    paths = {
        path: {method: _operation(method, path, about, taken.get(path)) for method, about in item.items()}
        for path, item in found["paths"].items()
    }
    return found | {"paths": paths, "components": {"schemas": {**schemas, **SCHEMAS}}}


def _operation(method: str, path: str, about: Document, body: Document | None) -> Document:
    asked = [{"in": "query", "required": False} | query for query in QUERIES.get(path, ()) if method == "get"]
    operation = about | {"responses": _responses(method, path, has_body=body is not None)}
    if asked or "parameters" in about:
        operation["parameters"] = [*about.get("parameters", ()), *asked]
    return operation if body is None else operation | {"requestBody": body}


def _responses(method: str, path: str, *, has_body: bool) -> Document:
    named = {404} if "{" in path else frozenset()
    statuses = sorted(BY_DOOR | named | (OF_BODY if has_body else frozenset()))
    shape = "MessagesError" if path.startswith("/v1/messages") else "Error"
    refusals = {str(status): _json(MEANINGS[status], shape) for status in statuses}
    if path == "/health":
        refusals["503"] = _json("the engine hangs, is dead or stopped", "Health")
    return {"200": _granted(method, path)} | refusals


def _granted(method: str, path: str) -> Document:
    if (method, path) not in ANSWERS:
        return {"description": "As asked.", "content": {"text/plain": {"schema": {"type": "string"}}}}
    told = _json("As asked.", ANSWERS[method, path])
    if path in STREAMED and method == "post":
        told["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    return told


def _json(description: str, schema: str) -> Document:
    return {
        "description": description,
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
    }
