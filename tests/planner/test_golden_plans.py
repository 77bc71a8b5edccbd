"""No plan of a shape file changes by accident, on any recorded machine."""

from __future__ import annotations

import pytest

from tests.planner.golden_plans import GOLDEN, kept, lines, merged
from tests.planner.targets import TARGETS

pytestmark = pytest.mark.unemulated("plans for machines that are described, on any machine alike")


@pytest.mark.parametrize("machine", TARGETS)
def test_plans_are_those_of_the_golden_file(machine: str) -> None:
    assert list(lines(machine)) == kept()[machine]


def test_the_golden_file_is_what_its_lines_are_merged_to() -> None:
    assert merged(kept()) == GOLDEN.read_text(encoding="utf-8")
