"""Run works of networks with one number of their fields changed, where a stray access is fatal.

Not a test module: ``test_network_loops.py`` runs it as a script. Arrays lie between guard pages;
a work must refuse a change, or run and stay inside. Prints JSON; the case at hand
is the last line of standard error, should the process die.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.kernels.guarded_memory import Arena, Buffer
from tests.network.loop_cases import CANARY, KINDS, Case, types_of

REFUSALS = (ValueError, LookupError, OverflowError, MemoryError)
# Fields that say how an array is computed, and not where it lies.
HARMLESS = {"epsilon", "weights_y", "weights_x"}


class Guarded:
    """The arrays of a case flush against guard pages, inputs read-only."""

    def __init__(self, case: Case, place: str, arenas: list[list[Arena]]) -> None:
        self.case = case
        self.buffers: list[Buffer] = []
        self.arrays: list[np.ndarray] = []
        for i, laid in enumerate(case.arrays):
            size = laid.content.size
            buffer = arenas[i in case.outputs][i].buffer(size, place)
            self.buffers.append(buffer)
            self.arrays.append(
                np.frombuffer((ctypes.c_char * size).from_address(buffer.address), np.uint8)
            )

    def run(self, isa: str, changes: dict[str, Any]) -> str | None:
        """Run it changed; say what is wrong."""
        around = []
        for i, (buffer, laid) in enumerate(zip(self.buffers, self.case.arrays, strict=True)):
            buffer.fill(CANARY)
            if i not in self.case.outputs:
                buffer.array(laid.content.shape, laid.content.dtype, (1,))[...] = laid.content
            around.append(buffer.surroundings.copy())
        self.case.run(isa, 1, self.arrays, **changes)
        for i, (buffer, before) in enumerate(zip(self.buffers, around, strict=True)):
            inside = buffer.array((buffer.extent,), np.dtype(np.uint8), (1,))
            if i in self.case.outputs:
                inside.fill(CANARY)
            if not np.array_equal(buffer.surroundings, before):
                return "wrote outside the output"
        return None


def changed(value: int) -> Iterator[int]:
    """Yield other numbers for a number."""
    if isinstance(value, bool):
        yield not value
        return
    others = [
        0, -1, 1, value - 1, value + 1, 2 * value, value // 2, value + 64, value - 64,
        (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 46) + value, 1 << 62, (1 << 62) + value,
        (1 << 63) - 1, -(1 << 62),
    ]  # fmt: skip
    yield from dict.fromkeys(other for other in others if other != value)


def inside(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a value with each of its numbers changed."""
    if isinstance(value, (bool, int)):
        for other in changed(value):
            yield f"{value} -> {other}", other
    elif isinstance(value, np.ndarray):
        for at in {0, value.size - 1}:
            for other in changed(int(value.flat[at])):
                if -(1 << 63) <= other < 1 << 63:
                    new = value.copy()
                    new.flat[at] = other
                    yield f"[{at}] -> {other}", new
    elif isinstance(value, (tuple, list)):
        for at, item in enumerate(value):
            for text, new in inside(item):
                yield f"[{at}] {text}", [*value[:at], new, *value[at + 1 :]]
        for at in {0, len(value) - 1} if len(value) else ():
            yield f"without {at}", [*value[:at], *value[at + 1 :]]
            yield f"with {at} twice", [*value[: at + 1], *value[at:]]


def mutants(case: Case) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the fields as they are, and each change."""
    fields = case.fields
    inputs = set(range(len(case.arrays))) - set(case.outputs)
    yield "as it is", {}
    for name, value in fields.items():
        if name in HARMLESS:
            continue
        for text, new in inside(value):
            # Another array that is there is one that the caller named.
            written = {output[0] for output in new} if name == "outputs" else set()
            if not written & inputs:
                yield f"{name} {text}", {name: new}


def arenas() -> list[list[Arena]]:
    """Memory of inputs and of outputs, by the number of the array."""
    return [[Arena(f"{i}", 256, writable=writable) for i in range(5)] for writable in (False, True)]


def main(kind: str, cases: int, isas: list[str]) -> None:
    """Print how many changes were taken and refused, and what was wrong with those taken."""
    rng = np.random.default_rng(5)
    memory = arenas()
    failures: list[str] = []
    counts = {"taken": 0, "refused": 0}
    for number in range(cases):
        case = KINDS[kind](rng, types_of(kind)[number % len(types_of(kind))])
        isa = isas[-1 - number % len(isas)]
        guarded = [Guarded(case, place, memory) for place in ("start", "end")]
        for text, changes in mutants(case):
            print(f"{number} {isa}: {text} of {case.fields}", file=sys.stderr, flush=True)
            try:
                faults = [each.run(isa, changes) for each in guarded]
            except REFUSALS as error:
                counts["refused"] += 1
                if not changes:
                    failures.append(f"{case.fields}: refused: {error}")
                continue
            counts["taken"] += bool(changes)
            failures += [f"{text} of {case.fields}: {fault}" for fault in faults if fault]
    print(json.dumps({"failures": failures, **counts}))


def stray(where: str, isa: str) -> None:
    """Step over a guard page, to show that it is there."""
    case = KINDS["copying"](np.random.default_rng(1), "f32")
    guarded = Guarded(case, "end", arenas())
    which = int(where == "input")
    # The loops are told a wrong size.
    laid = case.arrays[which]
    laid.content = np.zeros(laid.content.size + 4096, np.uint8)
    grown = [*guarded.arrays]
    size = laid.content.size
    address = guarded.buffers[which].address
    grown[which] = np.frombuffer((ctypes.c_char * size).from_address(address), np.uint8)
    name = ("dst", "src")[which]
    shape = tuple(case.fields["dims"])
    moved = next(d for d, n in enumerate(shape) if n > 1)
    strides = list(case.fields[name])
    more = 4096 // (shape[moved] - 1) // 4 * 4
    strides[moved] += more if strides[moved] >= 0 else -more
    case.run(isa, 1, grown, **{name: strides})


if __name__ == "__main__":
    if sys.argv[1] == "stray":
        stray(*sys.argv[2:])
    else:
        main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
