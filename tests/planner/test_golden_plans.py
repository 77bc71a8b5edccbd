"""No plan of a shape file changes by accident, on any recorded machine."""

from __future__ import annotations

import pytest

from golden_plans import GOLDEN, lines
from targets import TARGETS

pytestmark = pytest.mark.unemulated("plans for machines that are described, on any machine alike")


@pytest.mark.parametrize("machine", TARGETS)
def test_plans_are_those_of_the_golden_file(machine: str) -> None:
    kept = (GOLDEN / f"{machine}.txt").read_text().splitlines()
    assert list(lines(machine)) == kept


def test_every_golden_file_is_of_a_machine() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.txt")) == sorted(TARGETS)
