"""`lazy`: an attribute that is computed when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

_Value = TypeVar("_Value")


class lazy(Generic[_Value]):
    """`functools.cached_property` without the lock that it has before Python 3.12.

    All instances of a class share that lock; a child forked while another thread plans would find
    it closed for good. Without it two threads may compute a value twice, but it is the same value.

    Parameters
    ----------
    function : callable
        Gives the value for an instance.
    """

    def __init__(self, function: Callable[[Any], _Value]) -> None:
        self.function = function
        self.name = function.__name__
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[_Value]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> _Value: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        """Compute the value, and store it in the instance, where later look-ups find it first."""
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.function(instance)
        return value
