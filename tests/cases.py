"""Many small cases in one test, where pytest takes longer to collect a case than to run it.

Each process of each run collects all tests, under emulation too. A test marked with `each` is
collected once and loops; it names the cases that fail and the line that repeats the first of them
alone (``--case``).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

__all__ = ["add_options", "each"]

# Most failing cases that the message names.
_NAMED = 10


def add_options(parser: pytest.Parser) -> None:
    """Declare the option."""
    parser.addoption("--case", metavar="NAME", help="the only case of tests that loop over many")


def each(
    name: str, values: Iterable[T], tell: Callable[[T], str] = str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test function with each of `values` as its argument `name`, as one test.

    Parameters
    ----------
    name : str
        The argument. All other arguments are fixtures, which the cases share.
    values : iterable
        Values of the argument, at least one.
    tell : callable, optional
        Names a value. Names must be unique.
    """
    listed = list(values)
    cases = {tell(value): value for value in listed}
    assert len(cases) == len(listed) > 0, "cases need names of their own"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def loop(request: pytest.FixtureRequest, **fixtures: Any) -> None:
            only = request.config.getoption("case")
            failed: dict[str, BaseException] = {}
            for case, value in cases.items():
                if only not in (None, case):
                    continue
                try:
                    test(**fixtures, **{name: value})
                # A skip counts as a failure: it would skip all later cases.
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
                    failed[case] = error
            if failed:
                first, *_ = failed
                names = ", ".join([*failed][:_NAMED]) + ", ..." * (len(failed) > _NAMED)
                raise AssertionError(
                    f"{len(failed)} of {len(cases)} cases: {names}\n"
                    f'the first alone: pytest "{request.node.nodeid}" --case="{first}"'
                ) from failed[first]

        own = inspect.signature(test)
        others = [parameter for key, parameter in own.parameters.items() if key != name]
        assert len(others) == len(own.parameters) - 1, f"the test has no argument {name}"
        request = inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY)
        loop.__signature__ = own.replace(parameters=[*others, request])  # type: ignore[attr-defined]
        return loop

    return decorate
