"""`onnx_ir` and `onnx`, imported at their first use.

Programs of layers (`chain`) are compiled by the same modules as networks, but no file is
read for them. So those modules need neither package when they are imported.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["ir", "onnx"]


class _Later(ModuleType):
    """A module that is imported when it is first asked for an attribute."""

    def __init__(self, name: str, load: Callable[[], ModuleType]) -> None:
        super().__init__(name)
        self._load = load

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        from . import spared_imports  # noqa: F401

        value = getattr(self._load(), name)
        setattr(self, name, value)
        return value


def _ir() -> ModuleType:
    import onnx_ir

    module: ModuleType = onnx_ir
    return module


def _onnx() -> ModuleType:
    import onnx

    module: ModuleType = onnx
    return module


if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir
else:
    ir = _Later("onnx_ir", _ir)
    onnx = _Later("onnx", _onnx)
