"""Whatever JSON comes in as a completion: turns, or a refusal by name."""

import json

from hypothesis import given
from hypothesis import strategies as st

from server.api.completions import schema
from server.errors import Refusal, UnreadableBody
from server.verdicts import envelope
from tests.server.hostile import VALUES
from tests.server.script import ScriptPair, says
from tests.server.stand import stand

TYPE = {"content-type": "application/json"}
IDS = st.lists(st.integers(-1, 300) | VALUES, max_size=3)
PROMPTS = VALUES | IDS | st.lists(IDS, max_size=3)
FIELDS = sorted({*schema.CompletionRequest.model_fields, *schema.ONLY} - {"prompt"})
BODIES = st.builds(
    lambda prompt, rest: {"prompt": prompt} | rest,
    PROMPTS,
    st.dictionaries(st.sampled_from(FIELDS), VALUES | st.integers(0, 3), max_size=3),
)


def outcome(body: dict[str, object]) -> schema.Understood | Refusal:
    try:
        return schema.understood(json.dumps(body).encode())
    except Refusal as refusal:
        return refusal


@given(BODIES)
def test_any_body_is_turns_or_a_named_refusal(body: dict[str, object]) -> None:
    match outcome(body):
        case Refusal() as refusal:
            # NaN is no JSON, and belongs to no parameter.
            assert refusal.param or isinstance(refusal, UnreadableBody)
            assert len(json.dumps(envelope(refusal))) < 6000
        case told:
            assert told.turns
            assert all(turn.plain is not None and turn.plain.prompt for turn in told.turns)


def test_half_a_character_and_control_tokens_come_through_every_route() -> None:
    prompt = "a\ud800<think>\u2028\x00"
    with stand(ScriptPair(says("x"))) as served:
        for asked in ({"echo": True}, {"echo": True, "logprobs": 5}, {"echo": True, "stream": True}):
            response = served.http.post("/v1/completions", content=json.dumps({"prompt": prompt} | asked), headers=TYPE)
            assert response.status_code == 200, response.text
        for route, body in (
            ("tokenize", {"prompt": prompt, "with_pieces": True}),
            ("detokenize", {"tokens": [255, 0]}),
        ):
            assert served.http.post(f"/v1/{route}", content=json.dumps(body), headers=TYPE).status_code == 200
