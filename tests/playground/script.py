"""What the scripted model answers in the playground: by what it was asked last."""

from collections.abc import Iterable, Iterator

from tests.server.script import Round, forever, ids_of

CALL = "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>"
CLOUDY = "It is 7 degrees and cloudy in Oslo."
MARKUP = "<img src=x onerror=alert(1)> & <b>bold</b>"
ANSWERS = {
    "weather": f"I look it up.</think>{CALL}",
    "cloudy": f"I have it.</think>{CLOUDY}",
    "two": CALL + CALL,
    "broken": "<tool_call>get_weather broken",
    "markup": MARKUP,
    "blanks": "\n\n So.\n\nIt is.",
    "hello": "Hello! How are you?",
}


def answer(prompt: str) -> Iterable[Round]:
    """Four ids a round, of which a drafter wrote three; what is asked for `ever` never ends."""
    asked = prompt.rpartition("<user>")[2]
    asked = asked.rpartition("<tool>")[2] or asked
    if "ever" in asked:
        return forever(prompt)
    return _rounds(next((said for word, said in ANSWERS.items() if word in asked.lower()), "Yes."))


def _rounds(text: str) -> Iterator[Round]:
    ids = ids_of(text)
    for start in range(0, len(ids), 4):
        yield ids[start : start + 4]
