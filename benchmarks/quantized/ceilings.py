"""The ceilings of narrow products: a register-only loop of each instruction that multiplies them.

A layer is held against the loop of the instruction that its plan names. All loops are read between
the rounds of a layer, in the same process and by as many threads, as the FMA peak is.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

from asm.registry import ISAS, PRODUCTS
from benchmarks.machine import CPUINFO
from benchmarks.peak import Peak, PeakUnavailable
from pplconv import _kernels

# Linux's arch/x86/include/uapi/asm/prctl.h, and the number of arch_prctl(2) on x86-64.
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18

# What stands for an instruction in tables.
INSTRUCTIONS = {
    ("u8", "avxvnni"): "vpdpbusd ymm",
    ("u8", "avx512vnni"): "vpdpbusd zmm",
    ("u8t", "amx"): "tdpbusd",
    ("s16", "avx2"): "vpmaddwd ymm",
    ("s16", "avx512"): "vpmaddwd zmm",
    ("bf16", "avx512bf16"): "vdpbf16ps zmm",
    ("bf16t", "amx"): "tdpbf16ps",
}


def flags(cpuinfo: Path = CPUINFO) -> frozenset[str]:
    """Features of the CPU, as Linux lists them; none where it does not."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        label, _, text = line.partition(":")
        if label.strip() in ("flags", "Features"):
            return frozenset(text.split())
    return frozenset()


def tiles_granted() -> bool:
    """Ask the system for the state of the tiles, for this process; it may be asked again."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    return not ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA)


def loops(precision: str, features: Iterable[str] | None = None) -> list[tuple[str, str]]:
    """List the loops that this machine can run: (product, level of the ladder).

    Parameters
    ----------
    precision : str
        ``"int8"`` or ``"bf16"``.
    features : iterable of str, optional
        Of the CPU; as the system lists them if not given.
    """
    available = flags() if features is None else frozenset(features)
    found = []
    for row in _kernels.rows():
        product, isa = row["dtype"], row["isa"]
        if row["op"] != "fma_peak" or PRODUCTS[product].kr == 1:
            continue
        narrow = "bf16" if PRODUCTS[product].sum == "f32" else "int8"
        if narrow == precision and available.issuperset(ISAS[isa].features):
            found.append((product, isa))
    if any(isa == "amx" for _, isa in found) and not tiles_granted():
        found = [one for one in found if one[1] != "amx"]
    return found


class Ceilings:
    """Reads all loops of a precision for a team, and float32's beside them.

    Parameters
    ----------
    precision : str
        ``"int8"`` or ``"bf16"``.
    threads : int
    peaks : sequence of Peak, optional
        What to read; those of this machine if not given.

    Raises
    ------
    PeakUnavailable
        If there is no loop that this machine can run.
    """

    def __init__(self, precision: str, threads: int, peaks: Sequence[Peak] | None = None) -> None:
        self.threads = threads
        if peaks is None:
            peaks = [
                Peak(_kernels.fma_peak, isa, threads, product) for product, isa in loops(precision)
            ]
        if not peaks:
            raise PeakUnavailable(f"no instruction for {precision} here that has a loop")
        self.peaks = peaks
        self._taken = dict.fromkeys(range(len(peaks)), 0)

    def read(self) -> float:
        """Read each loop once; give the fastest (operations a second)."""
        return max(peak.read() for peak in self.peaks)

    def take(self) -> dict[str, float]:
        """Give the best reading of each loop since the last call, by level of the ladder."""
        found = {}
        for index, peak in enumerate(self.peaks):
            if fresh := peak.readings[self._taken[index] :]:
                found[peak.isa] = max(fresh)
            self._taken[index] = len(peak.readings)
        return found

    def best(self) -> dict[str, float]:
        """Give the best reading of each loop in the whole run, by name of the instruction."""
        return {
            INSTRUCTIONS[peak.dtype, peak.isa]: max(peak.readings)
            for peak in self.peaks
            if peak.readings
        }
