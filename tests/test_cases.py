"""A test that loops over its cases runs all of them, and says which fail and how to repeat one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.cases import each


def request_for(case: str | None = None) -> SimpleNamespace:
    """A stand-in for pytest's request: the option ``--case``, and the node id of the test."""
    config = SimpleNamespace(getoption={"case": case}.__getitem__)
    return SimpleNamespace(config=config, node=SimpleNamespace(nodeid="tests/test_it.py::test_it"))


def looped(values, wrong, seen, end=AssertionError):
    @each("value", values, "number {}".format)
    def test_it(value, other):
        seen.append((value, other))
        if value in wrong:
            raise end("wrong")

    return test_it


@pytest.mark.parametrize("end", [AssertionError, OSError, pytest.fail.Exception])
def test_all_run_and_those_that_fail_are_named(end):
    seen = []
    with pytest.raises(AssertionError) as caught:
        looped(range(40), range(3, 30), seen, end)(request=request_for(), other="fixture")
    assert seen == [(i, "fixture") for i in range(40)]
    assert isinstance(caught.value.__cause__, end)
    first, second = str(caught.value).splitlines()
    assert first.startswith("27 of 40 cases: number 3, number 4,") and first.endswith("12, ...")
    assert second == 'the first alone: pytest "tests/test_it.py::test_it" --case="number 3"'


def test_one_alone():
    seen = []
    looped(range(9), [4], seen)(request=request_for("number 5"), other=0)
    assert seen == [(5, 0)]
    with pytest.raises(AssertionError):
        looped(range(9), [4], seen)(request=request_for("number 4"), other=0)


def test_a_case_that_skips_itself_fails():
    with pytest.raises(AssertionError, match="1 of 3 cases: number 1"):
        looped(range(3), [1], [], pytest.skip.Exception)(request=request_for(), other=0)


def test_cases_without_names_of_their_own_are_refused():
    for values in ([], [1, 1]):
        with pytest.raises(AssertionError, match="names of their own"):
            each("value", values)
    with pytest.raises(AssertionError, match="no argument"):
        each("else", [1])(lambda value: None)


@each("value", range(3))
def test_pytest_gives_fixtures(value, tmp_path):
    """Fixtures reach the test, and pytest collects one test for all values."""
    assert tmp_path.is_dir() and value in range(3)
