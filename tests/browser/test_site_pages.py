"""Pages of the site that `make docs` has built, as a phone and a laptop show them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SITE = Path(os.environ.get("PPLCONV_TEST_SITE", "build/docs")).resolve()
# What the theme says on a first visit. A `default_mode` would silence it, and take the colours from
# readers without JavaScript.
OF_THE_THEME = "Got invalid theme mode: . Resetting to auto."
PAGES = [
    "index", "docs/tutorials/network", "docs/gallery/index", "docs/reference/index",
    "docs/results", "docs/serving",
]  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_window(window, name):
    page = window.page
    page.goto((SITE / f"{name}.html").as_uri())
    assert page.locator("h1").first.inner_text()
    # All pictures, those further down, too.
    page.evaluate("document.querySelectorAll('img').forEach(image => image.loading = 'eager')")
    page.wait_for_function("[...document.images].every(image => image.complete)")
    sizes = page.locator("img").evaluate_all("all => all.map(one => one.naturalWidth)")
    assert 0 not in sizes
    assert window.complaints in ([], [OF_THE_THEME])
    window.complaints.clear()
    window.check()
