"""Tiles that just fit the registers are generated; larger ones are refused with a message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from asm.build import generated
from asm.registry import ISAS, SPARSE_OPERATIONS, SPARSE_PANELS, Kernel, kernels
from tests.cases import each

pytestmark = pytest.mark.unemulated("reads generated kernels, which no machine changes")

REFUSAL = (
    r"pplconv_\w+: a tile of \d+ x \d+ \(\d+ vectors? a row\) on {isa} "
    r"(needs \d+ [a-z]+ [\w ]+, and there are \d+|is none of those with [\d, ]+ vectors a row)"
)
# More rows and vectors than fit the registers of any instruction set.
MOST_ROWS, MOST_VECTORS = 40, 16
# Names of vector registers in assembly, by machine.
VECTORS = {"x86_64": r"\b[xyz]mm(\d+)\b", "aarch64": r"\b[vq](\d+)\b", "armv7l": r"\bq(\d+)\b"}


def families() -> list[Kernel]:
    """One kernel of each generated family of tiles."""
    found = {
        (kernel.op, kernel.isa, kernel.dtype, kernel.tuning): kernel
        for kernel in kernels()
        if kernel.op in ("gemm", *SPARSE_OPERATIONS) and kernel.source == "generator"
    }
    return list(found.values())


def name(kernel: Kernel) -> str:
    return "_".join(filter(None, (kernel.op, kernel.dtype, kernel.isa, kernel.tuning)))


def tile(family: Kernel, rows: int, vectors: int) -> Kernel:
    return replace(family, mr=rows, nr=vectors * family.lanes)


def text_or_refusal(kernel: Kernel) -> str | None:
    """Give the text of a kernel; None if it is refused. Other errors fail the test."""
    try:
        return generated(kernel)
    except ValueError as error:
        assert re.fullmatch(REFUSAL.format(isa=kernel.isa), str(error)), error
        assert f" {kernel.nr} (" in str(error)
        return None


def sizes(family: Kernel) -> tuple[int, ...]:
    """Rows that tiles of a family may have."""
    return SPARSE_PANELS if family.op == "sparse_pixels" else tuple(range(1, MOST_ROWS))


def largest_tiles(family: Kernel) -> Iterator[Kernel]:
    """Give the largest tile of each number of vectors; all larger ones must be refused."""
    for vectors in range(1, MOST_VECTORS):
        fit = [rows for rows in sizes(family) if text_or_refusal(tile(family, rows, vectors))]
        assert fit == list(sizes(family)[: len(fit)])
        if fit:
            yield tile(family, fit[-1], vectors)


@each("family", families(), name)
def test_the_largest_tile_is_generated_and_a_larger_one_is_refused(family):
    largest = {kernel.vectors: kernel for kernel in largest_tiles(family)}
    isa = ISAS[family.isa]
    for vectors, kernel in largest.items():
        text = generated(kernel)
        used = {int(number) for number in re.findall(VECTORS[isa.machine], text)}
        assert max(used) < isa.vector_registers
        if isa.machine == "x86_64":
            masks = {int(number) for number in re.findall(r"\bk(\d+)\b", text)}
            assert not masks or max(masks) < 8
        following = [rows for rows in sizes(family) if rows > kernel.mr][:1]
        for rows in following:
            assert text_or_refusal(tile(family, rows, vectors)) is None
    widest = largest[max(largest)]
    assert text_or_refusal(tile(family, 1, widest.vectors + 1)) is None
    assert text_or_refusal(tile(family, widest.mr, widest.vectors + 1)) is None
    # All tiles of the registry fit.
    for kernel in kernels():
        if replace(kernel, mr=family.mr, nr=family.nr) == family:
            assert kernel.mr <= largest[kernel.vectors].mr


@pytest.mark.parametrize(
    ("dtype", "level", "mr", "nr", "kr", "needs", "has"),
    [
        ("f32", "avx512", 29, 16, 1, "3 general registers that point to rows of A", 2),
        ("f32", "avx512", 15, 32, 1, "33 vector registers", 32),
        ("f32", "neon", 18, 4, 1, "18 general registers that point to rows of A", 17),
        # One of them counts the terms of a chain.
        ("f16", "fp16", 17, 8, 1, "17 general registers that point to rows of A", 16),
        ("f32", "neon32", 13, 4, 1, "17 vector registers", 16),
        ("u8t", "amx", 33, 16, 4, "3 tile registers of A", 2),
    ],
    ids=["AVX-512", "AVX-512, wide", "NEON", "half precision", "32-bit Arm", "AMX"],
)
def test_a_refusal_names_tile_instruction_set_and_registers(dtype, level, mr, nr, kr, needs, has):
    row = "2 vectors a row" if nr == 32 else "1 vector a row"
    said = (
        f"pplconv_gemm_{dtype}_{mr}x{nr}_{level}: a tile of {mr} x {nr} ({row}) on {level} needs "
        f"{needs}, and there are {has}"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        generated(Kernel("gemm", dtype, level, mr, nr, kr, "generator"))
