"""A chat in the playground: streamed, tinted, stopped, with calls answered and faults told."""

import pytest

from tests.playground.conftest import Look
from tests.playground.script import CALL, CLOUDY, MARKUP, answer
from tests.server.script import ScriptPair, ids_of
from tests.server.stand import Stand, stand

pytestmark = pytest.mark.browser


def test_an_answer_is_tinted_by_who_wrote_each_token(served: Stand, look: Look) -> None:
    sight = look(served)
    sight.ask("hello")
    sight.over()
    tokens = sight.page.locator(".turn .text .t")
    assert "".join(tokens.all_text_contents()) == "Hello! How are you?"
    kinds = [(token.get_attribute("class") or "").removeprefix("t ") for token in tokens.all()]
    assert kinds == (["speculator"] * 3 + ["target"]) * 4 + ["speculator"] * 2 + ["target"]
    told = sight.page.locator(".foot").inner_text()
    assert "19 tokens" in told
    assert "74 % from drafts" in told


def test_a_call_waits_for_its_result_and_the_answer_goes_on_from_it(served: Stand, look: Look) -> None:
    sight = look(served)
    page = sight.page
    page.get_by_label("Thinking").select_option("on")
    page.get_by_role("button", name="What is the weather in Oslo?").click()
    sight.over()
    thoughts = page.locator(".thoughts")
    assert thoughts.get_attribute("open") is None
    assert thoughts.locator(".text").text_content() == "I look it up."
    call = page.get_by_role("region", name="Call of get_weather")
    assert call.locator("pre").first.text_content() == '{\n  "city": "Oslo"\n}'
    assert (call.locator("details pre").text_content() or "").endswith(CALL)
    page.get_by_label("What get_weather gives back").fill('{"temperature": 7, "sky": "cloudy"}')
    page.get_by_role("button", name="Send the result").click()
    sight.over(2)
    assert page.locator(".turn .text").last.text_content() == CLOUDY
    assert page.get_by_label("What get_weather gives back").get_attribute("readonly") is not None
    prompt = served.pair.prompts[-1]
    assert "I look it up." in prompt
    assert '<tool>{"temperature": 7, "sky": "cloudy"}' in prompt


def test_blanks_before_an_answer_are_not_shown_and_are_still_part_of_it(served: Stand, look: Look) -> None:
    sight = look(served)
    sight.ask("blanks")
    sight.over()
    assert sight.page.locator(".turn .text").last.text_content() == "So.\n\nIt is."
    sight.ask("hello")
    sight.over(2)
    assert "\n\n So.\n\nIt is.\n" in served.pair.prompts[-1]


def test_several_calls_are_answered_together(served: Stand, look: Look) -> None:
    sight = look(served)
    sight.page.locator("#tools-part summary").click()
    sight.page.locator("#tools-example").click()
    sight.ask("two")
    sight.over()
    results = sight.page.get_by_label("What get_weather gives back")
    assert results.count() == 2
    results.first.fill("cloudy 1")
    results.last.fill("cloudy 2")
    sight.page.get_by_role("button", name="Send the results").click()
    sight.over(2)
    assert "<tool>cloudy 1" in served.pair.prompts[-1]
    assert "<tool>cloudy 2" in served.pair.prompts[-1]


def test_a_broken_call_is_shown_as_the_text_it_is(served: Stand, look: Look) -> None:
    sight = look(served)
    sight.page.locator("#tools-part summary").click()
    sight.page.locator("#tools-example").click()
    sight.ask("broken")
    sight.over()
    assert sight.page.locator(".call").count() == 0
    assert sight.page.locator(".turn .text").last.text_content() == "<tool_call>get_weather broken"


def test_escape_stops_an_answer_and_frees_its_place(served: Stand, look: Look) -> None:
    sight = look(served)
    sight.ask("for ever")
    sight.page.locator(".turn .t").nth(20).wait_for()
    assert sight.page.get_by_role("button", name="Stop").is_visible()
    sight.page.keyboard.press("Escape")
    sight.over()
    assert "stopped" in sight.page.locator(".foot").inner_text()
    served.wait_until(lambda: served.pair.sessions == 0)
    sight.ask("hello")
    sight.over(2)
    assert served.pair.prompts[-1].count("<assistant>") == 2


def test_an_answer_can_be_asked_for_again(served: Stand, look: Look) -> None:
    sight = look(served)
    sight.ask("hello")
    sight.over()
    before = served.pair.prompts[-1]
    sight.page.get_by_role("button", name="Again").click()
    sight.page.get_by_role("button", name="Again").wait_for()
    served.wait_until(lambda: len(served.pair.prompts) > 1 and served.pair.prompts[-2:] == [before, before])
    assert sight.page.locator(".turn").count() == 2


def test_what_looks_like_markup_is_text(served: Stand, look: Look) -> None:
    sight = look(served)
    sight.ask(f"markup {MARKUP}")
    sight.over()
    assert sight.page.locator(".turn .text").last.text_content() == MARKUP
    assert sight.page.locator(".turn img, .turn b").count() == 0


@pytest.mark.parametrize(
    ("name", "wrong", "told"),
    [
        ("tools", "[{", "JSON"),
        ("tools", '{"type": "function"}', "Tools are an array."),
        ("tools", '[{"type": "function"}]', 'Tool 1 needs "type": "function" and a "function" with a "name".'),
        ("schema", "[1]", "A schema is an object."),
    ],
)
def test_json_that_cannot_be_meant_is_said_beside_it_and_not_sent(
    served: Stand, look: Look, name: str, wrong: str, told: str
) -> None:
    sight, asked = look(served), len(served.pair.prompts)
    sight.page.locator(f"#{name}-part summary").click()
    sight.page.locator(f"#{name}").fill(wrong)
    assert told in (sight.page.locator(f"#{name}-fault").text_content() or "")
    assert sight.page.locator(f"#{name}").get_attribute("aria-invalid") == "true"
    sight.ask("hello")
    assert sight.page.locator(f"#{name}").evaluate("field => field === document.activeElement")
    assert sight.page.get_by_label("Your message").input_value() == "hello"
    assert len(served.pair.prompts) == asked


def test_a_refusal_is_told_by_name_and_the_question_can_be_mended(served: Stand, look: Look) -> None:
    sight = look(served, expected=("status of 400",))
    sight.page.locator("#schema-part summary").click()
    sight.page.locator("#schema-example").click()
    sight.ask("hello")
    refused = sight.page.get_by_role("alert").filter(has_text="Not answered")
    refused.wait_for()
    assert "(response_format)" in refused.inner_text()
    assert sight.page.get_by_label("Your message").input_value() == "hello"


def test_a_refusal_stays_in_sight_when_a_long_question_comes_back_to_be_mended(served: Stand, look: Look) -> None:
    sight = look(served, size="phone", expected=("status of 400",))
    sight.ask("word " * 2000)
    sight.page.get_by_role("alert").filter(has_text="Not answered").wait_for()
    assert sight.page.get_by_label("Your message").input_value().startswith("word")
    below = "a => document.querySelector('#log').getBoundingClientRect().bottom - a.getBoundingClientRect().bottom"
    assert sight.page.locator(".refused").evaluate(below) >= 0


def test_a_key_is_asked_for_where_the_server_wants_one(look: Look) -> None:
    with stand(ScriptPair(answer, drafter="speculator"), api_key=["secret"]) as locked:
        sight = look(locked, expected=("status of 401",))
        sight.ask("hello")
        sight.page.get_by_role("alert").filter(has_text="Not answered").wait_for()
        assert sight.page.locator("#key").evaluate("field => field === document.activeElement")
        sight.page.keyboard.type("secret")
        sight.ask("hello")
        sight.over()
        assert sight.page.locator(".turn .text").last.text_content() == "Hello! How are you?"


def test_sampling_is_sent_as_it_was_set_and_kept_for_the_next_visit(served: Stand, look: Look) -> None:
    sight = look(served)
    for label, value in (("Temperature", "0.33"), ("Top k", "5"), ("Seed", "9"), ("Most tokens", "7")):
        sight.page.get_by_label(label).fill(value)
    sight.ask("hello")
    sight.over()
    request = served.pair.requests[-1]
    assert (request.sampling.temperature, request.sampling.top_k, request.sampling.seed) == (0.33, 5, 9)
    assert request.max_tokens == 7
    assert "token limit reached" in sight.page.locator(".foot").inner_text()
    sight.page.reload()
    assert sight.page.get_by_label("Seed").input_value() == "9"


def test_the_figures_follow_the_answer(served: Stand, look: Look) -> None:
    sight = look(served)
    sight.ask("hello")
    sight.over()
    page = sight.page
    assert page.locator("#depth").text_content() == "2.8 a block"
    assert page.locator("#writer").text_content() == "74 % drafted"
    assert page.get_by_role("img", name="speculator 14, prediction 0, copy 0, grammar 0, target 5").count() == 1
    assert page.locator("#depth-plot .done").count() == 4


def test_a_new_chat_stops_the_answer_and_knows_nothing_of_the_old_one(served: Stand, look: Look) -> None:
    sight = look(served)
    sight.ask("for ever")
    sight.page.locator(".turn .t").nth(5).wait_for()
    sight.page.get_by_role("button", name="New chat").click()
    sight.page.get_by_role("heading", name="See who writes.").wait_for()
    sight.page.get_by_role("button", name="Send").wait_for()
    sight.ask("hello")
    sight.over()
    assert served.pair.prompts[-1] == "<user>hello\n<assistant>"
    assert sight.page.locator(".turn").count() == 2


def test_a_stream_that_the_server_breaks_off_is_told_and_not_taken_for_an_answer(look: Look) -> None:
    with stand(ScriptPair(lambda _: [ids_of("Well"), RuntimeError("no")])) as broken:
        sight = look(broken)
        sight.ask("hello")
        sight.page.get_by_role("alert").filter(has_text="Not answered").wait_for()
        assert sight.page.locator(".foot").count() == 0
        assert sight.page.get_by_label("Your message").input_value() == "hello"
