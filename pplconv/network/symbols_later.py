"""Imports `onnx_ir` without the computer algebra system that it computes named dimensions with.

`onnx_ir` imports ``sympy`` when it is imported itself, which takes half of that time. It asks for
it when someone adds or multiplies named dimensions, as no network does here. So a module stands in
for ``sympy`` while `onnx_ir` is imported. It imports the real one as soon as anything is asked of
it that `onnx_ir` need not know at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

__all__: list[str] = []

_NAME = "sympy"
# Functions that `onnx_ir` puts into a table when it is imported.
_FUNCTIONS = frozenset(("Max", "Min", "Mod", "floor", "sqrt"))


class _StandIn(ModuleType):
    """The module in place of ``sympy``, for `onnx_ir` alone."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(_NAME) is self:
            if name in _FUNCTIONS:
                return _later(name)
            del sys.modules[_NAME]
        return getattr(import_module(_NAME), name)


def _later(name: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(_NAME), name)(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    return function


def _import() -> None:
    if "onnx_ir" in sys.modules or _NAME in sys.modules:
        return
    own = sys.modules[_NAME] = _StandIn(_NAME)
    try:
        import_module("onnx_ir")
    finally:
        if sys.modules.get(_NAME) is own:
            del sys.modules[_NAME]


_import()
