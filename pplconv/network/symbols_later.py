"""Imports `onnx_ir` without the computer algebra system that it computes named dimensions with.

`onnx_ir` imports ``sympy`` when it is imported itself, which takes half of that time. It asks for
it when someone adds or multiplies named dimensions, as no network does here. So while two of its
modules are loaded, ``import sympy`` gives them a stand-in, which imports the real module as soon as
it is asked for more than functions for a table. Nobody else sees the stand-in.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

__all__: list[str] = []

_NAME = "sympy"
_READERS = ("onnx_ir._core", "onnx_ir._symbolic_shapes")
# Functions that one of them puts into a table.
_FUNCTIONS = frozenset(("Max", "Min", "Mod", "floor", "sqrt"))


class _StandIn(ModuleType):
    """The module in place of ``sympy``."""

    def __getattr__(self, name: str) -> Any:
        if name in _FUNCTIONS and _NAME not in sys.modules:
            return _later(name)
        return _real(name)


def _real(name: str) -> Any:
    import sympy

    return getattr(sympy, name)


def _later(name: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        return _real(name)(*args, **kwargs)

    return function


_stand_in = _StandIn(_NAME)
# What the ``import`` statement runs; here it imports for others.
_by_python = builtins.__import__


def _import_for_readers(
    name: str,
    globals: Any = None,
    locals: Any = None,
    fromlist: Any = (),
    level: int = 0,
) -> Any:
    if name == _NAME and not fromlist and not level and _NAME not in sys.modules:
        return _stand_in
    return _by_python(name, globals, locals, fromlist, level)


class _Loader(SourceFileLoader):
    """Loads a module whose ``import`` statements run `_import_for_readers`."""

    def exec_module(self, module: ModuleType) -> None:
        own = vars(module)
        own["__builtins__"] = {**vars(builtins), "__import__": _import_for_readers}
        super().exec_module(module)
        own["__builtins__"] = vars(builtins)


class _Finder:
    """Finds the two modules as Python does."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in _READERS else None
        if spec is None or type(spec.loader) is not SourceFileLoader:
            return None
        spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def _import() -> None:
    sys.meta_path.insert(0, _Finder)
    try:
        import onnx_ir  # noqa: F401
    finally:
        sys.meta_path.remove(_Finder)


_import()
