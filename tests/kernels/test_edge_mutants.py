"""The judge refuses a kernel that lacks any instruction around its sum.

Start from C, epilogue and tail of one tile for each instruction set and type, on any machine; see
``assembly_mutants.py``. Instructions that may be missing unnoticed are listed with the reason.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from asm.aarch64.products import BY_MATRIX
from asm.build import generated
from asm.registry import PRODUCTS, SPARSE_OPERATIONS, Kernel, kernels
from tests.emulation import is_emulated
from tests.kernels.assembly_mutants import EDGES, mutants
from tests.kernels.kernel_table import MACHINE
from tests.patience import PATIENCE

pytestmark = pytest.mark.unemulated("interprets kernels, on any machine alike")

PROBE = Path(__file__).resolve().parent / "edge_mutant_probe.py"
# Rows and vectors of the tiles. Two rows, so that their stride matters; four for panels of sparse
# weights. As many vectors as a row can have; on Arm, whose mutants are judged under emulation, two:
# a whole one and a partial one.
ROWS = 2
PANEL = 4
VECTORS = {"x86_64": 4, "aarch64": 2, "armv7l": 2}
# Mutants of x86-64 that pass: pattern, how many there may be, the reason.
_X86 = (
    (
        r"cmp qword ptr \[rdi \+ (104|88)\], \d+: left out",
        3,
        "whole tiles take the tail's way as well",
    ),
    (r"mov qword ptr \[rsp - 32\], \d: left out", 2, "counts rows of C to prefetch"),
    (r"mov rax, \[rdi \+ 16\]: left out", 1, "points to C to prefetch"),
    (r"mov (rbp|r12|r14), rax: left out", 1, "points to C to prefetch"),
    (r"add r1[134], \[rdi \+ 80\]: left out", 1, "points to B to prefetch"),
)
_ARM = ((r"tbl v\d+.*: left out", 2 * ROWS, "fewer columns than a vector has stay where they are"),)
# More mutants that pass, of tiles with four rows: of x86-64 if there are four columns or more; of
# Arm those of the two more rows.
_OF_FOUR_ROWS = (
    (r"line \d+: vmovups ymm0, \[r8\]: left out", 1, "behind its columns lie the next rows'"),
    (_ARM[0][0], 2 * (PANEL - ROWS), _ARM[0][2]),
)
HARMLESS = {"x86_64": _X86, "aarch64": _ARM, "armv7l": ()}


def has_edges(kernel: Kernel) -> bool:
    """Whether a kernel has edges as `assembly_mutants.EDGES` describes them.

    Kernels on tile registers (AMX, products in ``t``) do not: the shapes of the tiles handle their
    tails. ``test_tile_kernels.py`` judges these, interpreted and on silicon.
    """
    in_tiles = kernel.dtype.endswith("t")
    tiled = kernel.op in ("gemm", *SPARSE_OPERATIONS)
    return tiled and kernel.source == "generator" and not in_tiles


def rows_of(kernel: Kernel) -> int:
    """Give the rows of the tile whose mutants are judged."""
    return PANEL if kernel.op == "sparse_pixels" else ROWS


def tiles() -> list:
    """Give one tile for each instruction set and type, marked as needing that instruction set."""
    widest: dict[tuple[str, str, str], Kernel] = {}
    for kernel in kernels(MACHINE):
        if not has_edges(kernel) or (kernel.tuning, kernel.mr) != ("", rows_of(kernel)):
            continue
        if kernel.vectors <= VECTORS[MACHINE]:
            widest[kernel.op, kernel.isa, kernel.dtype] = kernel  # the widest comes last
    return [
        pytest.param(kernel.symbol, marks=pytest.mark.needs_isa(isa), id=f"{op}-{isa}-{dtype}")
        for (op, isa, dtype), kernel in widest.items()
    ]


def verdicts(symbol: str, one_in: int) -> list[tuple[str, str, str]]:
    """Give verdict, edge and change of each mutant; one that ends its process is refused."""
    found: dict[int, tuple[str, str, str]] = {}
    first = 0
    while True:
        done = subprocess.run(
            [sys.executable, str(PROBE), symbol, str(one_in), str(first)],
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
            check=False,
        )
        number = -1
        for line in done.stdout.splitlines():
            number, verdict, edge, change = json.loads(line)
            found[number] = verdict, edge, change
        assert found.pop(-1, ("", "", ""))[0] == "taken", (
            f"the judge refuses {symbol}:{done.stderr}"
        )
        if done.returncode == 0:
            return list(found.values())
        # The mutant crashed the process, e.g. by a write into Python's memory.
        assert done.returncode < 0 and number >= first, done.stderr
        assert found[number][0] == "begun"
        found[number] = "refused", *found[number][1:]
        first = number + 1


@pytest.mark.sampled(1)
@pytest.mark.unsanitized("mutants write where they like, which a sanitizer would report")
@pytest.mark.parametrize("symbol", tiles())
def test_no_instruction_of_the_edges_is_missed(symbol):
    one_in = 5 if is_emulated() else 1
    judged = verdicts(symbol, one_in)
    (kernel,) = (k for k in kernels(MACHINE) if k.symbol == symbol)
    more = _OF_FOUR_ROWS if kernel.mr == PANEL else ()
    left: Counter[str] = Counter()
    for pattern, most, _ in (*HARMLESS[MACHINE], *more):
        left[pattern] += most
    unnoticed = []
    for verdict, edge, change in judged:
        if verdict == "refused":
            continue
        pattern = next((p for p in left if re.search(p, change) and left[p] > 0), None)
        if pattern is None:
            unnoticed.append(f"{edge}: {change}")
        else:
            left[pattern] -= 1
    assert not unnoticed
    assert {"start", "epilogue"} <= {edge for _, edge, _ in judged} <= set(EDGES)
    every = list(mutants(generated(kernel)))
    # The epilogue of integer kernels is only the store.
    assert len(every) > (70 if PRODUCTS[kernel.dtype].sum != "s32" else 35)
    assert len(judged) == len(every[::one_in])


@pytest.mark.parametrize("machine", HARMLESS)
def test_every_edge_has_mutants(machine):
    """Checked for the kernels of all machines, on any machine."""
    for kernel in kernels(machine):
        if not has_edges(kernel) or kernel.mr != rows_of(kernel):
            continue
        text = generated(kernel)
        found = list(mutants(text))
        # Kernels of Arm's matrix instructions always read whole groups of B; panels of weights are
        # whole.
        without_tail = machine == "armv7l" or kernel.dtype in BY_MATRIX
        without_tail |= kernel.op == "sparse_channels"
        missing = {"tail"} if without_tail else set()
        assert {mutant.edge for mutant in found} == set(EDGES) - missing, kernel.symbol
        assert len({mutant.text for mutant in found} | {text}) > 0.9 * len(found)
        lines = text.splitlines()
        for mutant in found:
            changed = mutant.text.splitlines()
            assert len(lines) - len(changed) in (0, 1)
