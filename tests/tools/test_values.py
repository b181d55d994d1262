"""The JSON value of bare text, type by type."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.values import Kind, escaped, quoted

TYPES = ("string", "integer", "number", "boolean", "null", "object", "array")


def types(*names: str) -> Kind:
    return Kind(frozenset(names) | ({"integer"} if "number" in names else set()))


@pytest.mark.parametrize(
    ("kind", "text", "json_text"),
    [
        (types("integer"), "5", "5"),
        (types("integer"), "-0.0", "0"),
        (types("integer"), "1e300", '"1e300"'),
        (types("integer"), "true", '"true"'),
        (types("integer"), '"5"', '"\\"5\\""'),
        (types("integer"), "9" * 40, "9" * 40),
        (types("integer"), "9" * 5000, '"' + "9" * 5000 + '"'),
        (types("number"), " 5.00 ", "5.00"),
        (types("number"), "0.1234567890123456789", "0.1234567890123456789"),
        (types("number"), ".5", '".5"'),
        (types("number"), "\u0663", '"\u0663"'),
        (types("boolean"), "True", "true"),
        (types("boolean"), "1", '"1"'),
        (types("boolean"), "yes", '"yes"'),
        (types("null"), "None", "null"),
        (types("integer", "null"), "null", "null"),
        (types("object"), '{"b": 1, "a": 1.50}', '{"b": 1, "a": 1.50}'),
        (types("object"), "[1]", '"[1]"'),
        (types("object"), '{"a": NaN}', '"{\\"a\\": NaN}"'),
        (types("object"), "{'a': \"it's\", 'b': 'say \"x\"'}", '{"a": "it\'s", "b": "say \\"x\\""}'),
        (types("object"), "{'a': '\\x41'}", "\"{'a': '\\\\x41'}\""),
        (types("object"), "{'True': True}", '{"True": true}'),
        (types("array"), "(1, 2)", '"(1, 2)"'),
        (types("array"), "['a', None]", '["a", null]'),
        (types("array"), "a.py", '"a.py"'),
        (types("array"), "[1, 2,]", '"[1, 2,]"'),
        (types("string"), ' "a" ', '" \\"a\\" "'),
        (types("string", "null"), "null ", '"null "'),
        (types("string", "boolean"), "true", '"true"'),
        (types("string", "integer"), "5", '"5"'),
        (types("string", "array"), "[1]", "[1]"),
        (types("string", "array"), '{"a": 1}', '"{\\"a\\": 1}"'),
        (Kind(), "null", '"null"'),
        (Kind(), ' {"a": 1}\n', '{"a": 1}'),
        (Kind(), "{'a': 1}", "\"{'a': 1}\""),
        (Kind(), '"a"', '"\\"a\\""'),
        (Kind(frozenset({"integer", "boolean"}), (1, True)), "1.0", "1"),
        (Kind(frozenset({"boolean", "string"}), (True, "1")), "1", '"1"'),
        (Kind(frozenset({"boolean", "string"}), (True, "a")), "True", "true"),
        (Kind(frozenset({"boolean", "string"}), (True, "a")), "b", '"b"'),
    ],
)
def test_a_text_is_read_by_its_type(kind: Kind, text: str, json_text: str) -> None:
    assert kind.read(text) == json_text


kinds = st.one_of(
    st.just(Kind()),
    st.frozensets(st.sampled_from(TYPES), min_size=1).map(Kind),
    st.builds(
        Kind,
        st.frozensets(st.sampled_from(TYPES), min_size=1),
        st.lists(st.sampled_from([1, "a", None, True, "null"]), min_size=1).map(tuple),
    ),
)
likely = st.lists(st.sampled_from(["null", "n", "{", "}", "[", "]", "'", '"', "\\", "1", ".5", "True", " ", "a"]))


def _strict(text: str) -> object:
    def refuse(word: str) -> None:
        raise AssertionError(word)

    return json.loads(text, parse_constant=refuse)


@given(kinds, st.text(max_size=10) | likely.map("".join))
def test_whatever_is_read_is_json(kind: Kind, text: str) -> None:
    _strict(kind.read(text))


@given(kinds, st.text(max_size=10) | likely.map("".join), st.integers(0, 20))
def test_what_is_sent_early_is_never_contradicted(kind: Kind, text: str, at: int) -> None:
    early, late = kind.opening(text[:at]), kind.opening(text)
    if early != "open":
        assert late == early
    if late == "string":
        assert _strict(kind.read(text)) == text


@given(st.text(), st.text())
def test_escaping_parts_escapes_the_whole(left: str, right: str) -> None:
    assert escaped(left) + escaped(right) == escaped(left + right)
    assert json.loads(quoted(left)) == left


def test_python_spelling_is_read_in_linear_time() -> None:
    # Unclosed quotes and backslashes once cost a scan to the end for each quote.
    for flood in ("\\'", "'\\", "\"'", "'", "[", "{'a':"):
        text = flood * 40_000
        assert json.loads(types("object").read(text)) == text
