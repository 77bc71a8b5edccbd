"""The text of a wisdom file: written text reads back, and other text does no harm."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pplconv import __version__
from pplconv.wisdom import Entry, Key
from pplconv.wisdom.document import (
    FILE_NAME,
    MAX_BYTES,
    VERSION,
    Unusable,
    as_dict,
    dump,
    from_dict,
    parse,
)
from tests.wisdom.wisdom_case import collections, entry, key

VALID = dump({key(i): entry(1, 2, number=i) for i in range(3)})


def survives(data: bytes) -> dict[Key, Entry]:
    """Parse; check that only Unusable is raised, and that the result can be written."""
    try:
        found, dropped = parse(data)
    except Unusable as trouble:
        assert trouble.reason
        return {}
    assert dropped >= 0
    assert parse(dump(found)) == (found, 0)
    return found


@settings(max_examples=50)
@given(collections)
def test_round_trip(found: dict[Key, Entry]) -> None:
    assert parse(dump(found)) == (found, 0)
    assert list(parse(dump(found))[0]) == list(found), "the order of age"
    assert from_dict(as_dict(found)) == (found, 0)
    assert json.loads(dump(found)) == as_dict(found)


def test_for_people() -> None:
    """A header, and one entry a line."""
    lines = VALID.decode("ascii").splitlines()
    assert lines[:5] == [
        "{",
        '"format": "pplconv wisdom",',
        f'"version": {VERSION},',
        f'"pplconv": "{__version__}",',
        '"entries": [',
    ]
    assert len(lines) == 5 + 3 + 2
    assert json.loads(lines[5].rstrip(","))["problem"] == key(0).problem


def test_reformatted_by_hand() -> None:
    again = json.dumps(json.loads(VALID), indent=4, sort_keys=True).encode()
    assert parse(again)[0] == parse(VALID)[0]


def test_an_empty_file_is_no_trouble() -> None:
    assert parse(b"") == ({}, 0)


@pytest.mark.parametrize("length", [1, 4096])
def test_a_file_of_zeros_is_a_damaged_one(length: int) -> None:
    with pytest.raises(Unusable, match="is damaged") as refused:
        parse(bytes(length))
    assert refused.value.ours


@pytest.mark.parametrize("length", range(1, len(VALID) - 2, 7))
def test_truncated(length: int) -> None:
    with pytest.raises(Unusable) as refused:
        parse(VALID[:length])
    assert refused.value.ours and refused.value.reason == "is damaged"


@given(st.binary(max_size=300))
def test_random_bytes(data: bytes) -> None:
    survives(data)


@given(st.data())
def test_mutated_bytes(data: st.DataObject) -> None:
    mutated = bytearray(VALID)
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(mutated) - 1))
        length = data.draw(st.integers(0, 12))
        mutated[at : at + length] = data.draw(st.binary(max_size=12))
    survives(bytes(mutated))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@settings(max_examples=150)
@given(st.data())
def test_mutated_values(data: st.DataObject) -> None:
    """Any value of the tree replaced by any other."""
    tree = json.loads(VALID)
    node: Any = tree
    while True:
        where = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else [0, -1]))
        child = node[where]
        if not child or not isinstance(child, dict | list) or data.draw(st.booleans()):
            break
        node = child
    node[where] = data.draw(json_values)
    found = survives(json.dumps(tree).encode())
    assert len(found) <= 3


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "1",
        "[]",
        "{}",
        '"pplconv wisdom"',
        '{"format": "other wisdom", "version": 1, "entries": []}',
        '{"format": ["pplconv wisdom"], "version": 1, "entries": []}',
        "(fftw-3.3.10 fftwf_wisdom)",
        "notes of mine",
        "\ufeff{}",
        "[" * 200_000,
        '{"a":' * 200_000,
        "9" * 1_000_000,
    ],
    ids=lambda text: text[:16],
)
def test_foreign(text: str) -> None:
    with pytest.raises(Unusable, match="is not a wisdom file") as refused:
        parse(text.encode())
    assert not refused.value.ours


@pytest.mark.parametrize("data", [VALID, VALID[:50], b"notes of mine"])
def test_no_memory_to_read_it_says_nothing_of_the_file(data, monkeypatch) -> None:
    def fail(*args: object, **settings: object) -> None:
        raise MemoryError

    monkeypatch.setattr(json, "loads", fail)
    with pytest.raises(MemoryError):
        parse(data)


def with_version(text: str, rest: str = "[]}") -> bytes:
    return f'{{\n"format": "pplconv wisdom",\n"version": {text},\n"entries": {rest}'.encode()


@pytest.mark.parametrize("rest", ["[]}", "{}}", "[1]}", "[", "", "\udcff"])
def test_newer(rest: str) -> None:
    """It is left alone, even where it is no JSON that we could read."""
    data = with_version("2", "").rstrip() + rest.encode("utf-8", "surrogateescape")
    with pytest.raises(Unusable) as refused:
        parse(data)
    assert refused.value.reason == f"is of format version 2, and this pplconv reads {VERSION}"
    assert not refused.value.ours


@pytest.mark.parametrize("text", ["0", "-1", "1.0", '"1"', "null", "true", "[1]", "NaN", "1" * 99])
def test_impossible_version(text: str) -> None:
    with pytest.raises(Unusable, match="is damaged"):
        parse(with_version(text))


@pytest.mark.parametrize("text", ["null", "{}", "1", '"[]"', "[", "[" * 100_000, "[1,]}"])
def test_impossible_entries(text: str) -> None:
    with pytest.raises(Unusable, match="is damaged"):
        parse(with_version("1", text + "}"))


def line_of(number: int) -> str:
    return dump({key(number): entry()}).decode().splitlines()[5]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1e-05", "NaN"),
        ("1e-05", "Infinity"),
        ("1e-05", "-Infinity"),
        ("1e-05", "1e999"),
        ("0.001", "0." + "1" * 100_000),
        ("64", "-64"),
        ("64", "9" * 3_000_000),
        ("64", "[" * 300 + "]" * 300),
        ('"measure"', "[" * 300 + "]" * 300),
        ('"avx512"', '"\\ud800"'),
        ('"avx512"', '"avx\\u0000"'),
        ('"avx512"', '"avx512", "extra": 1'),
    ],
    ids=lambda text: text[:16],
)
def test_invalid_entries_are_dropped_alone(old: str, new: str) -> None:
    bad = line_of(1).replace(old, new)
    assert bad != line_of(1)
    found, dropped = parse(with_version("1", f"[{line_of(0)}, {bad}, 7, {line_of(2)}]}}"))
    assert (list(found), dropped) == ([key(0), key(2)], 2)


@pytest.mark.parametrize("kind", ["parse_int", "parse_float"])
def test_digits_without_end_are_not_read(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading them would take time that grows with the square of their number."""
    loads = json.loads
    read: list[tuple[int, float | None]] = []

    def noting(data: bytes, **hooks: Callable[[str], float | None]) -> Any:
        def read_digits(digits: str) -> float | None:
            read.append((len(digits), hooks[kind](digits)))
            return read[-1][1]

        return loads(data, **{**hooks, kind: read_digits})

    monkeypatch.setattr(json, "loads", noting)
    digits, old = ("9" * 100_000, "64") if kind == "parse_int" else ("0." + "9" * 99_998, "0.001")
    bad = line_of(1).replace(old, digits)
    assert bad != line_of(1)
    found, dropped = parse(with_version("1", f"[{line_of(0)}, {bad}]}}"))
    assert (list(found), dropped) == ([key(0)], 1)
    assert (100_000, None) in read


def test_of_two_for_one_problem_the_later() -> None:
    later = dump({key(0): entry(2)}).decode().splitlines()[5]
    found, dropped = parse(with_version("1", f"[{line_of(0)}, {line_of(1)}, {later}]}}"))
    assert (list(found), dropped) == ([key(1), key(0)], 0)
    assert set(found[key(0)].teams) == {2}


def test_size_is_bounded() -> None:
    """The newest entries are written, and what is written can be read."""
    found = {key(i): entry(*range(1, 33)) for i in range(1400)}
    data = dump(found)
    assert MAX_BYTES - 10_000 < len(data) <= MAX_BYTES
    kept = list(parse(data)[0])
    assert 0 < len(kept) < 1400
    assert kept == list(found)[-len(kept) :]


def test_number_of_entries_is_bounded() -> None:
    lines = ",".join([line_of(i) for i in range(5000)])
    found, dropped = parse(with_version("1", f"[{lines}]}}"))
    assert dropped == 0
    assert list(found) == [key(i) for i in range(5000 - 4096, 5000)]


def test_file_name_goes_with_the_version() -> None:
    """Versions that run in turn keep a file each."""
    assert FILE_NAME.split(".")[0].endswith(f"-{VERSION}")
