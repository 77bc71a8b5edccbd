"""The judge refuses a kernel on tile registers that lacks any instruction around its products.

The kernels are interpreted, so this runs on any machine. Rows of C go through code that kernels of
vectors have too, whose mutants ``test_edge_mutants.py`` judges; all else is left out here, one
instruction at a time. Without some instructions a kernel is right but slow: how often it
configures, and how many tiles it loads, stores and copies, is judged as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from asm.x86_64.gemm_tiles import generate
from tests.kernels.gemm_case import ACCUMULATE, B_PADDED, BIAS_COLUMN
from tests.kernels.kernel_checker import Checker
from tests.kernels.test_tile_arithmetic import bits, put
from tests.kernels.tile_case import KERNELS, STEP, Interpreted, TileCall, draw_case, row_of

pytestmark = pytest.mark.unemulated("interprets kernels of x86-64, on any machine alike")

# Groups of a segment, columns, flags, segments; two calls with the same step in turn.
CALLS = (
    (5, 32, 0, 3),
    (5, 32, 0, 0),
    (16, 19, B_PADDED, 2),
    (35, 32, 0, 2),
    (40, 30, 0, 2),
    (24, 32, 0, 2),
    (7, 13, 0, 3),
    (37, 29, 0, 2),
    (0, 32, 0, 1),
    (3, 32, ACCUMULATE, 1),
    (48, 32, ACCUMULATE | B_PADDED, 1),
    (18, 20, ACCUMULATE, 0),
    (16, 32, BIAS_COLUMN, 1),
)
# Whole steps go the way of equal steps as well.
HARMLESS = {"u8t": {f"test ecx, {STEP - 1}"}, "bf16t": set()}
COUNTED = ("tileloadd", "tilestored", "vmovups", "bzhi")


class Mutant(Interpreted):
    """Executes a text; a call's executed instructions are counted."""

    text = ""

    def __call__(self, call: TileCall) -> None:
        self.thread.executed.clear()
        arguments, memory = self.memory("gemm", call.values, call.buffers)
        self.thread.call(self.text, arguments, memory)
        assert self.tiles[0] == call.number()


def lines_of(text: str) -> list[int]:
    """Numbers of the lines that are judged: all instructions but those of C's rows."""
    found, inside = [], False
    for number, line in enumerate(text.split("\n")):
        word = line.strip()
        if word.startswith(".L") and word.endswith(":"):
            inside = word not in (".Lload_parts:", ".Lstore_rows:") and (
                inside or word in (".Lzero:", ".Ldone:")
            )
        elif word == "push rbp":
            inside = True
        if inside and word and not word.startswith((".", "#")):
            found.append(number)
    return found


def of_infinity(checker: Checker, row: dict) -> TileCall:
    """Lay out a call whose copied step ends with infinities: 0 times one behind it would be NaN."""
    rng = np.random.default_rng(0)
    fixed = {"n": 32, "flags": 0, "segment_count": 0, "kind": "extreme"}
    call = TileCall(checker, row, draw_case(rng, row, k=36, **fixed), rng)
    b = np.full((18, 64), bits(1.0), np.uint16)
    b[-1] = bits(np.inf)
    put(call, np.full((17, 36), bits(1.0), np.uint16), b)
    return call


def run(text: str, calls: Iterable[TileCall], mutant: Mutant) -> list[tuple[int, ...]]:
    """Make all calls in one thread and judge them; count what each executed."""
    mutant.text = text
    mutant.tiles[0], mutant.thread.shapes = 0, None
    found = []
    for call in calls:
        with np.errstate(all="ignore"):
            call.judge(call.run(mutant))
        executed = mutant.thread.executed
        found.append(tuple(executed.get(name, 0) for name in (*COUNTED, "ldtilecfg")))
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", ["bf16t", "u8t"])
def test_no_instruction_around_the_products_is_missed(checker, dtype, rng):
    (kernel,) = (k for k in KERNELS if (k.dtype, k.mr, k.nr) == (dtype, 17, 32))
    row, text = row_of(kernel), generate(kernel)
    mutant = Mutant(checker)
    calls, floats = [], dtype == "bf16t"
    for groups, n, flags, segments in CALLS:
        if flags & BIAS_COLUMN and not floats:
            continue
        fixed = {"n": n, "flags": flags, "segment_count": segments, "kind": "random"}
        # The last group is not whole.
        k = max(groups * kernel.kr - 1, 0)
        case = draw_case(rng, row, k=k, **fixed)
        calls.append((case, int(rng.integers(1 << 30))))

    def fresh() -> Iterator[TileCall]:
        """Calls laid out anew, one after the other: they share their memory."""
        for case, seed in calls:
            yield TileCall(checker, row, case, np.random.default_rng(seed))
        if floats:
            yield of_infinity(checker, row)

    expected = run(text, fresh(), mutant)
    lines, unnoticed = text.split("\n"), []
    judged = lines_of(text)
    for number in judged:
        without = "\n".join([*lines[:number], *lines[number + 1 :]])
        try:
            if run(without, fresh(), mutant) == expected:
                unnoticed.append(lines[number].strip())
        except Exception:
            continue
    assert len(judged) > 120
    assert set(unnoticed) == HARMLESS[dtype]
