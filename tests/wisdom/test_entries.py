"""Keys and entries: what is valid, and how two of them merge."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from pplconv.machine import Machine
from pplconv.machine import current as current_machine
from pplconv.wisdom import Division, Entry, Key, cpu_model
from pplconv.wisdom.entries import MAX_ENTRIES, MAX_TEAMS, from_json, merge, overlay, to_json
from tests.wisdom.wisdom_case import CHOICE, division, entries, entry, key, keys


@settings(max_examples=100)
@given(keys, entries)
def test_json_and_back(where: Key, found: Entry) -> None:
    text = json.dumps(to_json(where, found), allow_nan=False)
    again = from_json(json.loads(text))
    assert again == (where, found)
    assert list(again[1].teams) == list(found.teams), "the order of age"
    for name, value in found.choice.items():
        assert type(again[1].choice[name]) is type(value)


Edit = Callable[[dict[str, Any]], object]


def put(value: object, *path: str) -> Edit:
    def edit(document: dict[str, Any]) -> None:
        for name in path[:-1]:
            document = document[name]
        document[path[-1]] = value

    return edit


INVALID: dict[str, Edit] = {
    "field missing": lambda d: d.pop("isa"),
    "field unknown": put(1, "color"),
    "problem empty": put("", "problem"),
    "problem long": put("m" * 257, "problem"),
    "problem with a line end": put("mb1\n", "problem"),
    "problem not ASCII": put("mb1é", "problem"),
    "problem half a surrogate": put("\ud800", "problem"),
    "problem a number": put(1, "problem"),
    "problem a list": put(["mb1"], "problem"),
    "cpu null": put(None, "cpu"),
    "tolerance negative": put(-1e-9, "tolerance"),
    "tolerance infinite": put(float("inf"), "tolerance"),
    "tolerance not a number": put(float("nan"), "tolerance"),
    "tolerance beyond floats": put(10**400, "tolerance"),
    "tolerance true": put(True, "tolerance"),
    "tolerance a string": put("1e-5", "tolerance"),
    "choice empty": put({}, "choice"),
    "choice null": put(None, "choice"),
    "choice a list": put(["im2col"], "choice"),
    "choice a string": put("im2col", "choice"),
    "choice nested": put({"algorithm": {"name": "im2col"}}, "choice"),
    "choice of null": put({"algorithm": None}, "choice"),
    "choice of a float": put({"algorithm": 1.5}, "choice"),
    "choice of an odd name": put({"a b": 1}, "choice"),
    "choice of a dunder path": put({"__class__.x": 1}, "choice"),
    "choice too large": put({f"f{i}": i for i in range(33)}, "choice"),
    "teams empty": put({}, "teams"),
    "teams a list": put([1], "teams"),
    "teams too many": lambda d: d.update(teams={str(i): d["teams"]["2"] for i in range(1, 34)}),
    "team a division": put(1, "teams", "2"),
    "team null": put(None, "teams", "2"),
    **{
        f"team {text!r:.20}": lambda d, text=text: d["teams"].update({text: d["teams"]["2"]})
        for text in ("0", "-1", "02", "+2", " 2", "2.0", "1e3", "65537", "9" * 5000, "\u0662", "")
    },
    "blocks null": put(None, "teams", "2", "blocks"),
    "block negative": put(-1, "teams", "2", "blocks", "k_block"),
    "block giant": put(2**53 + 1, "teams", "2", "blocks", "k_block"),
    "block beyond digits": put(10**5000, "teams", "2", "blocks", "k_block"),
    "block a float": put(64.0, "teams", "2", "blocks", "k_block"),
    "block a list": put([64], "teams", "2", "blocks", "k_block"),
    "seconds zero": put(0.0, "teams", "2", "seconds"),
    "seconds negative": put(-1.0, "teams", "2", "seconds"),
    "seconds too many": put(1e7, "teams", "2", "seconds"),
    "seconds infinite": put(float("inf"), "teams", "2", "seconds"),
    "seconds not a number": put(float("nan"), "teams", "2", "seconds"),
    "seconds missing": lambda d: d["teams"]["2"].pop("seconds"),
    "search unknown": put("guess", "teams", "2", "search"),
    "search a list": put(["measure"], "teams", "2", "search"),
    "division with more": put(1, "teams", "2", "more"),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_entries_are_refused(name: str) -> None:
    document = to_json(key(), entry(2))
    from_json(copy.deepcopy(document))
    INVALID[name](document)
    with pytest.raises((TypeError, ValueError)) as refused:
        from_json(document)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("value", [None, 1, "text", [], [{}], True])
def test_an_entry_is_an_object(value: object) -> None:
    with pytest.raises(TypeError, match="an entry is of type"):
        from_json(value)


def test_refusals_name_the_argument() -> None:
    with pytest.raises(ValueError, match=r"isa is 'avx\\x00': expected 1 to 256 printable"):
        key(isa="avx\0")
    with pytest.raises(TypeError, match="tolerance is of type NoneType: expected a float"):
        key(tolerance=None)
    with pytest.raises(ValueError, match=r"tolerance is -1.0: expected at least 0"):
        key(tolerance=-1)
    with pytest.raises(ValueError, match=r"blocks\['k'\] is out of the range"):
        Division({"k": -1}, 1.0)
    with pytest.raises(ValueError, match=r"search is 'guess': expected one of measure, exhaus"):
        Division({}, 1.0, "guess")
    with pytest.raises(TypeError, match="team is True: expected an int"):
        Entry(CHOICE, {True: division()})


def test_entries_are_frozen_copies() -> None:
    choice, blocks = dict(CHOICE), {"k_block": 1}
    teams = {1: Division(blocks, 1.0)}
    found = Entry(choice, teams)
    choice["algorithm"] = "im2col"
    blocks["k_block"] = 2
    teams.clear()
    assert found.choice == CHOICE
    assert found.teams[1].blocks == {"k_block": 1}
    with pytest.raises(TypeError):
        found.choice["algorithm"] = "im2col"  # type: ignore[index]


def test_integers_are_tolerances_too() -> None:
    assert key(tolerance=0) == key(tolerance=0.0) == key(tolerance=-0.0)
    assert str(key(tolerance=-0.0).tolerance) == "0.0"


def test_same_choice_brings_teams_together() -> None:
    merged = merge(entry(1, 2, number=1), entry(2, 4, number=5))
    assert dict(merged.teams) == {1: division(1), 2: division(5), 4: division(5)}
    assert list(merged.teams) == [1, 2, 4]
    assert list(merge(merged, entry(1)).teams) == [2, 4, 1]


def test_another_choice_starts_afresh() -> None:
    other = entry(4, choice={"algorithm": "direct"})
    assert merge(entry(1, 2), other) == other


def test_old_teams_are_dropped() -> None:
    found = None
    for team in range(1, MAX_TEAMS + 4):
        found = merge(found, entry(team))
    assert found is not None
    assert list(found.teams) == list(range(4, MAX_TEAMS + 4))


def test_old_entries_are_dropped() -> None:
    full = {key(i): entry() for i in range(MAX_ENTRIES)}
    assert list(overlay(full, {})) == list(full)
    result = overlay(full, {key(0): entry(2), key(-1): entry()})
    assert len(result) == MAX_ENTRIES
    assert list(result)[-2:] == [key(0), key(-1)], "what is touched is young again"
    assert key(1) not in result and key(2) in result
    assert set(result[key(0)].teams) == {1, 2}


def test_cpu_models() -> None:
    machine = Machine(
        arch="x86_64", vendor="GenuineIntel", family=6, model=85, cpu_name="Example  CPU\n\u00ae"
    )
    assert cpu_model(machine) == "x86_64 GenuineIntel 6/85 Example CPU??"
    assert len(cpu_model(Machine(cpu_name="x" * 1000))) == 256
    for found in (current_machine(), Machine(), machine):
        key(cpu=cpu_model(found))
