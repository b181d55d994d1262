"""How the pages stand in three sizes and two schemes, for eyes, keyboards and screen readers."""

from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.playground.conftest import SIZES, Look
from tests.server.stand import Stand

pytestmark = pytest.mark.browser
INSPECTION = Path(__file__).with_name("inspection.js").read_text("utf-8")
METRICS = """\
# TYPE laguna_requests_total counter
laguna_requests_total{outcome="done",route="/v1/chat/completions",status="200"} 41.0
laguna_requests_total{outcome="refused",route="/v1/chat/completions",status="400"} 2.0
laguna_prompt_tokens_total 1000.0
laguna_cached_tokens_total 900.0
laguna_completion_tokens_total 5000.0
laguna_drafted_tokens_total 8000.0
laguna_accepted_tokens_total 4000.0
laguna_rounds_total 1000.0
laguna_requests_running 3.0
laguna_requests_waiting 1.0
laguna_prefix_cache_bytes 1.572864e+06
laguna_first_token_seconds_count 4.0
laguna_first_token_seconds_sum 2.0
laguna_token_seconds_count 4.0
laguna_token_seconds_sum 0.08
"""


def faults(page: Page) -> list[str]:
    return page.evaluate(INSPECTION)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_a_conversation_reads_well_in_every_size_and_scheme(served: Stand, look: Look, size: str, scheme: str) -> None:
    sight = look(served, size=size, scheme=scheme)
    page = sight.page
    assert faults(page) == []
    page.get_by_role("button", name="What is the weather in Oslo?").click()
    sight.over()
    for summary in page.locator(".turn summary").all():
        summary.click()
    assert faults(page) == []
    wide = page.locator("#panel").is_visible()
    assert wide == (size == "desktop")
    if not wide:
        page.get_by_role("button", name="Settings and figures").click()
        assert page.get_by_role("button", name="Close").evaluate("button => button === document.activeElement")
    closed = page.locator("#settings details:not([open]) > summary")
    while closed.count():
        closed.first.click()
    assert faults(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_the_status_panel_shows_what_the_metrics_say(served: Stand, look: Look, size: str, scheme: str) -> None:
    sight = look(served, "/status", size, scheme, expected=("status of 404",))
    page = sight.page
    page.route("**/metrics", lambda route: route.fulfill(body=METRICS, content_type="text/plain"))
    page.reload()
    page.get_by_role("cell", name="/v1/chat/completions").first.wait_for()
    titles, numbers = (page.locator(part).all_text_contents() for part in (".figure h3", "output"))
    shown = dict(zip(titles, numbers, strict=True))
    assert shown == {
        "Running": "3",
        "Tokens a second": "0",
        "Drafts accepted": "50 %",
        "Prompts from cache": "90 %",
        "To the first token": "500 ms",
        "From token to token": "20 ms",
    }
    assert page.locator("tbody tr").first.locator("td").all_text_contents() == [
        "/v1/chat/completions",
        "200",
        "done",
        "41",
    ]
    assert page.locator("small").all_text_contents()[:4] == [
        "1 waiting",
        "5000 in all, counted when a request ends",
        "4.0 a round",
        "1.5 MiB held",
    ]
    assert faults(page) == []


def test_the_status_panel_of_a_server_that_nobody_asked_says_so(served: Stand, look: Look) -> None:
    page = look(served, "/status", expected=("status of 404",)).page
    page.route(
        "**/metrics", lambda route: route.fulfill(body="laguna_requests_running 0.0\n", content_type="text/plain")
    )
    page.reload()
    page.get_by_role("cell", name="None yet.").wait_for()


def test_everything_can_be_done_from_the_keyboard(served: Stand, look: Look) -> None:
    sight = look(served, size="phone")
    page, keyboard = sight.page, sight.page.keyboard
    keyboard.press("Tab")
    assert page.locator(":focus").text_content() == "Skip to the question"
    keyboard.press("Enter")
    page.locator("#ask:focus").wait_for()
    keyboard.type("one")
    keyboard.press("Shift+Enter")
    keyboard.type("hello")
    assert page.locator("#ask").input_value() == "one\nhello"
    keyboard.press("Enter")
    sight.over()
    page.get_by_role("button", name="Settings and figures").focus()
    keyboard.press("Enter")
    page.locator("#close-panel:focus").wait_for()
    keyboard.press("Escape")
    page.locator("#open-panel:focus").wait_for()
    assert not page.locator("#panel").is_visible()
    keyboard.press("/")
    page.locator("#ask:focus").wait_for()
    assert page.locator("#ask").input_value() == ""


def test_a_screen_reader_is_told_that_an_answer_comes_and_hears_it_when_it_is_whole(served: Stand, look: Look) -> None:
    sight = look(served)
    log, said = sight.page.get_by_role("log"), sight.page.locator("#said")
    assert log.get_attribute("aria-live") == "polite"
    sight.ask("for ever")
    sight.page.locator(".turn .t").nth(3).wait_for()
    assert (log.get_attribute("aria-busy"), said.text_content()) == ("true", "Answering.")
    sight.page.keyboard.press("Escape")
    sight.over()
    assert (log.get_attribute("aria-busy"), said.text_content()) == ("false", "Answered.")


def test_colours_go_round_and_stay_as_chosen(served: Stand, look: Look) -> None:
    page = look(served, scheme="light").page
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Colours: as the system").click()
    page.get_by_role("button", name="Colours: light").click()
    page.get_by_role("button", name="Colours: dark").wait_for()
    dark = page.evaluate(ground)
    assert light != dark
    page.reload()
    assert page.evaluate(ground) == dark
    page.get_by_role("button", name="Colours: dark").click()
    assert page.evaluate(ground) == light


def test_tints_can_be_taken_away(served: Stand, look: Look) -> None:
    sight = look(served)
    sight.ask("hello")
    sight.over()
    token = sight.page.locator(".turn .t").first
    ground = "token => getComputedStyle(token).backgroundColor"
    assert token.evaluate(ground) != "rgba(0, 0, 0, 0)"
    sight.page.get_by_label("Tint tokens by writer").uncheck()
    assert token.evaluate(ground) == "rgba(0, 0, 0, 0)"


def test_the_inspection_sees_what_is_wrong(served: Stand, look: Look) -> None:
    page = look(served, size="phone").page
    page.locator("#empty p").evaluate("text => { text.style.color = '#aaaaaa'; }")
    page.get_by_role("button", name="Send").evaluate("button => { button.textContent = ''; }")
    page.locator("#empty h2").evaluate("title => { title.style.width = '500px'; title.id = 'log'; }")
    told = "\n".join(faults(page))
    for fault in ("contrast 2.", "no name: button#send", "id twice: log", "log is 5"):
        assert fault in told
