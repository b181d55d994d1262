"""What the bench asks the loaded model: five kinds of work, of which drafts are known to agree most and least."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

KEPT = """\
def total(orders):
    result = 0
    for order in orders:
        result = result + order["price"] * order["count"]
    return result


def longest(names):
    best = ""
    for name in names:
        if len(name) > len(best):
            best = name
    return best
"""


@dataclass(frozen=True)
class Ask:
    """One request, as the chat template takes it."""

    kind: str
    messages: tuple[Mapping[str, Any], ...]
    thinking: bool = False
    tools: tuple[Mapping[str, Any], ...] = ()


def _tool(name: str, description: str, **properties: str) -> Mapping[str, Any]:
    shaped = {key: {"type": kind} for key, kind in properties.items()}
    parameters = {"type": "object", "properties": shaped, "required": list(shaped)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = (
    _tool("get_weather", "Get the weather in a city.", city="string"),
    _tool("read_file", "Read a file.", path="string"),
)


def _said(kind: str, text: str, *, thinking: bool = False, tools: tuple[Mapping[str, Any], ...] = ()) -> Ask:
    return Ask(kind, ({"role": "user", "content": text},), thinking, tools)


ASKS = (
    _said("prose", "Tell in four paragraphs how a lighthouse keeper spends a day in winter."),
    _said("prose", "Explain to a ten-year-old why the sky is blue and the sunset is red, in about 200 words."),
    _said("code", "Write a Python class for a binary search tree with insert, find, delete and in-order iteration."),
    _said("code", "Write a function in Rust that reads a CSV file and returns the mean of every numeric column."),
    _said("edit", f"Add type annotations to this Python code and change nothing else:\n\n```python\n{KEPT}```"),
    _said("edit", f"Rename `total` to `sum_of_orders` in this code and repeat all of it:\n\n```python\n{KEPT}```"),
    _said("tool calls", "What is the weather in Oslo and Lima?", tools=TOOLS),
    _said("tool calls", "Read src/main.py and docs/notes.md.", tools=TOOLS),
    _said("thinking", "A farmer has 17 sheep; all but 9 run away, then he buys 4. How many are left?", thinking=True),
    _said("thinking", "Which weighs more, 2 kg of iron at 7.9 g/cm3 or 300 cm3 of it? Check twice.", thinking=True),
)
"""Two of each kind."""
