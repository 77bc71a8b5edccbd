"""README in the package's metadata has no relative links."""

from __future__ import annotations

import re

from asm.description import absolute, description, repository
from tests.documents import ROOT

README = """<picture>
  <source media="(dark)" srcset="docs/a-dark.png">
  <img alt="a" src="docs/a.png">
</picture>

See [pages](docs/a.md#b), [more](#below), [others](https://example.org/).
"""


def test_with_an_address_links_are_absolute():
    text = absolute(README, "https://example.org/o/r")
    assert "[pages](https://example.org/o/r/blob/HEAD/docs/a.md#b)" in text
    assert "[more](https://example.org/o/r#below)" in text
    assert 'srcset="https://example.org/o/r/raw/HEAD/docs/a-dark.png"' in text
    assert 'src="https://example.org/o/r/raw/HEAD/docs/a.png"' in text
    assert "[others](https://example.org/)" in text


def test_without_an_address_links_are_text():
    assert absolute(README, "") == "See pages, more, [others](https://example.org/).\n"


def test_the_address_is_the_repository_of_the_project():
    assert repository('[project.urls]\nRepository = "https://example.org/o/r/"\n') == (
        "https://example.org/o/r"
    )
    assert repository('[project]\nname = "a"\n') == ""


def test_the_description_is_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.startswith("# pplconv") and description().startswith("# pplconv")
    relative = r"\]\((?!https?:)"
    assert re.search(relative, readme) and not re.search(relative, description())
