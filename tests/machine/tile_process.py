"""The program of a test process: reports whether it may use tile registers, and computes sums.

Prints the level (``amx`` or ``without``) and ``right`` for each correct sum.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading

import numpy as np

from pplconv import _kernels
from pplconv.machine import current

FLAG_B_PADDED = 32
# Offsets of `struct pplconv_gemm_args` follow from the order of its members.
MEMBERS = [
    "a",
    "b",
    "c",
    "segments",
    "segment_count",
    "k",
    "a_rs",
    "a_ks",
    "b_ks",
    "b_ahead",
    "b_ahead_ks",
    "c_rs",
    "c_vs",
    "n",
    "bias",
    "residual",
    "residual_rs",
    "residual_vs",
    "clip",
    "flags",
    "tiles",
]


def small_stack() -> None:
    """Install an alternate stack that 8 KiB of tiles do not fit on."""
    libc = ctypes.CDLL(None, use_errno=True)
    memory = ctypes.create_string_buffer(8192)
    small_stack.memory = memory  # type: ignore[attr-defined]
    stack = struct.pack("PiP", ctypes.addressof(memory), 0, len(memory))
    assert libc.sigaltstack(stack, None) == 0, os.strerror(ctypes.get_errno())


def refuse() -> None:
    """Have the system call fail, as a filter does (seccomp, in classic BPF)."""
    libc = ctypes.CDLL(None, use_errno=True)
    allow, fail = 0x7FFF0000, 0x00050000 | 22
    program = b"".join(
        struct.pack("HBBI", *step)
        for step in (
            (0x20, 0, 0, 0),  # number of the call
            (0x15, 0, 3, 158),  # arch_prctl
            (0x20, 0, 0, 16),  # its first argument
            (0x15, 0, 1, 0x1023),
            (0x06, 0, 0, fail),
            (0x06, 0, 0, allow),
        )
    )
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HP", len(program) // 8, ctypes.addressof(code))
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # no new privileges
    assert libc.prctl(22, 2, header) == 0, os.strerror(ctypes.get_errno())


def level() -> str:
    """Return ``amx`` if the machine is found to have tiles, else ``without``."""
    return "amx" if "amx" in current().isas else "without"


def kernel(op: str, **tile: int) -> ctypes._CFuncPtr | None:
    """Return a kernel for AMX, or None if the machine has no AMX."""
    if "amx" not in current().isas:
        return None
    wanted = {"op": op, "isa": "amx", **tile}
    row = next(r for r in _kernels.rows() if wanted.items() <= r.items())
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(row["address"])


def verdict(turns: int = 200) -> str:
    """Sum some products, on tiles if they are there, and give the tiles back."""
    rng = np.random.default_rng()
    multiply = kernel("gemm", dtype="u8t", mr=32, nr=32)
    release = kernel("release_tiles")
    tiles = np.zeros(1, np.int64)
    # A name keeps the array alive; else another thread could get its memory.
    released = np.array([tiles.ctypes.data], np.int64)
    for turn in range(turns if multiply else 0):
        a = rng.integers(0, 256, (32, 128)).astype(np.uint8)
        b = rng.integers(-128, 128, (32, 32, 4)).astype(np.int8)
        c = np.empty((32, 32), np.int32)
        values = dict.fromkeys(MEMBERS, 0) | {
            "a": a.ctypes.data,
            "b": b.ctypes.data,
            "c": c.ctypes.data,
            "k": 128,
            "a_rs": 128,
            "a_ks": 4,
            "b_ks": 128,
            "c_rs": 128,
            "c_vs": 64,
            "n": 32,
            "flags": FLAG_B_PADDED,
            "tiles": tiles.ctypes.data,
        }
        arguments = np.array(list(values.values()), np.int64)
        multiply(arguments.ctypes.data)  # type: ignore[misc]
        expected = a.astype(int) @ b.transpose(0, 2, 1).reshape(128, 32).astype(int)
        if not np.array_equal(c, expected):
            return "wrong"
        if turn % 50 == 49:
            release(released.ctypes.data)  # type: ignore[misc]
    return "right"


def threads() -> list[str]:
    """Compute in four threads, two of which start before the permission."""
    go, found = threading.Event(), []

    def work() -> None:
        go.wait()
        found.append(verdict())

    team = [threading.Thread(target=work) for _ in range(4)]
    for thread in team[:2]:
        thread.start()
    found_level = level()
    for thread in team[2:]:
        thread.start()
    go.set()
    for thread in team:
        thread.join()
    return [found_level, *found]


def fork() -> list[str]:
    """Compute in a child that is forked while the parent has tiles loaded."""
    before = level()
    own = verdict(30)  # ends without a release
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, f"{level()} {verdict()}".encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    return [before, *os.read(read, 100).decode().split(), own]


def main(how: str) -> None:
    """Do what `how` names, and print."""
    if how == "small-stack":
        small_stack()
    if how == "filter":
        refuse()
    if how == "threads":
        print(*threads())
    elif how == "fork":
        print(*fork())
    else:
        print(level(), verdict())


if __name__ == "__main__":
    main(sys.argv[1])
