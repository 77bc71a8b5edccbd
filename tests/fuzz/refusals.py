"""What is wrong with calls of every kind: arguments, and ``out``."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tests.api import test_errors
from tests.fuzz.case import Case, Spoiled


@lru_cache(maxsize=8)
def _wrong_arguments(names: frozenset[str]) -> list[test_errors.Case]:
    """Spoiled arguments that do not depend on the problem."""

    def plain(value: Any) -> bool:
        # Slopes in a list may be as many as the channels.
        return not (isinstance(value, tuple) and any(isinstance(item, list) for item in value))

    return [
        case
        for key, case in test_errors.CASES.items()
        if len(case.changes) == 1
        and set(case.changes) <= names
        and all(map(plain, case.changes.values()))
        # Those whose values may be right for another problem.
        and not key.startswith(("groups that", "groups for", "dilated"))
    ]


def spoil(
    case: Case, operands: dict[str, Any], arguments: dict[str, Any], out: Any
) -> Spoiled | None:
    """Spoil a call in place; None if that is not possible with its problem."""
    what = case.spoiled or ""
    kind, _, number = what.partition(" ")
    if kind == "argument":
        return _spoil_argument(int(number), case.refusals.arguments(case), arguments, out)
    if kind == "out":
        return _spoil_out(what, case, operands)
    return case.refusals.spoil(case, what, operands, out)


def _spoil_argument(
    number: int, names: frozenset[str], arguments: dict[str, Any], out: Any
) -> Spoiled:
    """Spoil one of the arguments `names`, as the table in ``test_errors`` does."""
    every = _wrong_arguments(names)
    wrong = every[number % len(every)]
    arguments.update(wrong.changes)
    name = next(iter(wrong.changes))
    # Another argument may be refused first where the two are checked together.
    return Spoiled(f"spoiled {name}", wrong.names, wrong.error, out)


def _spoil_out(what: str, case: Case, operands: dict[str, Any]) -> Spoiled | None:
    """Give an `out` that is refused; None if the case has none of that sort."""
    shape, dtype = case.output_shape, np.dtype(case.problem.dtype)
    size = int(np.prod(shape))
    error: Any = ValueError
    out: Any
    if what == "out dtype":
        other = dtype.newbyteorder() if dtype.itemsize > 1 else np.int16
        out, error = np.zeros(shape, other), TypeError
    elif what == "out shape":
        out = np.zeros((*shape, 1), dtype)
    elif what == "out strides":
        if not shape:
            return None
        out = np.zeros((*shape[:-1], 2 * shape[-1] + 1), dtype)[..., 1::2]
        if out.flags.c_contiguous:
            return None
    elif what == "out read-only":
        out = np.zeros(shape, dtype)
        out.flags.writeable = False
    elif what == "out unaligned":
        memory = np.zeros((size + 2) * dtype.itemsize, np.uint8)
        start = 1 + -memory.ctypes.data % dtype.itemsize
        out = np.ndarray(shape, dtype, memory, start)
        if not size or out.flags.aligned:
            return None
    elif what.startswith("out overlaps "):
        name = what.removeprefix("out overlaps ")
        if operands[name] is None:
            return None
        x = np.asarray(operands[name])
        if not x.size or not size:
            return None
        # An operand that does not lie as kernels read it is copied, and still may not overlap.
        start = 1 if case.forms[name] == "unaligned" else 0
        memory = np.zeros(max(start + x.nbytes, size * dtype.itemsize), np.uint8)
        operands[name] = memory[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
        operands[name][...] = x
        out = memory[: size * dtype.itemsize].view(dtype).reshape(shape)
    else:
        out, error = [0.0], TypeError
    return Spoiled(f"spoiled {what}", "out", error, out)
