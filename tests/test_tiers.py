"""The fast tier draws a few cases of large tests, anew in each run, and runs no slow test."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.test_shares import run_file
from tests.tiers import drawn

starts_pytest = pytest.mark.unemulated("starts pytest in processes")

FILE = """
import pytest

@pytest.mark.sampled(3)
@pytest.mark.parametrize("k", range(5))
@pytest.mark.parametrize("n", range(4))
def test_many(n, k):
    pass

@pytest.mark.sampled(30)
@pytest.mark.parametrize("n", range(4))
def test_few(n):
    pass

@pytest.mark.parametrize("n", range(7))
def test_once_a_bug(n):
    pass

@pytest.mark.slow
def test_slow():
    pass
"""


@pytest.fixture
def file(tmp_path):
    """A suite of its own, with the hooks of this one."""
    path = tmp_path / "test_it.py"
    path.write_text(FILE)
    return path


def ran(file, *arguments: str) -> list[str]:
    """Names of the tests that a run has, in order."""
    done = run_file(file, "--collect-only", "-p", "no:randomly", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.partition("::")[2] for line in done.stdout.splitlines() if "::test_" in line]


@starts_pytest
def test_what_each_tier_has(file):
    everything = ran(file)
    assert Counter(name.partition("[")[0] for name in everything) == {
        "test_many": 20, "test_few": 4, "test_once_a_bug": 7, "test_slow": 1,
    }  # fmt: skip
    fast = ran(file, "--tier=fast", "--tier-seed=1")
    assert Counter(name.partition("[")[0] for name in fast) == {
        "test_many": 3, "test_few": 4, "test_once_a_bug": 7,
    }  # fmt: skip
    assert fast == ran(file, "--tier=fast", "--tier-seed=1")
    assert fast != ran(file, "--tier=fast", "--tier-seed=2") or fast != ran(
        file, "--tier=fast", "--tier-seed=3"
    )
    slow = ran(file, "--tier=slow")
    assert {name.partition("[")[0] for name in slow} == {"test_many", "test_few", "test_slow"}
    assert set(fast) | set(slow) == set(everything)


@starts_pytest
def test_a_run_says_how_to_repeat_it(file):
    done = run_file(file, "--tier=fast")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tier   fast, drawn by --tier-seed=" in done.stdout
    assert "share  0 of 1" in done.stdout and "\nCPU    " in done.stdout
    done = run_file(file, "--one-in=2", "--share=3", PPLCONV_MAX_ISA="portable")
    assert "level  portable" in done.stdout and "share  1 of 2" in done.stdout


def test_each_kind_is_drawn_before_any_twice():
    cases = [(kind, i) for kind, count in (("a", 90), ("b", 5), ("c", 1)) for i in range(count)]
    for seed in range(20):
        found = drawn(cases, 3, "test", seed, lambda case: case[0])
        assert sorted(kind for kind, _ in found) == ["a", "b", "c"]
        found = drawn(cases, 20, "test", seed, lambda case: case[0])
        assert Counter(kind for kind, _ in found) == {"a": 14, "b": 5, "c": 1}
        assert found == sorted(found, key=cases.index)
        assert found != drawn(cases, 20, "another", seed, lambda case: case[0])
    assert drawn(cases, 500, "test", 0) == cases
