"""Run candidates, then candidates with one number changed, where any stray access is fatal.

Not a test module: ``test_schedule_mutants.py`` runs it as a script, with page-aligned
allocations guarded (``native/guarded_allocations.c``). Input and output lie between guard pages
too. A schedule must refuse a mutant, or run it, be right and stay inside. Prints
JSON; the case at hand is the last line of standard error, should the process die.
"""

from __future__ import annotations

import ctypes
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pplconv._trial import Trial
from pplconv.algorithms import Candidate
from pplconv.algorithms.candidate import ANSWERS
from tests.api.blocks import in_blocks, lanes_of_no_channel, out_of_blocks
from tests.api.candidates import TINY, context_of, conv_problem, describe, every_candidate
from tests.api.problems import Problem
from tests.api.pruned import prune, sparsity_of
from tests.kernels.guarded_memory import CANARY, Arena
from tests.reference import HALF_ULP, conv2d_reference

# Problems whose arrays are converted too: one for each way to do so.
HALF = {0, 1, 2, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16}
# layout or block, then batch, groups, ic, oc, image, kernel, stride, padding, dilation
CASES = [
    ("NCHW", (2, 1, 21, 35, (13, 11), (3, 3), 1, 1, 1)),
    ("NHWC", (1, 1, 21, 35, (13, 11), (3, 3), 1, (1, 2), 1)),
    (16, (1, 1, 37, 35, (9, 8), (3, 3), 1, 1, 1)),
    (24, (1, 1, 30, 50, (7, 6), (3, 3), 1, 1, 1)),
    ("NCHW", (2, 3, 12, 18, (9, 10), (3, 3), 1, 0, 1)),
    ("NHWC", (1, 2, 16, 20, (8, 9), (5, 5), 1, 2, 1)),
    (8, (2, 2, 32, 16, (6, 7), (3, 3), 1, 1, 1)),
    ("NCHW", (2, 1, 37, 50, (7, 9), (1, 1), 1, 0, 1)),
    ("NHWC", (2, 1, 37, 50, (7, 9), (1, 1), 1, 0, 1)),
    (16, (2, 1, 37, 50, (7, 9), (1, 1), 1, 0, 1)),
    ("NCHW", (1, 1, 5, 18, (11, 12), (3, 2), (2, 1), (2, 1), (1, 2))),
    ("NHWC", (1, 1, 5, 18, (11, 12), (3, 2), (2, 1), (2, 1), (1, 2))),
    ("NCHW", (2, 21, 21, 42, (9, 11), (3, 3), 1, 1, 1)),
    ("NHWC", (2, 21, 21, 42, (9, 11), (3, 3), 1, 1, 1)),
    (8, (2, 21, 21, 21, (9, 11), (3, 3), 2, 1, 1)),
    (16, (2, 3, 21, 30, (7, 6), (3, 3), 1, 1, 1)),
    (8, (1, 2, 22, 38, (6, 7), (1, 1), 2, 0, 1)),
    ("NCHW", (2, 2, 6, 18, (9, 37), (3, 2), (2, 1), (2, 1), (1, 2))),
]
# Convolutions of bytes by words, whose sums are exact.
WORDS = [
    ("NHWC", (2, 1, 21, 35, (13, 11), (3, 3), 1, (1, 2), 1)),
    ("NCHW", (1, 3, 39, 30, (9, 10), (3, 3), 1, 1, 1)),
]
# Of sparse weights: type, block of the weights, and which of the cases.
SPARSE = [
    ("float32", 4, 0), ("float32", 16, 1), ("float32", 16, 2), ("float32", 1, 4),
    ("float32", 8, 7), ("float32", 16, 8), ("float16", 4, 8), ("float16", 8, 9), ("float16", 4, 0),
]  # fmt: skip
# Fields that say what is computed, which only the arrays could contradict; all others say how.
DESCRIPTION = {"loops", "geometry", "numerics", "batch", "groups", "ic", "oc", "x", "y", "matrices"}
DESCRIPTION |= {*ANSWERS}  # for callers; no loops read them
# A MemoryError is a refusal too: a mutant may ask for more than is needed.
REFUSALS = (ValueError, LookupError, OverflowError, MemoryError)


class Guarded:
    """A problem's arrays between guard pages, at both ends."""

    def __init__(
        self, problem: Problem, block: int, arenas: tuple[Arena, Arena], pattern: int = 0
    ) -> None:
        self.channels, self.block = problem.out_channels, block
        arrays = problem.arrays()
        if pattern:
            arrays["weight"] = prune(arrays["weight"], problem.groups, pattern, 0.3, pattern)
        out = np.dtype(problem.dtype)
        if problem.dtype == "uint8":
            arrays, out = words_for(arrays), np.dtype(np.int32)
        self.weight, x = arrays["weight"], arrays["input"]
        expected = conv2d_reference(**arrays, **problem.parameters)
        # Winograd's least precise variant too; what strays is much further off.
        rounding = HALF_ULP if x.dtype == np.float16 else 0.0
        self.allowed = (1e-4 + rounding) * np.abs(expected).max() if out.kind == "f" else 0
        self.expected = expected
        x = in_blocks(x, block) if block else x
        shape = in_blocks(expected, block).shape if block else expected.shape
        self.places = [Place(place, x, shape, out, arenas) for place in ("start", "end")]

    def wrong(self, trial: Trial) -> str | None:
        """Run at both places and say what is wrong; None if nothing is."""
        for place in self.places:
            y = place.run(trial)
            if not place.intact():
                return "wrote outside the output"
            if self.block:
                if np.count_nonzero(lanes_of_no_channel(y, self.channels)):
                    return "lanes of no channel are not zero"
                y = out_of_blocks(y, self.channels)
            if not np.all(np.abs(y - self.expected) <= self.allowed):
                return f"off by {np.abs(y - self.expected).max()}"
        return None


class Place:
    """Input and output flush against the first or the last guard page."""

    def __init__(
        self,
        place: str,
        x: np.ndarray,
        shape: tuple[int, ...],
        out: np.dtype,
        arenas: tuple[Arena, Arena],
    ) -> None:
        size = out.itemsize * int(np.prod(shape))
        self.poison = np.nan if out.kind == "f" else np.iinfo(out).min
        self.source, self.buffer = (
            arena.buffer(n, place) for arena, n in zip(arenas, (x.nbytes, size), strict=True)
        )
        self.content = x
        # As the package sees them: between the guards, the input read-only.
        self.x, self.y = (
            np.frombuffer(at, dtype).reshape(dims)
            for at, dtype, dims in (
                ((ctypes.c_char * x.nbytes).from_address(self.source.address), x.dtype, x.shape),
                ((ctypes.c_char * size).from_address(self.buffer.address), out, shape),
            )
        )

    def run(self, trial: Trial) -> np.ndarray:
        """Give the output of a run into poisoned memory."""
        self.source.array(self.x.shape, self.x.dtype, self.content.strides)[...] = self.content
        self.buffer.fill(CANARY)
        self.y.fill(self.poison)
        self.around = self.buffer.surroundings.copy()
        trial.seconds(self.x, self.y)
        return self.y.copy()

    def intact(self) -> bool:
        """Whether nothing but the output was written."""
        self.y.fill(self.poison)
        return np.array_equal(self.around, self.buffer.surroundings)


def words_for(arrays: dict[str, Any]) -> dict[str, Any]:
    """Give bytes and words of their whole range for a problem's input and weights."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 256, arrays["input"].shape).astype(np.uint8)
    weight = rng.integers(-255, 256, arrays["weight"].shape).astype(np.int16)
    return arrays | {"input": x, "weight": weight}


def changed(value: int, few: bool = False) -> Iterator[int]:
    """Yield other numbers for a number."""
    if isinstance(value, bool):
        yield not value
        return
    others = [0, -1, value - 1, value + 1, 2 * value, (1 << 62) + value]
    if not few:
        others += [1, value // 2, value - 64, value + 64, (1 << 31) - 1, 1 << 40]
    yield from dict.fromkeys(other for other in others if other != value)


def mutants(fields: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield changes of every field's number; of lists, of each number of each row."""
    for name, value in fields.items():
        if name in DESCRIPTION:
            continue
        if isinstance(value, int):
            # The team is at least one; how far to prefetch is harmless.
            others = [-1, 0, 2] if name == "threads" else changed(value, name == "b_ahead")
            for other in others:
                yield f"{name} {value} -> {other}", {name: other}
            continue
        rows = [list(row) for row in value]
        for i, row in enumerate(rows):
            yield f"{name} without {i}", {name: rows[:i] + rows[i + 1 :]}
            yield f"{name} with {i} twice", {name: [*rows[:i], row, *rows[i:]]}
            for j, number in enumerate(row):
                for other in changed(number, few=True):
                    new = [*rows[:i], [*row[:j], other, *row[j + 1 :]], *rows[i + 1 :]]
                    yield f"{name}[{i}][{j}] {number} -> {other}", {name: new}


def chosen(problem: Any) -> Iterator[tuple[Candidate, str]]:
    """Yield candidates of every method, cut into few blocks or many, with their ISA."""
    for caches in ({}, TINY):
        around = context_of(problem.numerics[0], 1, **caches)
        by_method: dict[tuple[str, str], list[Candidate]] = {}
        for candidate in every_candidate(problem, around):
            orientation = str(candidate.blocks.get("orientation"))
            method = candidate.algorithm + candidate.loops, candidate.bits + orientation
            by_method.setdefault(method, []).append(candidate)
        for found in by_method.values():
            for candidate in dict.fromkeys((found[0], found[-1]) if caches else found[:1]):
                yield candidate, around.isa


def stray(where: str) -> None:
    """Step over a guard page, to show that it is there."""
    problem = Problem("float32", "NCHW", *CASES[0][1])
    if where == "allocation":
        memory, size = ctypes.c_void_p(), 12340
        assert ctypes.CDLL(None).posix_memalign(ctypes.byref(memory), 4096, size) == 0
        ctypes.memset(memory.value, 0, size)
        ctypes.memset(memory.value + size, 0, 1)
    arenas = Arena("input", 32, writable=False), Arena("output", 32, writable=True)
    guarded = Guarded(problem, 0, arenas)
    name = "y" if where == "output" else "x"
    found = chosen(conv_problem(problem))
    candidate, isa = next(each for each in found if each[0].algorithm == "direct")
    fields = candidate.fields(1)
    # The second image lies elsewhere.
    fields[name] = (1 << 17, *fields[name][1:])
    guarded.wrong(Trial(fields, isa, guarded.weight))


class Case(NamedTuple):
    """One run: a candidate's fields with some of them changed."""

    text: str
    fields: dict[str, Any]
    changes: dict[str, Any]
    isa: str
    guarded: Guarded

    @property
    def scratch(self) -> int:
        """Bytes that the run borrows."""
        mutant = self.fields | self.changes
        return int(mutant["scratch_bytes"] * max(mutant["threads"], 1))


def every_case(counts: Counter[str]) -> Iterator[Case]:
    """Yield the candidates of all problems, each as it is and with each change."""
    arenas = Arena("input", 32, writable=False), Arena("output", 32, writable=True)
    every = [("float32", case) for case in CASES] + [("float16", CASES[i]) for i in sorted(HALF)]
    every += [("uint8", case) for case in WORDS]
    patterns = [0] * len(every) + [pattern for _, pattern, _ in SPARSE]
    every += [(dtype, CASES[index]) for dtype, _, index in SPARSE]
    for (dtype, (layout, shape)), pattern in zip(every, patterns, strict=True):
        block = layout if isinstance(layout, int) else 0
        problem = Problem(dtype, "NCHW" if block else str(layout), *shape, seed=7)
        described = conv_problem(problem, block)
        guarded = Guarded(problem, block, arenas, pattern)
        if pattern:
            sparsity = sparsity_of(guarded.weight, problem.groups, pattern)
            described = replace(described, sparsity=sparsity)
        for candidate, isa in chosen(described):
            if pattern and candidate.algorithm != "sparse":
                continue
            fields = candidate.fields(1)
            counts[candidate.algorithm] += 1
            name = f"{described} {dtype} {described.layout_text} {describe(candidate)}"
            for text, changes in (("as it is", {}), *mutants(fields)):
                yield Case(f"{name}: {text}", fields, changes, isa, guarded)


def main(one_in: int = 1) -> None:
    """Print how many were taken and refused, and what was wrong with those taken.

    Cases that are as the planner made them all run; of the others one in `one_in` does, counted
    from a random one on.
    """
    failures: list[str] = []
    counts: Counter[str] = Counter()
    # By size: the end of a larger buffer, borrowed from an earlier run, would show nothing.
    cases = list(every_case(counts))
    first = random.randrange(one_in)
    chosen_ones = (c for i, c in enumerate(cases, first) if i % one_in == 0 or not c.changes)
    for case in sorted(chosen_ones, key=lambda case: case.scratch):
        print(case.text, file=sys.stderr, flush=True)
        try:
            trial = Trial(case.fields | case.changes, case.isa, case.guarded.weight)
            fault = case.guarded.wrong(trial)
        except REFUSALS:
            counts["refused"] += 1
            fault = None if case.changes else "refused"
        else:
            counts["taken"] += bool(case.changes)
        if fault:
            failures.append(f"{case.text}: {fault}")
    print(json.dumps({"failures": failures, "counts": counts}))


if __name__ == "__main__":
    argument = sys.argv[1] if sys.argv[1:] else "1"
    main(int(argument)) if argument.isdigit() else stray(argument)
