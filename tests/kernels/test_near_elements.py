"""Registers of AArch64's products by neighbouring elements of a row: disjoint, and few loads."""

from __future__ import annotations

import pytest

from asm.aarch64.gemm_steps import Steps
from asm.aarch64.near_elements import near_elements
from asm.aarch64.products import BY_MATRIX
from asm.registry import Kernel, kernels
from tests.cases import each

# Products by an element; those by matrices have registers of their own.
GEMM = [
    k
    for k in kernels("aarch64")
    if k.op == "gemm" and k.source == "generator" and k.dtype not in BY_MATRIX
]


def symbol(kernel: Kernel) -> str:
    """Name of a case."""
    return kernel.symbol


@each("kernel", GEMM, symbol)
def test_nobody_has_the_register_of_another(kernel):
    """Accumulators, vectors of B and elements of A have different registers."""
    steps = Steps(kernel)
    every = [*steps.accumulators, *steps.b, *steps.near.registers]
    assert len(set(every)) == len(every)
    assert set(every) <= set(range(32))
    # Instructions by a 16-bit element can address the first sixteen registers only.
    assert max(steps.near.registers) < 16
    kept = {*steps.saved_vectors}
    assert {r for r in every if 8 <= r < 16} <= kept


@each("kernel", GEMM, symbol)
def test_a_turn_multiplies_what_it_loaded(kernel):
    """Each element of each row is multiplied by each vector of B once, in ascending order of k.

    In narrow types an element is a group of k; SMLAL takes it in two parts.
    """
    steps = Steps(kernel)
    steps.k_turn()
    parts = {part.mnemonic: part for part in steps.product}
    holds, pointer, sums = {}, 0, {}
    for line in steps.w.lines:
        mnemonic, _, operands = line.strip().partition(" ")
        first = operands.split(",")[0].split(".")[0]
        if mnemonic == "ldur":
            base, offset = operands.split("[")[1].rstrip("]").split(", #")
            size = {"h": 2, "s": 4, "d": 8, "q": 16}[first[0]]
            place = ("B", pointer) if base == "x2" else ("A", steps.rows.index(base))
            holds[int(first[1:])] = (*place, int(offset), size)
        elif mnemonic == "add" and first == "x2":
            pointer += 1
        elif mnemonic in parts:
            part = parts[mnemonic]
            c, b, element = (operand.strip() for operand in operands.split(","))
            b_at = holds[int(b[1:].split(".")[0])]
            register, lane = element[1:].split("[")
            a_at = holds[int(register.split(".")[0])]
            # An instruction may multiply one element of a group of k.
            group, in_group = divmod(int(lane.rstrip("]")), part.stride)
            assert in_group == part.first, line
            at = group * steps.v.size
            assert at < a_at[3], line
            step = (a_at[2] + at) // steps.v.size
            assert b_at[:2] == ("B", step), line
            product = (a_at[1], b_at[2], step, mnemonic)
            sums.setdefault(int(c[1:].split(".")[0]), []).append(product)
    expected = {
        steps.acc(m, j): [
            (m, j * steps.v.bytes, step, name) for step in range(steps.k_unroll) for name in parts
        ]
        for m in range(kernel.mr)
        for j in range(kernel.vectors)
    }
    assert sums == expected
    assert pointer == steps.k_unroll


def test_a_tile_that_holds_every_row_loads_each_vector_once():
    """OpenPPL's 10x8: two vectors of B a step, ten of A each four steps."""
    near = near_elements(10, 2, 4, range(10))
    assert (near.together, len(near.held), near.passing) == (1, 10, ())
    assert near.loads(2, 4) == 2 * 4 + 10
    assert near.groups == [range(10)]


def test_two_steps_together_halve_the_loads_of_rows_that_pass():
    """Tiles of 12x8, with six registers for A and B."""
    near = near_elements(12, 2, 4, range(2, 8))
    assert (near.together, near.held, near.more_b, near.passing) == (2, (), (2, 3), (4, 5, 6, 7))
    assert near.loads(2, 4) == 2 * 4 + 12 * 2
    assert near.groups == [range(m, m + 2) for m in range(0, 12, 2)]


def test_too_few_registers_are_refused():
    """A register cannot be loaded while it is multiplied."""
    with pytest.raises(ValueError, match="3 rows of A cannot pass through the registers"):
        near_elements(3, 1, 4, [5])
