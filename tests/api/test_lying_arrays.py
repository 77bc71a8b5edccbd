"""Arrays that say something else than they are, or change while arguments are read.

A subclass may override any attribute, and an object that is read as a number or an array may run
any code then. Sizes come from the memory itself, so that neither leads the loops astray.
"""

from __future__ import annotations

import pytest

from tests.api.test_allocation import run_probe


def test_attributes_of_subclasses_are_not_asked():
    """Results are NumPy's for the numbers that the arrays hold."""
    found = run_probe("lying_probe.py", "lies")
    assert found == dict.fromkeys(found, "right")
    assert len(found) > 1000


@pytest.mark.unemulated("hundreds of plans are made")
def test_arguments_may_change_arrays_while_they_are_read():
    """A call computes the arrays from before or after the change, or refuses; it never crashes."""
    found = run_probe("lying_probe.py", "changes")
    odd = {name: what for name, what in found.items() if what.partition(":")[0] == "refused"}
    assert {name: what for name, what in found.items() if what != "right"} == odd
    assert len(odd) < len(found)
