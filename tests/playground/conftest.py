"""A headless Chromium before a scripted server; a console error or a request to elsewhere fails the test."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from tests.playground.script import answer
from tests.server.script import ScriptPair
from tests.server.stand import Stand, stand

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SIZES = {"phone": (390, 844), "tablet": (820, 1180), "desktop": (1440, 900)}


def arguments() -> list[str]:
    """Chromium refuses to run as root with its sandbox; where root runs it there is a container around it."""
    return ["--no-sandbox"] if os.geteuid() == 0 else []


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine: the playground was not looked at")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments())
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def served() -> Iterator[Stand]:
    with stand(ScriptPair(answer, drafter="speculator", pace=0.005)) as running:
        yield running


@dataclass
class Sight:
    """One tab, and what it must not have said when the test is over."""

    page: Page
    origin: str
    expected: tuple[str, ...] = ()
    """Console errors that hold one of these words are what the test is about."""
    errors: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def watch(self) -> None:
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self._asked(request.url))

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def _asked(self, url: str) -> None:
        if not url.startswith(self.origin):
            self.elsewhere.append(url)

    def ask(self, text: str) -> None:
        self.page.get_by_label("Your message").fill(text)
        self.page.keyboard.press("Enter")

    def over(self, answers: int = 1) -> None:
        """Wait until so many answers are over."""
        self.page.locator(".foot").nth(answers - 1).wait_for()


Look = Callable[..., Sight]


@pytest.fixture
def look(browser: Browser) -> Iterator[Look]:
    """Open a page of a server in a fresh tab: its path, the window's size, the colours that the system has."""
    with ExitStack() as stack:
        sights: list[Sight] = []

        def look(
            server: Stand, path: str = "/", size: str = "desktop", scheme: str = "light", expected: tuple[str, ...] = ()
        ) -> Sight:
            width, height = SIZES[size]
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme="dark" if scheme == "dark" else "light",
                reduced_motion="reduce",
            )
            stack.callback(context.close)
            context.set_default_timeout(10_000)
            sight = Sight(context.new_page(), f"http://127.0.0.1:{server.port}", expected)
            sight.watch()
            sights.append(sight)
            sight.page.goto(sight.origin + path)
            sight.page.locator("#state.ready").wait_for()
            return sight

        yield look
        for sight in sights:
            unexpected = [error for error in sight.errors if not any(word in error for word in sight.expected)]
            assert (unexpected, sight.elsewhere) == ([], [])
