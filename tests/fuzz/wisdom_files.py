"""Wisdom files that no pplconv wrote, around a real one for the case's own problem."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from random import Random
from typing import Any

import pplconv
from pplconv.planner import planning
from pplconv.wisdom import Division, Entry, WisdomWarning
from pplconv.wisdom.document import dump
from tests.fuzz.case import Case

# Replacements for any value.
_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**53, 2**63, 10**400, 1e308, float("nan"), float("inf"), "",
    "im2col", "winograd", "\ud800", "\0", [], {}, [[]], {"a": {}}, 0.5, "1", "x" * 300,
)  # fmt: skip


def _real(case: Case, r: Random) -> tuple[bytes, str | None]:
    """A file that names any of the candidates, and the bits that a plan must then have."""
    if case.predicted() is not None:
        return dump({}), None
    request = case.request()
    around = request.context()
    try:
        ranked = request.ranked(1, slack=float("inf"))
    except ValueError:  # tolerance or workspace leave nothing, with or without wisdom
        return dump({}), None
    entries = {}
    candidate = None
    for key in planning._keys(request, case.epilogue, "hot")[::-1]:
        candidate = r.choice(ranked).candidate
        blocks = {"algorithm": candidate.algorithm, **candidate.blocks}
        teams = {team: Division(blocks, 1e-3) for team in {1, 2, around.threads}}
        entries[key] = Entry({"bits": candidate.bits}, teams)
    # A free choice may leave out what is far behind; and a batch of no images is not looked up.
    forced = request.algorithm != "auto" and request.problem.batch != 0
    return dump(entries), candidate.bits if forced and candidate is not None else None


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for name, child in items:
        yield node, name
        if isinstance(child, dict | list):
            yield from _places(child)


def _other_values(data: bytes, r: Random) -> bytes:
    tree = json.loads(data)
    for _ in range(r.randint(1, 3)):
        node, name = r.choice(list(_places(tree)))
        node[name] = deepcopy(r.choice(_VALUES))  # the next turn may change what this one put
        if not isinstance(tree.get("entries"), list):
            break
    return json.dumps(tree, ensure_ascii=r.random() < 0.5).encode("utf-8", "surrogatepass")


def _other_division(data: bytes, r: Random) -> bytes:
    """Blocks that no candidate has, each of them a valid number."""
    tree = json.loads(data)
    for entry in tree["entries"]:
        for division in entry["teams"].values():
            blocks = division["blocks"]
            for name in blocks:
                if r.random() < 0.5:
                    old = blocks[name]
                    blocks[name] = r.choice((0, 1, 3, 2**31, 2**53, "x")) if old != "" else old
    return json.dumps(tree).encode()


def content(case: Case) -> tuple[bytes, str | None]:
    """Give the bytes of a case's wisdom file, and the bits that they ask for."""
    r = Random(f"wisdom {case.seed}")
    if case.wisdom == "bytes":
        return r.randbytes(r.choice((0, 1, 10, 1000))), None
    data, bits = _real(case, r)
    if case.wisdom == "real":
        return data, bits
    if case.wisdom == "values":
        return _other_values(data, r), None
    if case.wisdom == "division":
        return _other_division(data, r), None
    if case.wisdom == "cut":
        return data[: r.randrange(len(data))], None
    if case.wisdom == "spliced":
        a, b, c = (r.randrange(len(data)) for _ in range(3))
        return data[:a] + data[b:] + data[c : c + 50], None
    flipped = bytearray(data)
    for _ in range(r.randint(1, 8)):
        flipped[r.randrange(len(data))] = r.randrange(256)
    return bytes(flipped), None


@contextmanager
def wisdom_file(case: Case) -> Iterator[str | None]:
    """Have the case's file as this process's wisdom; gives the bits that it asks for.

    Only the documented warning may come of it, and what is found out goes into the file
    afterwards as if it were in order.
    """
    data, bits = content(case)
    before = os.environ.get("PPLCONV_WISDOM")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        path = os.path.join(folder, "wisdom.json")
        with open(path, "wb") as file:
            file.write(data)
        os.environ["PPLCONV_WISDOM"] = path
        try:
            pplconv.wisdom.describe()
            yield bits
            if case.predicted() is None:
                key = planning._keys(case.request(), "none", "hot")[0]
                pplconv.wisdom.remember(key, {"bits": "b"}, 1, {"n": 1}, 1.0)
                assert pplconv.wisdom.lookup(key) is not None, "what was remembered is not known"
            pplconv.wisdom.load(path)
        finally:
            if before is None:
                del os.environ["PPLCONV_WISDOM"]
            else:
                os.environ["PPLCONV_WISDOM"] = before
    for warning in caught:
        assert issubclass(warning.category, WisdomWarning), str(warning.message)
