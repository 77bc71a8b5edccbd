"""Calls of kernels that end in a report instead of a crash.

The native half (``native/``) poisons the callee-saved registers and the vector registers,
surrounds the return address with canaries, catches faults and endless loops, and then checks
registers and canaries. It is compiled once per test process.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from asm.contract import CONTRACTS, header_text
from tests.kernels.guarded_memory import PAGE, Arena

NATIVE = Path(__file__).resolve().parent / "native"
SOURCES = (
    "checked_call.c",
    "checked_call_x86_64.S",
    "checked_call_aarch64.S",
    "checked_call_armv7l.S",
    "flush_mode.c",
    "ordered_bfloat16.c",
    "ordered_gemm.c",
    "ordered_depthwise.c",
    "tile_palette.c",
)
STRUCTURES = {op: contract.ctypes_structure() for op, contract in CONTRACTS.items()}
# An address that no kernel may dereference, for pointers whose flag is not set.
NOWHERE = 8

# Meanings of the bits of a report, in order; callee-saved registers of the machine follow.
_FAULTS = (
    "raised a signal",
    "did not restore the stack pointer",
    "wrote on the stack above its return address",
    "changed the control bits of MXCSR, FPCR or FPSCR",
    "left the direction flag set",
    "changed the x87 control word or left registers on the x87 stack",
    "left the upper halves of vector registers dirty (vzeroupper)",
)
SAVED_REGISTERS = {
    "x86_64": ("rbx", "rbp", "r12", "r13", "r14", "r15"),
    "aarch64": (*(f"x{i}" for i in range(18, 30)), *(f"d{i}" for i in range(8, 16))),
    "armv7l": (*(f"r{i}" for i in range(4, 12)), *(f"d{i}" for i in range(8, 16))),
}
# The references need FMA instructions, which 32-bit Arm does not have by default.
_REFERENCE_FLAGS = {"armv7l": ("-mfpu=neon-vfpv4", "-mfp16-format=ieee")}


class _Report(ctypes.Structure):
    _fields_ = (
        ("faults", ctypes.c_int64),
        ("signal", ctypes.c_int64),
        ("fault_address", ctypes.c_uint64),
    )


def compile_library(
    directory: Path, name: str, sources: list[Path], flags: Sequence[str] = ()
) -> ctypes.CDLL:
    """Compile `sources` into the shared library `name`.so in `directory` and load it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("the kernel tests need a C compiler named cc or gcc")
    (directory / "pplconv_kernels.h").write_text(header_text())
    library = directory / f"{name}.so"
    command = [compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
    # `make asan` compiles the checker with the sanitizers, too.
    command += os.environ.get("PPLCONV_TEST_CFLAGS", "").split()
    command += [*flags, "-fPIC", "-shared", f"-I{directory}", f"-I{NATIVE}", "-o", str(library)]
    command += [*(str(source) for source in sources), "-lm", "-lpthread"]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


class Checker:
    """Calls kernels through the native half; owns the memory of their arguments.

    Parameters
    ----------
    directory : Path
        Where the native half is built.
    machine : str
        Machine in the spelling of ``platform.machine()``.
    """

    def __init__(self, directory: Path, machine: str) -> None:
        suffix = f"_{machine}.S"
        sources = [
            NATIVE / source
            for source in SOURCES
            if not source.endswith(".S") or source.endswith(suffix)
        ]
        self._faults = [
            *_FAULTS,
            *(f"did not restore {name}" for name in SAVED_REGISTERS.get(machine, ())),
        ]
        self.native = compile_library(
            directory, "kernel_checker", sources, _REFERENCE_FLAGS.get(machine, ())
        )
        self._call = self.native.checked_call
        self._call.restype = None
        self._call.argtypes = (
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_int64,
            ctypes.POINTER(_Report),
        )
        self._report = _Report()
        self._arguments = Arena("arguments", 1, writable=False)
        self._arenas: dict[str, Arena] = {"arguments": self._arguments}
        self._structures: dict[str, ctypes.Structure] = {}

    @contextmanager
    def flushing(self, on: bool) -> Iterator[None]:
        """Turn flush-to-zero of subnormal numbers on or off, on this thread."""
        change = self.native.flush_subnormals
        change.restype, change.argtypes = ctypes.c_int64, (ctypes.c_int64,)
        before = change(on)
        try:
            yield
        finally:
            change(before)

    def arena(self, name: str, *, writable: bool = False, pages: int = 16) -> Arena:
        """Give the arena of this name; it is made at its first use, or to make it larger."""
        key = f"{name}{' (output)' if writable else ''}"
        if key not in self._arenas or self._arenas[key].size < pages * PAGE:
            self._arenas[key] = Arena(key, pages, writable=writable)
        return self._arenas[key]

    def arguments(self, op: str, values: Mapping[str, int]) -> int:
        """Store the argument struct of `op`, flush against a guard page; return its address.

        Pointers that `values` leaves out become `NOWHERE`; integers must all be given.
        """
        if op not in self._structures:
            size = ctypes.sizeof(STRUCTURES[op])
            self._structures[op] = STRUCTURES[op].from_buffer(
                self._arguments.open, self._arguments.size - size
            )
        structure = self._structures[op]
        for field in CONTRACTS[op].fields:
            if field.name in values:
                setattr(structure, field.name, int(values[field.name]))
            elif field.ctype.endswith("*"):
                setattr(structure, field.name, NOWHERE)
            else:
                raise KeyError(f"{op} needs {field.name}")
        return self._arguments.base + self._arguments.size - ctypes.sizeof(structure)

    def problems(self, address: int, arguments: int, vector_bytes: int) -> list[str]:
        """Call the function at `address` and list the rules that it broke."""
        level = {16: 0, 32: 1, 64: 2}[vector_bytes]
        self._call(address, arguments, level, ctypes.byref(self._report))
        faults = self._report.faults
        if not faults:
            return []
        found = [text for bit, text in enumerate(self._faults) if faults >> bit & 1]
        if self._report.signal:
            found.append(self._describe_signal())
        return found

    def _describe_signal(self) -> str:
        name = signal.Signals(self._report.signal).name
        if name == "SIGVTALRM":
            return "it did not return"
        address = self._report.fault_address
        where = [text for a in self._arenas.values() if (text := a.describe(address))]
        return f"{name} at {address:#x}" + "".join(f", {text}" for text in where)

    def call(self, row: Mapping[str, Any], values: Mapping[str, int], context: object) -> None:
        """Call the kernel `row` of the table and fail if it broke a rule.

        The message contains `context`, the case that the caller tests.
        """
        arguments = self.arguments(row["op"], values)
        found = self.problems(row["address"], arguments, row["vector_bytes"])
        assert not found, f"{row['symbol']} {'; '.join(found)}\n{context}"
