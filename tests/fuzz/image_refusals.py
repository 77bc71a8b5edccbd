"""What must be refused of filters of images: calls that are spoiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fuzz.case import Reason, Spoiled

if TYPE_CHECKING:
    from tests.fuzz.image_cases import ImageCase


def arguments(case: ImageCase) -> frozenset[str]:
    """Arguments besides arrays, of those that ``test_errors`` spoils."""
    return frozenset({"threads"})


def spoil(case: ImageCase, what: str, operands: dict[str, Any], out: Any) -> Spoiled | None:
    """As `refusals.spoil`; nothing but ``out`` and arguments is spoiled."""
    raise KeyError(what)


def predicted(case: ImageCase) -> Reason | None:
    """As `Case.predicted`: all that is drawn is served."""
    return None
