"""Make this machine look as if its CPU lacked an instruction set.

``PPLCONV_TEST_WITHOUT_ISA=avx512`` clears the bits of CPUID by which the package knows the level,
in this process and in those that tests start, and the CPU flags that the tests ask for. A cap is
different: under a cap the CPU still has the instruction set, but the package may not use it.

Every Python process of such a run imports this module (``without_isa/sitecustomize.py``), so the
module must not import the package.
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
_EBX, _ECX = (7, 0, 1), (7, 0, 2)
_EAX_1, _EDX, _EDX_1 = (7, 1, 0), (7, 0, 3), (7, 1, 3)
# Flags of /proc/cpuinfo, and the CPUID bit of each: leaf, subleaf and register, then the bit.
_BITS = {
    "avx2": {"avx2": (_EBX, 5), "bmi2": (_EBX, 8)},
    "avxvnni": {"avx_vnni": (_EAX_1, 4)},
    "avxvnniint8": {"avx_vnni_int8": (_EDX_1, 4)},
    "avx512": {
        "avx512f": (_EBX, 16),
        "avx512dq": (_EBX, 17),
        "avx512bw": (_EBX, 30),
        "avx512vl": (_EBX, 31),
    },
    "avx512vnni": {"avx512_vnni": (_ECX, 11)},
    "avx512bf16": {"avx512_bf16": (_EAX_1, 5)},
    "amx": {"amx_bf16": (_EDX, 22), "amx_tile": (_EDX, 24), "amx_int8": (_EDX, 25)},
}
# Levels that a CPU may have without the one before it.
_BESIDE = {"avxvnni": ("avxvnniint8",), "avxvnniint8": ()}


def names() -> tuple[str, ...]:
    """Levels that the machine is to lack: the ones asked for, and higher levels that need them."""
    asked = os.environ.get(VARIABLE, "").split(",")
    ladder = list(_BITS)
    lacking: set[str] = set()
    for name in set(ladder) & set(asked):
        above = ladder[ladder.index(name) + 1 :]
        lacking |= {name, *_BESIDE.get(name, above)}
    return tuple(name for name in ladder if name in lacking)


def usage_error() -> str:
    """Describe the error in the variable; empty if there is none."""
    asked = [name for name in os.environ.get(VARIABLE, "").split(",") if name]
    wrong = [name for name in asked if name not in _BITS]
    return f"{VARIABLE} names {', '.join(wrong)}, expected {' or '.join(_BITS)}" if wrong else ""


def flags() -> frozenset[str]:
    """CPU flags of the levels that the machine is to lack."""
    return frozenset(flag for name in names() for flag in _BITS[name])


def install() -> None:
    """Change CPUID for the package, here and in each Python process that is started from here."""
    if not names():
        return
    folder = str(Path(__file__).resolve().parent / "without_isa")
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if folder not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, paths)])
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds the module that executes CPUID, and changes its answer once it is loaded."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != "pplconv._kernels":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """Loads a module with its own loader, then replaces its `cpuid`."""

    def __init__(self, own: Loader) -> None:
        self.own = own

    def create_module(self, spec: Any) -> ModuleType | None:
        return self.own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.own.exec_module(module)
        real = module.cpuid  # type: ignore[attr-defined]
        bits = [where for name in names() for where in _BITS[name].values()]

        def cpuid(leaf: int, subleaf: int = 0) -> Any:
            found = real(leaf, subleaf)
            if found is None:
                return found
            lacking = [0] * len(found)
            for (at, below, register), bit in bits:
                if (at, below) == (leaf, subleaf):
                    lacking[register] |= 1 << bit
            return tuple(word & ~bits for word, bits in zip(found, lacking, strict=True))

        module.cpuid = cpuid  # type: ignore[attr-defined]
