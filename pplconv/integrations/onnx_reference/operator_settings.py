"""Settings of replaced operators: attributes of their classes, as the evaluator makes instances."""

from __future__ import annotations

from typing import Any, TypeVar

_Operator = TypeVar("_Operator")

__all__ = ["with_settings"]


def with_settings(operator: type[_Operator], **settings: Any) -> type[_Operator]:
    """Make a subclass of an operator that has settings of its own.

    Parameters
    ----------
    operator : type
        Class of an operator, with an attribute for each setting.
    **settings : object
        Values of the settings, by name.

    Returns
    -------
    type
        Subclass with the same name, by which the evaluator finds it.
    """
    own = {"__doc__": operator.__doc__, "__module__": operator.__module__, **settings}
    made: type[_Operator] = type(operator.__name__, (operator,), own)
    return made
