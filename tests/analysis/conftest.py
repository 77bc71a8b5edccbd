"""Loops with recorded answers of llvm-mca."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

RECORDED = Path(__file__).resolve().parent / "recorded"


@pytest.fixture
def recorded():
    """Core, loop and llvm-mca's answer, by the file's name."""
    from asm.registry import Kernel
    from benchmarks.analysis import mca
    from benchmarks.analysis.cores import CORES
    from benchmarks.analysis.loops import Loop

    def read(name):
        document = json.loads((RECORDED / f"{name}.json").read_text())
        core = next(core for core in CORES if core.name == document["core"])
        nr = 16 if document["isa"] == "avx512" else 4
        kernel = Kernel("gemm", "f32", document["isa"], 4, nr, 1, "generator")
        loop = Loop(kernel, "rows", "\n".join(document["loop"]) + "\n")
        return core, loop, mca.read(json.dumps(document["answer"]))

    return read
