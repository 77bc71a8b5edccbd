"""The plans of every shape file on every recorded machine, as lines that can be compared.

``python tests/planner/golden_plans.py`` writes them anew beside this file, for a change that is to
change plans; the commit says which ones, and why.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

if __name__ == "__main__":
    os.environ["PPLCONV_WISDOM"] = "off"
    _HERE = Path(__file__).resolve().parent
    sys.path += [str(_HERE), str(_HERE.parent / "machine"), str(_HERE.parents[1])]

from benchmarks.problems import load_nets
from pplconv.planner import Request, plan_problem
from pplconv.problem import ConvProblem
from targets import TARGETS, target_of

GOLDEN = Path(__file__).resolve().parent / "golden"
# Type, layout, channels of a block, team.
CASES = (
    ("f32", "NCHW", 0, 1),
    ("f32", "NCHW", 0, 4),
    ("f32", "NHWC", 0, 1),
    ("f32", "NHWC", 0, 4),
    ("f32", "NCHWc", 16, 1),
    ("f16", "NCHW", 0, 1),
    ("f64", "NHWC", 0, 1),
)
LAYERS = sorted({layer.sizes for layers in load_nets().values() for layer in layers})


def lines(machine: str) -> Iterator[str]:
    """One line a plan: what is planned, the kernel, and a digest of all that the plan says."""
    target = target_of(machine)
    for dtype, layout, block, threads in CASES:
        for sizes in LAYERS:
            problem = ConvProblem.parse(sizes, dtype, layout, block)
            if dtype == "f16" and "fp16" in target.machine.isas:
                problem = replace(problem, permitted=("f16",))
            plan = plan_problem(Request(problem, threads=threads, target=target)).plan
            cost = {name: f"{cycles:.6g}" for name, cycles in plan.cost.items()}
            said = (
                plan.bits, plan.isa, dict(plan.blocks), plan.tasks, plan.threads, plan.packing,
                plan.packed_weight_bytes, plan.scratch_bytes, f"{plan.error_bound:.6g}", cost,
            )  # fmt: skip
            digest = hashlib.sha256(repr(said).encode()).hexdigest()[:8]
            kernel = plan.kernel.removeprefix("pplconv_")
            yield (
                f"{sizes} {dtype} {problem.layout_text} {threads}: "
                f"{plan.algorithm} {kernel} x{plan.threads} {digest}"
            )


def main() -> None:
    """Write every machine's lines."""
    GOLDEN.mkdir(exist_ok=True)
    for name in TARGETS:
        (GOLDEN / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines(name)))
        print(name)


if __name__ == "__main__":
    main()
