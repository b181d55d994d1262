"""`python -m tests.playground FOLDER`: pictures of the embedded pair in the playground, in every size and scheme."""

import sys
from functools import partial
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from models.runtime import load_runtime
from server.settings import Settings
from tests.playground.conftest import CHROMIUM, SIZES, arguments
from tests.server.stand import running, wait_until


def conversation(page: Page) -> None:
    """A call, its result and the answer, everything that is folded opened."""
    page.get_by_role("button", name="What is the weather in Oslo?").click()
    page.get_by_label("What get_weather gives back").fill('{"temperature": 7, "sky": "cloudy"}')
    page.get_by_role("button", name="Send the result").click()
    page.locator(".foot").nth(1).wait_for()
    for summary in page.locator(".turn summary").all():
        summary.click()


def asked(page: Page, name: str) -> None:
    """One of the examples, answered in a chat of its own."""
    page.get_by_role("button", name="New chat").click()
    page.get_by_role("button", name=name).click()
    page.locator(".foot").first.wait_for()


def pictures(browser: Browser, origin: str, folder: Path, size: str, scheme: str) -> None:
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if scheme == "dark" else "light"
    )
    page = context.new_page()

    def take(name: str) -> None:
        page.wait_for_timeout(300)
        page.screenshot(path=folder / f"{name}-{size}-{scheme}.png")

    page.goto(origin)
    page.locator("#state.ready").wait_for()
    take("empty")
    page.locator("#ask").focus()
    page.keyboard.press("Shift+Tab")
    take("focus")
    page.locator("[name=temperature]").evaluate("field => { field.value = '0'; }")
    page.locator("[name=speculation]").evaluate("field => { field.value = 'always'; }")
    conversation(page)
    take("chat")
    if not page.locator("#panel").is_visible():
        page.get_by_role("button", name="Settings and figures").click()
        take("panel")
        page.get_by_role("button", name="Close").click()
    asked(page, "How is the weather in Oslo?")
    take("schema")
    asked(page, "Who are you?")
    take("plain")
    page.get_by_label("Your message").fill("word " * 5000)
    page.keyboard.press("Enter")
    page.locator(".refused").wait_for()
    take("refused")
    page.goto(f"{origin}/status")
    page.locator("tbody tr").first.wait_for()
    page.wait_for_timeout(4500)
    take("status")
    context.close()


def main(folder: Path) -> None:
    """Raises what the browser raises where it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    with running(partial(load_runtime, None, "auto"), Settings()) as (port, engine), sync_playwright() as playwright:
        wait_until(lambda: engine.health.state != "loading")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments())
        for size in SIZES:
            for scheme in ("light", "dark"):
                pictures(browser, f"http://127.0.0.1:{port}", folder, size, scheme)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
