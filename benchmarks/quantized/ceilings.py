"""The ceilings of narrow products: a register-only loop of each instruction that multiplies them.

A layer is held against the loop of the instruction that its plan names. All loops are read between
the rounds of a layer, in the same process and by as many threads, as the FMA peak is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from asm.registry import PRODUCTS
from benchmarks.peak import Peak, PeakUnavailable
from pplconv import _kernels, config, machine

# Names of the instructions in tables.
INSTRUCTIONS = {
    ("u8", "avxvnni"): "vpdpbusd ymm",
    ("u8", "avx512vnni"): "vpdpbusd zmm",
    ("s8", "avxvnniint8"): "vpdpbssd ymm",
    ("u8t", "amx"): "tdpbusd",
    ("s8t", "amx"): "tdpbssd",
    ("s16", "avx2"): "vpmaddwd ymm",
    ("s16", "avx512"): "vpmaddwd zmm",
    ("bf16", "avx512bf16"): "vdpbf16ps zmm",
    ("bf16t", "amx"): "tdpbf16ps",
    ("u8p", "avx2"): "vpmaddubsw ymm",
    ("u8p", "avx512"): "vpmaddubsw zmm",
    ("s16", "neon"): "smlal, smlal2",
    ("s8", "dotprod"): "sdot",
    ("s8m", "i8mm"): "smmla",
    ("u8m", "i8mm"): "usmmla",
    ("bf16", "bf16"): "bfdot",
    ("bf16m", "bf16"): "bfmmla",
    **{("f32", isa): f"float32 FMA, {isa}" for isa in ("portable", "avx2", "avx512", "neon")},
}


def loops(precision: str, isas: Collection[str] | None = None) -> list[tuple[str, str]]:
    """List the loops that this process can run: (product, level of the ladder).

    Parameters
    ----------
    precision : str
        ``"int8"`` or ``"bf16"``.
    isas : collection of str, optional
        Levels to look at; those that pplconv may use here if not given: ``PPLCONV_MAX_ISA`` caps
        them, and tile registers are among them where the system grants them.
    """
    if isas is None:
        isas = machine.current().usable_isas(config.current().max_isa)
    found = []
    for row in _kernels.rows():
        product = PRODUCTS.get(row["dtype"])
        if row["op"] == "fma_peak" and product is not None and product.kr > 1:
            narrow = "bf16" if product.sum == "f32" else "int8"
            if narrow == precision and row["isa"] in isas:
                found.append((row["dtype"], row["isa"]))
    # Without an instruction of its own, bfloat16 is multiplied as float32.
    if not found and precision == "bf16":
        found = [("f32", isa) for isa in list(isas)[-1:]]
    return found


class Ceilings:
    """Reads all loops of a precision for a team.

    Parameters
    ----------
    precision : str
        ``"int8"`` or ``"bf16"``.
    threads : int
    peaks : sequence of Peak, optional
        Loops to read; those of this machine if not given.

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
        """Give the best reading since the last call, of each level of the ladder.

        Of a level that has several loops it is the fastest one's.
        """
        found: dict[str, float] = {}
        for index, peak in enumerate(self.peaks):
            if fresh := peak.readings[self._taken[index] :]:
                found[peak.isa] = max(found.get(peak.isa, 0.0), *fresh)
            self._taken[index] = len(peak.readings)
        return found

    def best(self) -> dict[str, float]:
        """Give the best reading of each loop in the whole run, by name of the instruction."""
        return {
            INSTRUCTIONS.get((peak.dtype, peak.isa), f"{peak.dtype} {peak.isa}"): max(peak.readings)
            for peak in self.peaks
            if peak.readings
        }
