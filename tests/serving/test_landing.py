"""The page at ``/``: what it lists, where its links lead, and that it loads nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from onnx import helper

import pplconv
from tests.network.models import model_of
from tests.serving.served import Client, served, session

# Attributes by which a page loads something or leads somewhere.
LOADS = {"src", "srcset", "href", "action", "data", "poster", "background"}


class Page(HTMLParser):
    """The tags, texts and addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [(tag, value) for name, value in attrs if name in LOADS]

    def handle_data(self, data):
        self.texts += data.split()


def page_of(client: Client) -> tuple[Page, str]:
    answer = client.get("/")
    assert answer.status == 200, answer
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    text = answer.body.decode()
    return Page(text), text


def test_the_page_lists_the_model_and_links_to_it():
    with served(session(threads=1), name="my model") as client:
        page, text = page_of(client)
        links = [address for tag, address in page.addresses if tag == "a"]
        assert set(links) == {
            "v2/models/my%20model", "v2/models/my%20model/config", "metrics", "v2",
        }  # fmt: skip
        assert all(client.get(f"/{link.replace('%20', ' ')}").status == 200 for link in links)
        assert [address for tag, address in page.addresses if tag != "a"] == ["data:,"]
        assert not re.search(r"https?:|url\(|@import|//[a-z]", text)
    assert {"form", "script", "style", "table", "noscript"} <= set(page.tags)
    for word in ("my", "model", "x", "y", "z", "FP32", "?x3x?x?", "?x8x?x?", "?x5"):
        assert word in page.texts


@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>", "\"'&$name", "</script><script>"])
def test_names_cannot_write_into_the_page(name):
    model = model_of(
        [helper.make_node("Relu", [name], [f"{name}2"])], {name: ("f4", [2, 2])}, {}, (f"{name}2",)
    )
    inner = pplconv.InferenceSession(model.SerializeToString(), threads=1)
    with served(session(threads=1)) as client:
        plain = page_of(client)[0]
    with served(inner, name=name.replace("/", "")) as client:
        page, _ = page_of(client)
    assert set(page.tags) == set(plain.tags)
    assert page.tags.count("script") == plain.tags.count("script") == 1
    assert " ".join(name.split()) in " ".join(page.texts)
