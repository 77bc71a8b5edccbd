"""Judge the mutants of one kernel's edges, in a process that a mutant may crash.

``edge_mutant_probe.py SYMBOL ONE_IN FIRST`` judges every ONE_IN-th mutant from number FIRST on, and
prints a JSON list ``[number, verdict, edge, change]`` before and after each; the verdict is
"begun", "refused" or "taken". Number -1 is the unchanged kernel. Not a test module:
``test_edge_mutants.py`` runs it.
"""

from __future__ import annotations

import ctypes
import json
import sys
import tempfile
from itertools import islice
from pathlib import Path

import numpy as np

# The tests' helpers are imported from the root, which goes last: the installed package must run.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from asm.build import generated
from asm.registry import kernels
from tests.kernels.assembly_mutants import Mutant, mutants, renamed
from tests.kernels.gemm_case import (
    ACCUMULATE,
    BIAS_COLUMN,
    RESIDUAL,
    flag_combinations,
)
from tests.kernels.guarded_memory import PLACES
from tests.kernels.kernel_checker import Checker, compile_library
from tests.kernels.kernel_table import MACHINE, rows
from tests.kernels.product_case import judge

# Kernels for each run of the assembler.
BATCH = 64
LOADING = ACCUMULATE | BIAS_COLUMN | RESIDUAL


def accepted(checker: Checker, row: dict, seed: int) -> bool:
    """Judge a kernel over every tail and every combination of flags, until it fails."""
    rng = np.random.default_rng(seed)
    nr = row["nr"]
    tails = range(1, nr + 1)
    cases = [{"flags": f, "n": n} for f in flag_combinations(row) for n in (nr, None)]
    cases += [{"n": n, "place": place} for n in tails for place in PLACES]
    # All arrays that are loaded under the tail's mask end at a guard page; with few columns, the
    # vectors of every row reach it.
    loading = max(flags & LOADING for flags in flag_combinations(row))
    flush = {"place": "end", "flags": loading, "c_layout": "rows"}
    cases += [flush | {"n": n} for n in tails]
    cases += [flush | {"n": n} for n in (1, 2, 3)] * 12
    if row["op"] != "gemm":  # tails shorter than a word have code of their own
        short = {"flags": ACCUMULATE, "place": "start", "groups": 2}
        cases += [short | {"n": n} for n in (1, 2, 3)] * 4
    for i in rng.permutation(len(cases)):
        fixed = {name: value for name, value in cases[i].items() if value is not None}
        try:
            # With random values, all elements and all sums differ.
            judge(checker, row, rng, **fixed | {"kind": "random"})
        except AssertionError:
            return False
    return True


def load(directory: Path, symbol: str, texts: list[tuple[int, str]]) -> dict[int, int]:
    """Assemble kernels and load them; give their addresses by number.

    All go into one file: starting the assembler takes longer than assembling one kernel.
    """
    parts, names = [], {}
    for number, text in texts:
        names[number] = f"{symbol}_{number}" if number >= 0 else f"{symbol}_right"
        parts.append(renamed(text, symbol, names[number]).replace(".L", f".L{names[number]}_"))
    source = directory / f"mutants_{texts[0][0]}.s"
    source.write_text("\n".join(parts))
    library = compile_library(directory, source.stem, [source])
    return {
        number: ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        for number, name in names.items()
    }


def main(symbol: str, one_in: int, first: int) -> None:
    """Judge the mutants and print each verdict."""
    (kernel,) = (k for k in kernels(MACHINE) if k.symbol == symbol)
    (row,) = (r for r in rows(kernel.op) if r["symbol"] == symbol)
    text = generated(kernel)
    every = [(-1, Mutant("", "as it is", text)), *enumerate(mutants(text))]
    chosen = iter([(n, m) for n, m in every if n < 0 or n % one_in == 0])
    with tempfile.TemporaryDirectory() as folder:
        checker = Checker(Path(folder), MACHINE)
        # Mutants may loop forever: stop them after a second.
        ctypes.c_int.in_dll(checker.native, "checked_call_seconds").value = 1
        while batch := [(n, m) for n, m in islice(chosen, BATCH) if n < 0 or n >= first]:
            addresses = load(Path(folder), symbol, [(n, m.text) for n, m in batch])
            for number, mutant in batch:
                about = mutant.edge, mutant.change
                print(json.dumps([number, "begun", *about]), flush=True)
                right = accepted(checker, row | {"address": addresses[number]}, number + 1)
                print(json.dumps([number, "taken" if right else "refused", *about]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
