"""Checks of a pool's arguments, named in every message, and the call of the factory."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .. import _checks
from ..config import MAX_THREADS

__all__ = ["check_factory", "integer", "make_model", "number_or_auto", "seconds"]


def check_factory(factory: object) -> None:
    """Refuse a factory that needs arguments: most likely it is a model."""
    if not callable(factory):
        raise TypeError(f"factory must be callable, got {type(factory).__name__}")
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):  # some C functions have no readable signature
        return
    try:
        signature.bind()
    except TypeError as error:
        raise _no_factory(factory, error) from None


def make_model(
    factory: Callable[[], object], check: Callable[[object], None] | None = None
) -> Callable[..., Any]:
    """Call the factory, and let `check` refuse what it makes.

    Raises
    ------
    TypeError
        If it makes no callable, or seems to be a model itself.
    BaseException
        What the factory or `check` raised.
    """
    try:
        model = factory()
    except TypeError as error:
        if inspect.isroutine(factory) or inspect.isclass(factory):
            raise
        # Many models accept any arguments by their signature.
        raise _no_factory(factory, error) from error
    if not callable(model):
        raise TypeError(f"factory must return a callable, got {type(model).__name__}")
    if check is not None:
        check(model)
    return model


def _no_factory(factory: object, error: TypeError) -> TypeError:
    return TypeError(
        "factory is called without arguments to make the model, which fails for this "
        f"{type(factory).__name__} ({error}): if it is the model itself, pass lambda: model"
    )


def number_or_auto(name: str, value: object) -> int | None:
    """An argument that is a number of at least 1, or "auto", which is None."""
    return None if isinstance(value, str) and value == "auto" else integer(name, value)


def integer(name: str, value: object, least: int = 1) -> int:
    """An argument that is a number of threads or instances."""
    return _checks.integer(name, value, least, MAX_THREADS)


def seconds(name: str, value: object) -> float:
    """An argument that is a time in seconds, possibly infinite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds, got {value!r}")
    if not value >= 0:
        raise ValueError(f"{name} is {value}: expected 0 or more seconds")
    return float(value)
