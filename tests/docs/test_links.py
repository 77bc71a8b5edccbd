"""Links of the built site: dead ones, and ones that cannot be judged without a network."""

from __future__ import annotations

import json
import sys

import pytest

from tools.site import links

SILENT = "HTTPSConnectionPool: Max retries exceeded (Caused by NameResolutionError('no such host'))"


@pytest.fixture
def site(tmp_path):
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "theme.html").write_text('<a href="{{ template }}">theme</a>')
    (tmp_path / "folder").mkdir()
    old = '<a name="old">old</a><a href="../a.html#b">b</a>'
    (tmp_path / "folder" / "index.html").write_text(old)
    (tmp_path / "picture one.png").write_bytes(b"")
    (tmp_path / "a.html").write_text(
        '<h1 id="b">B</h1><a href="#b">b</a><a href="folder/#old">f</a>'
        '<img src="picture%20one.png"><a href="https://example.org/">other</a>'
    )
    return tmp_path


def test_a_whole_site_has_no_dead_links(site):
    assert links.dead_inside(site) == (4, [])


@pytest.mark.parametrize(
    "link, said",
    [
        ("#c", "no such anchor"),
        ("folder/index.html#new", "no such anchor"),
        ("b.html", "no such file"),
        ("folder/picture.png", "no such file"),
    ],
)
def test_dead_links_are_named(site, link, said):
    page = site / "a.html"
    page.write_text(page.read_text() + f'<a href="{link}">dead</a>')
    assert links.dead_inside(site) == (5, [f"a.html: {link}: {said}"])


def row(uri: str, status: str, info: str = "") -> dict[str, object]:
    return {"filename": "a.md", "lineno": 7, "uri": uri, "status": status, "info": info}


def test_without_a_network_no_link_is_called_dead():
    rows = [row("https://a.org/", "broken", SILENT), row("#b", "unchecked")]
    assert links.dead_outside(rows) == (1, 0, [])


def test_with_a_network_a_host_that_is_gone_is_dead():
    rows = [
        row("https://a.org/", "working"),
        row("https://gone.org/", "broken", SILENT),
        row("https://a.org/page", "broken", "404 Client Error: Not Found"),
    ]
    asked, answered, dead = links.dead_outside(rows)
    assert (asked, answered) == (3, 2)
    assert [line.split(": ")[1] for line in dead] == ["https://gone.org/", "https://a.org/page"]


@pytest.mark.parametrize("info, status", [(SILENT, 0), ("404 Client Error", 1)])
def test_the_verdict(site, monkeypatch, capsys, info, status):
    found = site / "output.json"
    found.write_text(json.dumps(row("https://a.org/", "broken", info)) + "\n")
    monkeypatch.setattr(sys, "argv", ["links", str(site), "--others", str(found)])
    assert links.main() == status
    assert ("NOT CHECKED HERE" in capsys.readouterr().out) == (status == 0)
