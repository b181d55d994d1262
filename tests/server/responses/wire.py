"""What came over the wire in the Responses dialect, read without any SDK."""

import json
from collections.abc import Iterable
from typing import Any

import httpx2

from tests.server.stand import Stand

Told = dict[str, Any]
END = ("response.completed", "response.incomplete", "response.failed")


def post(served: Stand, **body: object) -> httpx2.Response:
    """A response to one user's turn, unless `input` says otherwise."""
    return served.http.post("/v1/responses", json={"model": "Laguna-Script", "input": "hi"} | body)


def answered(served: Stand, **body: object) -> Told:
    """The whole answer."""
    response = post(served, **body)
    assert response.status_code == 200, response.text
    return response.json()


def events(text: str) -> list[Told]:
    """Every event, whose name its data must repeat; they must be numbered without a gap."""
    found: list[Told] = []
    for block in text.split("\n\n")[:-1]:
        if block.startswith(":"):
            continue
        named, data = block.split("\n")
        told = json.loads(data.removeprefix("data: "))
        assert named == f"event: {told['type']}"
        assert told["sequence_number"] == len(found)
        found.append(told)
    return found


def streamed(served: Stand, **body: object) -> list[Told]:
    """All events of a stream."""
    response = post(served, stream=True, **body)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    return events(response.text)


DELTAS = {
    "response.output_text.delta": ("content", "text"),
    "response.reasoning_text.delta": ("content", "text"),
    "response.reasoning_summary_text.delta": ("summary", "text"),
    "response.function_call_arguments.delta": (None, "arguments"),
}
PARTS = {"response.content_part": "content", "response.reasoning_summary_part": "summary"}


def folded(told: Iterable[Told]) -> Told:
    """The response that a stream adds up to, from what was added alone, while everything that is told twice must agree
    and whatever is begun must be ended, in order, before anything beside it begins.
    """
    first, second, *between, last = told
    assert (first["type"], second["type"]) == ("response.created", "response.in_progress")
    assert last["type"] in END
    assert first["response"]["status"] == second["response"]["status"] == "in_progress"
    output: list[Told] = []
    open_: list[str] = []
    for event in between:
        if event["type"] != "response.in_progress":
            _add(event, output, open_)
    assert open_ == [] or last["type"] == "response.failed"
    assert {last["response"]["id"], second["response"]["id"]} == {first["response"]["id"]}
    return last["response"] | {"output": output}


def _add(event: Told, output: list[Told], open_: list[str]) -> None:
    kind, _, action = event["type"].rpartition(".")
    if kind == "response.output_item":
        _item(event, action, output, open_)
        return
    item = output[-1]
    assert event["output_index"] == len(output) - 1
    assert event["item_id"] == item["id"]
    if kind in PARTS:
        _part(event, action, item[PARTS[kind]], open_)
        return
    field, name = DELTAS[f"{kind}.delta"]
    holder = item if field is None else item[field][-1]
    assert len(open_) == (1 if field is None else 2)
    if action == "delta":
        assert event["delta"]
        holder[name] += event["delta"]
        if "logprobs" in event:
            holder["logprobs"] += event["logprobs"]
    else:
        assert action == "done"
        assert event[name] == holder[name]
        assert event.get("logprobs", []) == holder.get("logprobs", [])


def _item(event: Told, action: str, output: list[Told], open_: list[str]) -> None:
    if action == "added":
        assert open_ == []
        assert event["output_index"] == len(output)
        assert event["item"]["status"] == "in_progress"
        output.append(json.loads(json.dumps(event["item"])))
        open_.append(event["item"]["id"])
        return
    assert action == "done"
    assert open_ == [event["item"]["id"]]
    open_.pop()
    # Only the end says whether an item is whole, and what goes along with it.
    output[-1] |= {name: event["item"][name] for name in ("status", "encrypted_content") if name in event["item"]}
    assert output[-1] == event["item"]


def _part(event: Told, action: str, parts: list[Told], open_: list[str]) -> None:
    if action == "added":
        assert len(open_) == 1
        assert event.get("content_index", event.get("summary_index")) == len(parts)
        parts.append(json.loads(json.dumps(event["part"])))
        open_.append("part")
        return
    assert action == "done"
    assert open_.pop() == "part"
    assert event["part"] == parts[-1]


def texts(response: Told) -> dict[str, str]:
    """What was thought and said."""
    found = {"reasoning": "", "message": ""}
    for item in response["output"]:
        if item["type"] in found:
            found[item["type"]] += "".join(part["text"] for part in [*item.get("summary", []), *item["content"]])
    return found


def calls(response: Told) -> list[tuple[str, Any]]:
    """The calls that are whole."""
    whole = [item for item in response["output"] if item["type"] == "function_call" and item["status"] == "completed"]
    return [(item["name"], json.loads(item["arguments"])) for item in whole]
