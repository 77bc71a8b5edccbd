"""What must be refused: calls that are spoiled, and problems that cannot be served as asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

import test_errors
from fuzz.cases import Case
from reference import explicit_padding, pair

# What a call may name besides arrays, of the spoiled arguments in ``test_errors``.
_ARGUMENTS = {
    "stride", "padding", "dilation", "groups", "activation", "layout", "algorithm", "tolerance",
    "threads", "max_workspace",
}  # fmt: skip


@dataclass(frozen=True)
class Reason:
    """Why a call is refused.

    Parameters
    ----------
    text : str
        For the figures.
    names : str
        The arguments of which the message must name one, as a pattern.
    error : type
        What is raised.
    """

    text: str
    names: str
    error: Any = ValueError


@dataclass(frozen=True)
class Spoiled(Reason):
    """What is wrong with a call, and the ``out`` that it is made with."""

    out: Any = field(default=None, repr=False)


@lru_cache(maxsize=1)
def _arguments() -> list[tuple[str, test_errors.Case]]:
    """Spoiled arguments that do not depend on the problem."""

    def plain(value: Any) -> bool:
        # Slopes in a list may be as many as the channels.
        return not (isinstance(value, tuple) and any(isinstance(item, list) for item in value))

    return [
        (key, case)
        for key, case in test_errors.CASES.items()
        if len(case.changes) == 1
        and set(case.changes) <= _ARGUMENTS
        and all(map(plain, case.changes.values()))
        # Those whose values may be right for another problem.
        and not key.startswith(("groups that", "groups for", "dilated"))
    ]


def spoil(
    case: Case, operands: dict[str, Any], arguments: dict[str, Any], out: Any
) -> Spoiled | None:
    """Spoil a call in place; None if that is not possible with this problem."""
    what = case.spoiled or ""
    kind, _, number = what.partition(" ")
    if kind == "argument":
        every = _arguments()
        _key, wrong = every[int(number) % len(every)]
        arguments.update(wrong.changes)
        name = next(iter(wrong.changes))
        # Another argument may be refused first where the two are checked together.
        return Spoiled(f"spoiled {name}", wrong.names, wrong.error, out)
    if kind == "out":
        return _spoil_out(what, case, operands)
    p = case.problem
    other = "float32" if p.dtype == "float64" else "float64"
    if what == "input dtype":
        operands["input"] = np.asarray(operands["input"]).astype("i4")
    elif what == "input dimensions":
        x = np.asarray(operands["input"])
        operands["input"] = x.reshape((1,) * (6 - x.ndim if case.block else 5 - x.ndim) + x.shape)
    elif what == "weight dtype":
        operands["weight"] = np.asarray(operands["weight"]).astype(other)
        return Spoiled(f"spoiled {what}", "weight|input|bias", TypeError, out)
    elif what == "weight dimensions":
        operands["weight"] = np.asarray(operands["weight"])[0]
    elif what == "bias shape":
        operands["bias"] = np.zeros(p.out_channels + 1, p.dtype)
    elif what == "bias dtype":
        operands["bias"] = np.zeros(p.out_channels, other)
    elif what == "residual shape":
        operands["residual"] = np.zeros(
            (*case.output_shape[:-1], case.output_shape[-1] + 1), p.dtype
        )
    elif what == "residual dtype":
        operands["residual"] = np.zeros(case.output_shape, other)
    else:
        raise KeyError(what)
    name, of = what.split()
    error = TypeError if of == "dtype" else ValueError
    return Spoiled(f"spoiled {what}", f"{name}|weight" if name == "input" else name, error, out)


def _spoil_out(what: str, case: Case, operands: dict[str, Any]) -> Spoiled | None:
    shape, dtype = case.output_shape, np.dtype(case.problem.dtype)
    error: Any = ValueError
    out: Any
    if what == "out dtype":
        out, error = np.zeros(shape, dtype.newbyteorder()), TypeError
    elif what == "out shape":
        out = np.zeros((*shape, 1), dtype)
    elif what == "out strides":
        out = np.zeros((*shape[:-1], 2 * shape[-1] + 1), dtype)[..., 1::2]
        if out.flags.c_contiguous:
            return None
    elif what == "out read-only":
        out = np.zeros(shape, dtype)
        out.flags.writeable = False
    elif what == "out unaligned":
        size = int(np.prod(shape)) * dtype.itemsize
        memory = np.zeros(size + 2 * dtype.itemsize, np.uint8)
        start = 1 + -memory.ctypes.data % dtype.itemsize
        out = np.ndarray(shape, dtype, memory, start)
        if not size or out.flags.aligned:
            return None
    elif what == "out overlaps input":
        x = np.asarray(operands["input"])
        memory = np.zeros(max(x.size, int(np.prod(shape))), dtype)
        if not x.size or not np.prod(shape):
            return None
        operands["input"] = memory[: x.size].reshape(x.shape)
        operands["input"][...] = x
        out = memory[: int(np.prod(shape))].reshape(shape)
    else:
        out, error = [0.0], TypeError
    return Spoiled(f"spoiled {what}", "out", error, out)


def predicted(case: Case) -> Reason | None:
    """Say why a call that is not spoiled cannot be served; None if it must be.

    Tolerance and workspace are not looked at: what they leave depends on the candidates.
    """
    p = case.problem
    stride, dilation = pair(p.stride), pair(p.dilation)
    if case.block and p.batch is None and p.image[0] == p.in_channels:
        # What else is wrong may be found first.
        return Reason("blocks without a batch may be NCHW", "input|input_shape|padding|weight")
    if p.padding == "same" and stride != (1, 1):
        return Reason('padding="same" with a stride', "padding")
    pads = explicit_padding(p.padding, p.image, p.kernel, stride, dilation)
    for size, pad, k, d in zip(p.image, pads, p.kernel, dilation, strict=True):
        if size + sum(pad) < d * (k - 1) + 1:
            return Reason("kernel outgrows the image", "weight")
    icg, ocg = p.in_channels // p.groups, p.out_channels // p.groups
    ragged = case.block and p.groups > 1 and (icg % case.block or ocg % case.block)
    dense = stride == dilation == (1, 1)
    square = p.kernel in ((3, 3), (5, 5))
    pointwise = p.kernel == stride == (1, 1) and pads == ((0, 0), (0, 0))
    serves = {
        "auto": True,
        "depthwise": icg == 1,
        "pointwise": pointwise and not ragged,
        "winograd": dense and square and not ragged,
        "direct": not ragged,
        "im2col": True,
    }
    if not serves[p.options["algorithm"]]:
        return Reason("another algorithm is needed", "algorithm")
    return None
