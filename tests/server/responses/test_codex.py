"""A conversation as Codex has it: what it sends, and all that it reads."""

import json
from typing import Any

from tests.server.responses.wire import Told, events
from tests.server.script import ScriptPair, ids_of
from tests.server.stand import Stand, stand

SHELL = {
    "type": "function",
    "name": "shell",
    "description": "Runs a command.",
    "strict": False,
    "parameters": {
        "type": "object",
        "properties": {
            "command": {"type": "array", "items": {"type": "string"}},
            "timeout_ms": {"type": "number"},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
}
TOOLS = [
    SHELL,
    {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark", "definition": "start:"}},
    {"type": "web_search", "external_web_access": False},
    {"type": "namespace", "name": "mcp__files", "tools": [SHELL]},
    {"type": "image_generation", "output_format": "png"},
]
OPENED: list[dict[str, Any]] = [
    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "<permissions>"}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>"}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "List the files."}]},
]
ASKED = {
    "model": "Laguna-Script",
    "instructions": "You are a coding agent.",
    "tools": TOOLS,
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "019a",
    "client_metadata": {"x-codex-installation-id": "1"},
    "text": None,
}
CALLED = 'Look.</think><tool_call>shell<arg_key>command</arg_key><arg_value>["ls", "-a"]</arg_value></tool_call>'


def heard(served: Stand, items: list[dict[str, Any]]) -> list[Told]:
    """The items that are done, as Codex collects them; only data is counted, and the end must be told."""
    response = served.http.post("/v1/responses", json=ASKED | {"input": items}, headers={"accept": "text/event-stream"})
    assert response.status_code == 200, response.text
    assert response.headers["x-laguna-ignored"] == "tools[1], tools[2], tools[3], tools[4]"
    told = events(response.text)
    assert told[-1]["type"] == "response.completed"
    assert told[-1]["response"]["id"]
    assert told[-1]["response"]["usage"]["input_tokens_details"]["cached_tokens"] == 0
    return [event["item"] for event in told if event["type"] == "response.output_item.done"]


def sent_back(item: Told) -> dict[str, Any]:
    """What Codex keeps of an item: no id, no status, and no plain text of thoughts."""
    kept = {name: value for name, value in item.items() if name not in ("id", "status")}
    return {name: value for name, value in kept.items() if (item["type"], name) != ("reasoning", "content")}


def test_a_command_is_called_and_its_output_read() -> None:
    pair = ScriptPair(
        lambda prompt: [ids_of("Done.</think>It is empty." if "exit 0" in prompt else CALLED)],
        default_chat_template_kwargs={"enable_thinking": False},
    )
    with stand(pair) as served:
        thought, call = heard(served, OPENED)
        assert [part["text"] for part in thought["summary"]] == ["Look."]
        assert (call["type"], call["name"], call["status"]) == ("function_call", "shell", "completed")
        assert json.loads(call["arguments"]) == {"command": ["ls", "-a"]}
        output = {
            "type": "function_call_output",
            "call_id": call["call_id"],
            "output": [{"type": "input_text", "text": "exit 0"}],
        }
        _, message = heard(served, [*OPENED, sent_back(thought), sent_back(call), output])
        assert message["content"][0]["text"] == "It is empty."
        first, second = pair.prompts
        assert first == (
            "tool shell\n<system>You are a coding agent.\n<system><permissions>\n<user><environment_context>\n"
            "<user>List the files.\n<assistant><think>"
        )
        assert "\n<assistant>Look.<tool_call>shell {'command': ['ls', '-a']}\n<tool>exit 0\n<assistant>" in second


def test_a_prompt_that_does_not_fit_is_a_plain_error_before_any_event() -> None:
    with stand(ScriptPair(lambda _: [], context_length=50)) as served:
        response = served.http.post("/v1/responses", json=ASKED | {"input": OPENED})
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "context_length_exceeded"
