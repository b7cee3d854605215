"""A visitor with a browser, who notices what goes wrong in a page."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Literal

from playwright.sync_api import Browser, ConsoleMessage, Page

LAPTOP, PHONE = (1280, 800), (390, 844)
TIMEOUT_MS = 30_000


class Visit:
    """A page and the faults that its scripts and its policy have had."""

    def __init__(self, page: Page, console: str) -> None:
        self.page = page
        self.console = console
        self.faults: list[str] = []
        page.set_default_timeout(TIMEOUT_MS)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", self._note)

    def _note(self, message: ConsoleMessage) -> None:
        # A broker that is stopped, or an answer that is a refusal, is no fault of the page.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.faults.append(message.text)

    def open(self, address: str = "/") -> Page:
        """A view, once it is shown."""
        path = address.partition("?")[0]
        if self.page.url.startswith(self.console):
            self.page.evaluate("address => { location.hash = address; }", f"#{address}")
        else:
            self.page.goto(f"{self.console}#{address}")
        self.page.wait_for_selector(f'body[data-shown="{path}"]', state="attached")
        return self.page

    @classmethod
    @contextlib.contextmanager
    def of(
        cls,
        browser: Browser,
        console: str,
        size: tuple[int, int] = LAPTOP,
        scheme: Literal["light", "dark"] = "light",
    ) -> Iterator[Visit]:
        """In a context of its own, without cookies; afterwards there must have been no fault."""
        width, height = size
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            reduced_motion="reduce",
            has_touch=size == PHONE,
            locale="en-GB",
            timezone_id="Europe/Berlin",
        )
        try:
            visit = cls(context.new_page(), console)
            yield visit
            assert visit.faults == []
        finally:
            context.close()
