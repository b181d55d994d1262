"""Any JSON at all, and bodies that look like chat completions."""

from hypothesis import strategies as st

from server.api.chat import parameters, schema

TEXTS = st.text(st.characters(exclude_categories=()), max_size=5)
"""JSON can spell half a surrogate pair, which has no UTF-8."""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
ROLES = st.sampled_from(["system", "developer", "user", "assistant", "tool", "function"])


KINDS = st.sampled_from(["text", "refusal", "image_url"])
PARTS = st.fixed_dictionaries({"type": KINDS | VALUES}, optional={"text": VALUES})


CALLS = st.fixed_dictionaries(
    {"function": st.fixed_dictionaries({"name": TEXTS}, optional={"arguments": VALUES})},
    optional={"id": st.sampled_from(["c1", "c2"]) | VALUES},
)
MESSAGES = st.fixed_dictionaries(
    {"role": ROLES | VALUES},
    optional={
        "content": VALUES | st.lists(PARTS, max_size=2),
        "tool_calls": VALUES | st.lists(CALLS, max_size=2),
        "tool_call_id": st.sampled_from(["c1", "c2"]) | VALUES,
        "reasoning": VALUES,
        "function_call": VALUES,
    },
)
FIELDS = sorted({*schema.ChatRequest.model_fields, *parameters.ONLY} - {"messages"})


BODIES = st.builds(
    lambda messages, rest: {"messages": messages} | rest,
    st.lists(MESSAGES, min_size=1, max_size=4) | VALUES,
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3),
)
