"""All waits have one limit: `eventually` keeps it, and no test sets a limit of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import patience
from tests.patience import eventually

TESTS = Path(__file__).resolve().parent
WAITING = {
    "Barrier", "acquire", "check_call", "check_output", "communicate", "exception", "join",
    "result", "run", "wait",
}  # fmt: skip
# Calls whose first argument is the limit.
LIMIT_FIRST = {"communicate", "exception", "join", "result", "wait"}
# Shorter times are pauses between two looks, or the time in which a test sees nothing happen.
SHORTEST = 1.0
# Programs that a user runs for a given time, and the test that runs one of them.
PROGRAMS = [TESTS / "soak"]


def own_limits(text: str) -> Iterator[int]:
    """Lines on which a call that waits has a number as its limit."""
    for call in ast.walk(ast.parse(text)):
        if not isinstance(call, ast.Call):
            continue
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if name in WAITING:
            limits = [word.value for word in call.keywords if word.arg == "timeout"]
            limits += call.args[:1] if name in LIMIT_FIRST else []
            for limit in limits:
                number = limit.value if isinstance(limit, ast.Constant) else None
                if isinstance(number, int | float) and number >= SHORTEST:
                    yield call.lineno


def test_no_test_has_a_limit_of_its_own():
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in TESTS.rglob("*.py")
        if not any(program in path.parents for program in PROGRAMS)
        for line in own_limits(path.read_text(encoding="utf-8"))
    ]
    assert found == [], "PATIENCE is the limit of all, see patience.py"


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("subprocess.run(command, timeout=60)", 1),
        ("thread.join(60); event.wait(5.0); future.result(timeout=2)", 3),
        ("process.communicate(timeout=PATIENCE)", 0),
        ("process.communicate(timeout=2 * PATIENCE)", 0),
        ("thread.join(0.1); future.result(0); thread.join(); ', '.join(names)", 0),
    ],
)
def test_limits_are_found(code, count):
    assert len(list(own_limits(code))) == count


def test_what_comes_true_is_given():
    looks = iter([None, 0, [], "here"])
    assert eventually(lambda: next(looks)) == "here"


def test_what_never_comes_true_is_named(monkeypatch):
    monkeypatch.setattr(patience, "PATIENCE", 0.01)
    with pytest.raises(AssertionError, match=r"in 0.01 s this never came: a train"):
        eventually(lambda: False, "a train")
