"""The inner loops of the microkernels, as the generators write them, and their instructions."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from asm.registry import ISAS, PRODUCTS, Kernel, kernels

# Labels of the loops that a kernel spends its time in, by architecture and operation, with their
# names in tables. In A, elements of neighbouring rows (rows) or of one row (k) are adjacent.
LABELS = {
    ("aarch64", "gemm"): {"rows": "rows_loop", "k": "k_loop"},
    ("x86_64", "gemm"): {"rows": "rows_fetched", "k": "k_fetched"},
    ("aarch64", "fma_peak"): {"peak": "peak_loop"},
    ("x86_64", "fma_peak"): {"peak": "loop"},
    ("aarch64", "sparse_pixels"): {"pixels": "whole_turn"},
    ("aarch64", "sparse_channels"): {"channels": "whole_turn"},
}
# Instructions of a product by an element, where there are several.
PARTS = {"s16": 2}
DIALECT = {"x86_64": ".intel_syntax noprefix\n", "aarch64": ""}

# Instructions that add products to accumulators. On x86-64, another instruction multiplies 16-bit
# numbers first.
ADDS_PRODUCTS = re.compile(
    r"(?:fmla|smlal2?|[su]dot|usdot|sudot|bfdot|[su]mmla|usmmla|bfmmla|vfmadd\w*|vp?dp\w+|vpaddd)\b"
)
_ARM_LOAD = re.compile(r"^ld\w+$")
_ARM_VECTOR = re.compile(r"\b[vqdsh]\d+\b")
_NO_LOAD = re.compile(r"^(?:lea|prefetch\w*|mov|add|sub|dec|cmp|test)$")


class LoopError(ValueError):
    """A loop is not where it should be."""


def extract(assembly: str, label: str) -> str:
    """Cut the loop that begins at `label` and ends with the branch back to it.

    Parameters
    ----------
    assembly : str
        A generated file.
    label : str
        Without the ``.L`` of local labels.

    Raises
    ------
    LoopError
        If there is no such label, no branch back to it, or another label in between: the loop
        would not be an innermost one.
    """
    lines = assembly.splitlines()
    try:
        start = lines.index(f".L{label}:")
    except ValueError:
        raise LoopError(f"no label .L{label}") from None
    back = re.compile(
        rf"\s+(?:b\.\w+|cbn?z \w+,|tbn?z \w+, #\d+,|j\w+) \.L{label}\s*(?://.*|#.*)?$"
    )
    for end in range(start + 1, len(lines)):
        if back.match(lines[end]):
            return "\n".join(lines[start : end + 1]) + "\n"
        if re.match(r"\S+:", lines[end]):
            raise LoopError(f"label {lines[end]} inside the loop .L{label}")
    raise LoopError(f"no branch back to .L{label}")


@dataclass(frozen=True)
class Loop:
    """One loop of one kernel.

    Parameters
    ----------
    kernel : Kernel
        Whose it is.
    name : str
        Which of its loops: a key of :data:`LABELS`.
    text : str
        Its lines, label and branch included.
    """

    kernel: Kernel
    name: str
    text: str

    @property
    def arch(self) -> str:
        """Architecture of the kernel."""
        return ISAS[self.kernel.isa].machine or ""

    @property
    def title(self) -> str:
        """Name in tables."""
        tile = f"{self.kernel.mr}x{self.kernel.nr} " if self.kernel.mr else ""
        tuning = f" {self.kernel.tuning}" if self.kernel.tuning else ""
        return f"{tile}{self.name}{tuning}"

    @property
    def source(self) -> str:
        """Text for an assembler of its own."""
        return DIALECT[self.arch] + self.text

    @cached_property
    def instructions(self) -> list[tuple[str, str]]:
        """Mnemonic and operands of each."""
        found = []
        for line in self.text.splitlines():
            code = line.split("//")[0].strip().removeprefix("{vex} ")
            if code and not code.endswith(":") and not code.startswith((".", "#")):
                mnemonic, _, operands = code.partition(" ")
                found.append((mnemonic, operands.strip()))
        return found

    @cached_property
    def sums(self) -> Counter[str]:
        """How many FMAs a turn adds to each accumulator."""
        return Counter(
            operands.split(",")[0].split(".")[0]
            for mnemonic, operands in self.instructions
            if ADDS_PRODUCTS.match(mnemonic)
        )

    @property
    def fmas(self) -> int:
        """FMAs a turn; of narrow types, instructions that add products of several k."""
        return self.sums.total()

    @property
    def macs(self) -> float:
        """Products of numbers that an FMA adds up."""
        return self.kernel.lanes * self.kernel.kr / PARTS.get(self.kernel.dtype, 1)

    @property
    def shuffles(self) -> int:
        """Instructions a turn that put bytes into another order, on the units of FMAs."""
        return sum(mnemonic.startswith("zip") for mnemonic, _ in self.instructions)

    @property
    def accumulators(self) -> int:
        """Chains of FMAs that do not wait for each other."""
        return len(self.sums)

    @property
    def chain(self) -> int:
        """FMAs a turn of the longest chain."""
        return max(self.sums.values(), default=0)

    @cached_property
    def loads(self) -> int:
        """Vectors and elements that a turn loads into vector registers, or into FMAs."""
        total = 0
        for mnemonic, operands in self.instructions:
            if self.arch == "aarch64" and _ARM_LOAD.match(mnemonic):
                total += len(_ARM_VECTOR.findall(operands.split("[")[0]))
            elif self.arch == "x86_64" and "[" in operands and not _NO_LOAD.match(mnemonic):
                total += 1
        return total


def loops_of(kernel: Kernel) -> list[Loop]:
    """Generate a kernel and cut its loops out.

    Raises
    ------
    LoopError
        If one is not found.
    """
    arch = ISAS[kernel.isa].machine or ""
    module = importlib.import_module(f"asm.{arch}.{kernel.op}")
    text = module.generate(kernel)
    labels = LABELS[arch, kernel.op]
    return [Loop(kernel, name, extract(text, label)) for name, label in labels.items()]


def analysed(kernel: Kernel) -> bool:
    """Whether a kernel is a GEMM whose loops the models can judge.

    Products by tile registers (AMX) are left out: llvm's models of cores have neither the latency
    nor the units of their instructions.
    """
    in_tiles = kernel.dtype.endswith("t")
    return kernel.op == "gemm" and kernel.source == "generator" and not in_tiles


def main_tiles(arch: str) -> list[Kernel]:
    """The largest GEMM tile of each width, type, instruction set and tuning."""
    largest: dict[tuple[str, str, str, int], Kernel] = {}
    for kernel in kernels(arch):
        if analysed(kernel):
            key = kernel.dtype, kernel.isa, kernel.tuning, kernel.nr
            if key not in largest or kernel.mr > largest[key].mr:
                largest[key] = kernel
    return list(largest.values())


def held_tiles(arch: str) -> list[Kernel]:
    """The largest tile of each width that has a register for each of its rows, where smaller.

    Where the elements of a row of A are neighbours, as in channels-last pixels, such a tile
    loads whole vectors of each. Those of one, two and three vectors are the tiles of the slides.
    """
    if arch != "aarch64":
        return []
    main = set(main_tiles(arch))
    found: dict[tuple[str, str, str, int], Kernel] = {}
    for kernel in kernels(arch):
        if not analysed(kernel) or kernel.tuning:
            continue
        registers = kernel.mr * kernel.vectors + kernel.mr + kernel.vectors
        key = kernel.dtype, kernel.isa, kernel.tuning, kernel.nr
        fits = registers <= ISAS[kernel.isa].vector_registers
        if fits and (key not in found or kernel.mr > found[key].mr):
            found[key] = kernel
    return [kernel for kernel in found.values() if kernel not in main]


def peak_loops(arch: str) -> Iterator[Loop]:
    """The register-only loops of FMAs; those of narrow products are measured, not analysed."""
    for kernel in kernels(arch):
        if kernel.op != "fma_peak" or kernel.source != "generator":
            continue
        if PRODUCTS[kernel.dtype].kr == 1:
            yield from loops_of(kernel)


def tile_loops(arch: str, dtype: str) -> list[Loop]:
    """Loops of the main tiles of a type, and those over k of the tiles that hold their rows."""
    found = [
        loop
        for kernel in main_tiles(arch)
        if kernel.dtype == dtype
        for loop in loops_of(kernel)
        # Kernels that are tuned for a kind of cores differ from the others in this loop alone.
        if loop.name == "rows" or not kernel.tuning
    ]
    for kernel in held_tiles(arch):
        if kernel.dtype == dtype:
            found += [loop for loop in loops_of(kernel) if loop.name == "k"]
    order = list(ISAS)
    return sorted(
        found,
        key=lambda o: (order.index(o.kernel.isa), o.kernel.tuning, o.name != "rows", o.kernel.nr),
    )
