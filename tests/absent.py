"""A machine that lacks an instruction set, made of one that has it.

``PPLCONV_TEST_WITHOUT_ISA=avx512`` clears the bits of CPUID by which the package knows the level,
in this process and in those that tests start, and the CPU flags that the tests ask for. A cap is
something else: under one, the machine still has what may not be used.

Imported by every Python that such a run starts (``without_isa/sitecustomize.py``), so it imports
nothing of the package.
"""

from __future__ import annotations

import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["VARIABLE", "flags", "install", "names", "usage_error"]

VARIABLE = "PPLCONV_TEST_WITHOUT_ISA"
# Leaf 7 of CPUID, EBX, and what /proc/cpuinfo calls these bits. A level takes those above it along.
_BITS = {
    "avx2": {"avx2": 5, "bmi2": 8},
    "avx512": {"avx512f": 16, "avx512dq": 17, "avx512bw": 30, "avx512vl": 31},
}


def names() -> tuple[str, ...]:
    """Levels that the machine is to lack."""
    asked = os.environ.get(VARIABLE, "").split(",")
    lowest = [index for index, name in enumerate(_BITS) if name in asked]
    return tuple(_BITS)[lowest[0] :] if lowest else ()


def usage_error() -> str:
    """Say what is wrong with the variable; nothing if it is right."""
    asked = [name for name in os.environ.get(VARIABLE, "").split(",") if name]
    wrong = [name for name in asked if name not in _BITS]
    return f"{VARIABLE} names {', '.join(wrong)}, expected {' or '.join(_BITS)}" if wrong else ""


def flags() -> frozenset[str]:
    """Flags of the CPU that it is to lack."""
    return frozenset(flag for name in names() for flag in _BITS[name])


def install() -> None:
    """Have the package see such a CPU, here and in each Python that is started from here."""
    if not names():
        return
    folder = str(Path(__file__).resolve().parent / "without_isa")
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if folder not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, paths)])
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds the module that asks the CPU, and changes the answer once it is loaded."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != "pplconv._kernels":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """Loads a module as its own loader does."""

    def __init__(self, own: Loader) -> None:
        self.own = own

    def create_module(self, spec: Any) -> ModuleType | None:
        return self.own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.own.exec_module(module)
        real = module.cpuid  # type: ignore[attr-defined]
        lacking = sum(1 << bit for name in names() for bit in _BITS[name].values())

        def cpuid(leaf: int, subleaf: int = 0) -> Any:
            found = real(leaf, subleaf)
            if leaf != 7 or subleaf or found is None:
                return found
            eax, ebx, *others = found
            return (eax, ebx & ~lacking, *others)

        module.cpuid = cpuid  # type: ignore[attr-defined]
