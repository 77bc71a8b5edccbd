"""Pages in Chromium, driven by Playwright: `make test-browser`, which names the browser.

A build needs no browser, and other runs do not collect these tests.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from PIL import Image

BROWSER = os.environ.get("PPLCONV_TEST_BROWSER", "")
collect_ignore_glob = [] if BROWSER else ["test_*.py"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    # A container gives neither the rights that its sandbox wants nor much shared memory.
    options = ["--no-sandbox", "--disable-dev-shm-usage"]
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=options)
        yield started
        started.close()


class Window:
    """A page in a window of some width, light or dark, and all that the browser complains of."""

    def __init__(self, page: Any, width: int, scheme: str) -> None:
        self.page, self.width, self.scheme = page, width, scheme
        self.complaints: list[str] = []
        page.on("console", lambda said: said.type == "error" and self.complaints.append(said.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("requestfailed", lambda request: self.complaints.append(request.url))

    def check(self) -> None:
        """Nothing is wrong, nothing is wider than the window, and the colours are those wanted."""
        assert self.complaints == []
        assert self.page.evaluate("document.documentElement.scrollWidth") <= self.width
        picture = Image.open(io.BytesIO(self.page.screenshot())).convert("L")
        # Most of a page is its background.
        assert (np.median(picture) > 128) == (self.scheme == "light")


@pytest.fixture(params=product([390, 1280], ["light", "dark"]), ids=lambda p: f"{p[0]}-{p[1]}")
def window(request: pytest.FixtureRequest, browser: Any) -> Iterator[Window]:
    """As wide as a phone and as a laptop."""
    width, scheme = request.param
    context = browser.new_context(
        viewport={"width": width, "height": 844}, color_scheme=scheme, locale="en"
    )
    yield Window(context.new_page(), width, scheme)
    context.close()
