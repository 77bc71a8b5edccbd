"""Imports `onnx` and `onnx_ir` without modules that both import and no network here needs.

They import ``sympy``, what reads the metadata of packages, models as text and protobuf's messages
in Python, and what writes files and runs programs, which takes longer than their own modules. They
ask for these when someone multiplies named dimensions or saves a model. So while such a module is
loaded, its ``import`` statements get stand-ins, which import the real modules as soon as they are
asked for anything. Nobody else sees a stand-in.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable, Collection, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

__all__: list[str] = []

# For each module, those that get a stand-in if they are not imported yet.
_SPARED = {
    "google.protobuf.descriptor_pool": ("google.protobuf.internal.python_message",),
    "google.protobuf.internal.builder": ("google.protobuf.internal.python_message",),
    "onnx": ("importlib.metadata",),
    "onnx.external_data_helper": ("uuid",),
    "onnx.gen_proto": ("argparse", "glob", "subprocess"),
    "onnx.serialization": ("google.protobuf.json_format", "google.protobuf.text_format"),
    "onnx.utils": ("tarfile",),
    "onnx_ir._core": ("sympy",),
    "onnx_ir._safetensors": ("packaging.version",),
    "onnx_ir._symbolic_shapes": ("sympy",),
    "onnx_ir.external_data": ("concurrent.futures", "shutil", "tempfile"),
}


# What the ``import`` statement runs; here it imports for others.
_by_python = builtins.__import__


def _real(name: str) -> ModuleType:
    _by_python(name)
    return sys.modules[name]


class _StandIn(ModuleType):
    """Gives what a module has; modules in it that are spared have stand-ins of their own."""

    def __init__(self, name: str, spared: Collection[str]) -> None:
        super().__init__(name)
        self._spared = spared

    def __getattr__(self, name: str) -> Any:
        inner = f"{self.__name__}.{name}"
        if _is_spared(inner, self._spared):
            return _KINDS.get(inner, _StandIn)(inner, self._spared)
        known = _KNOWN.get(self.__name__, {}).get(name)
        if known is not None and self.__name__ not in sys.modules:
            return known
        return getattr(_real(self.__name__), name)


def _is_spared(name: str, spared: Collection[str]) -> bool:
    """Whether a module, or one in it, is spared and not imported yet."""
    within = f"{name}."
    return any(
        (each == name or each.startswith(within)) and each not in sys.modules for each in spared
    )


def _later(name: str) -> Callable[..., Any]:
    """Give a function of ``sympy`` that imports it when it is called."""

    def function(*args: Any, **kwargs: Any) -> Any:
        return getattr(_real("sympy"), name)(*args, **kwargs)

    return function


class _Metadata(_StandIn):
    """What `onnx` sees of ``importlib.metadata``: it asks for its own version."""

    def version(self, name: str) -> str:
        """Give the version of a package that is being imported."""
        return _version(name) or str(_real(self.__name__).version(name))


def _version(name: str) -> str | None:
    """Read a package's version in the metadata beside it; None if they are not found there."""
    root = os.path.dirname(os.path.dirname(str(sys.modules[name].__file__)))
    found = [each for each in os.listdir(root) if each.startswith(f"{name}-")]
    if len(found) != 1 or not found[0].endswith(".dist-info"):
        return None
    try:
        with open(os.path.join(root, found[0], "METADATA"), encoding="utf-8") as file:
            for line in file:
                field, _, value = line.partition(":")
                if field == "Version":
                    return value.strip()
                if not line.strip():
                    break
    except OSError:
        pass
    return None


# What a module asks its stand-in for while it is loaded: functions that one of them puts into a
# table, and `onnx`'s version.
_KNOWN = {"sympy": {name: _later(name) for name in ("Max", "Min", "Mod", "floor", "sqrt")}}
_KINDS = {"importlib.metadata": _Metadata}


def _import_for(module: str) -> Callable[..., Any]:
    spared = _SPARED[module]

    def import_by_name(
        name: str,
        globals: Any = None,
        locals: Any = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        # `import a.b` gives `a`; `from a import b` asks `a` for `b`.
        package = name if fromlist else name.partition(".")[0]
        if level or "*" in (fromlist or ()) or not _is_spared(package, spared):
            return _by_python(name, globals, locals, fromlist, level)
        names = [f"{name}.{each}" for each in fromlist] if fromlist else [name]
        for each in names:
            if each not in spared:
                _by_python(name, globals, locals, [each.rpartition(".")[2]] if fromlist else ())
        return _StandIn(package, spared)

    return import_by_name


class _Loader(SourceFileLoader):
    """Loads a module whose ``import`` statements may get stand-ins."""

    def exec_module(self, module: ModuleType) -> None:
        own = vars(module)
        own["__builtins__"] = {**vars(builtins), "__import__": _import_for(module.__name__)}
        super().exec_module(module)
        own["__builtins__"] = vars(builtins)


class _Finder:
    """Finds these modules as Python does."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in _SPARED else None
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
