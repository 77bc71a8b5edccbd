"""An output that shares memory with an operand is refused by name, and nothing is written."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import pplconv
from tests.api.brain_cases import BF16
from tests.api.buffers import untouched

F32, U8, S8, S32 = np.float32, np.uint8, np.int8, np.int32


def prepared(kind, input, weight, bias, residual, out, **settings):
    return kind(weight, bias, **settings)(input, residual, out)


def qconv2d(x, w, bias, residual, out):
    return pplconv.qconv2d(
        x, 0.02, 3, w, 0.01, 0, 0.5, U8(4), bias, residual=residual, residual_scale=0.25, out=out
    )


IMAGES = {"input": (2, 6, 9, 10), "weight": (8, 6, 3, 3), "bias": 8, "residual": (2, 8, 7, 8)}
TURNED = {"input": (2, 6, 5, 7), "weight": (6, 4, 3, 3), "bias": 8, "residual": (2, 8, 11, 15)}
BYTES = {"x": IMAGES["input"], "w": IMAGES["weight"], "bias": 8, "residual": IMAGES["residual"]}
MATRICES = {"a": (4, 5), "b": (5, 8)}
STRIDE = {"stride": 2, "groups": 2}
VOLUMES = {"input": (2, 6, 4, 5, 7), "weight": (8, 6, 2, 3, 3), "bias": 8,
           "residual": (2, 8, 3, 3, 5)}  # fmt: skip
TURNED_VOLUMES = {"input": (2, 6, 2, 3, 4), "weight": (6, 4, 2, 3, 3), "bias": 8,
                  "residual": (2, 8, 4, 7, 9)}  # fmt: skip
TURNED_SIGNALS = {"input": (2, 6, 5), "weight": (6, 4, 3), "bias": 8, "residual": (2, 8, 11)}
# A function, its operands, their types where not all have one, and type and shape of the output.
CALLS = {
    "conv2d": (pplconv.conv2d, IMAGES, {}, F32, IMAGES["residual"]),
    "conv2d of bfloat16": (pplconv.conv2d, IMAGES, {}, BF16, IMAGES["residual"]),
    "Conv2d": (partial(prepared, pplconv.Conv2d), IMAGES, {}, F32, IMAGES["residual"]),
    "conv_transpose2d": (
        partial(pplconv.conv_transpose2d, **STRIDE), TURNED, {}, F32, TURNED["residual"],
    ),
    "ConvTranspose2d": (
        partial(prepared, pplconv.ConvTranspose2d, **STRIDE), TURNED, {}, F32, TURNED["residual"],
    ),
    "conv3d": (pplconv.conv3d, VOLUMES, {}, F32, VOLUMES["residual"]),
    "Conv3d": (partial(prepared, pplconv.Conv3d), VOLUMES, {}, F32, VOLUMES["residual"]),
    "conv_transpose3d": (
        partial(pplconv.conv_transpose3d, **STRIDE), TURNED_VOLUMES, {}, F32,
        TURNED_VOLUMES["residual"],
    ),
    "conv_transpose1d": (
        partial(pplconv.conv_transpose1d, **STRIDE), TURNED_SIGNALS, {}, F32,
        TURNED_SIGNALS["residual"],
    ),
    "qconv2d": (qconv2d, BYTES, {"w": S8, "bias": S32}, U8, IMAGES["residual"]),
    "matmul": (pplconv.matmul, {**MATRICES, "residual": (4, 8)}, {}, F32, (4, 8)),
    "matmul of bfloat16": (pplconv.matmul, {**MATRICES, "residual": (4, 8)}, {}, BF16, (4, 8)),
    "matmul_integer": (pplconv.matmul_integer, MATRICES, {"a": U8, "b": U8}, S32, (4, 8)),
}  # fmt: skip
# A layer has packed its weights: their array is free for anything.
OPERANDS = [
    pytest.param(name, operand, marks=[pytest.mark.narrow] if "bfloat16" in name else [])
    for name, (_, shapes, *_) in CALLS.items()
    for operand in shapes
    if not (name.startswith("Conv") and operand in ("weight", "bias"))
]


@pytest.mark.parametrize("distance", ["first bytes", "last bytes", "whole"])
@pytest.mark.parametrize(("name", "operand"), OPERANDS)
def test_overlapping_outputs_are_refused(name, operand, distance):
    call, shapes, dtypes, dtype, shape = CALLS[name]
    arrays = {key: np.zeros(size, dtypes.get(key, dtype)) for key, size in shapes.items()}
    given, itemsize = arrays[operand], np.dtype(dtype).itemsize
    size, shared = int(np.prod(shape)) * itemsize, given.nbytes
    memory = np.zeros(size + 2 * shared, U8)
    step = max(itemsize, given.itemsize)
    first = {"first bytes": step, "last bytes": shared + size - step, "whole": shared}[distance]
    arrays[operand] = memory[first : first + shared].view(given.dtype).reshape(given.shape)
    out = memory[shared : shared + size].view(dtype).reshape(shape)
    assert np.shares_memory(out, arrays[operand])
    with untouched(memory), pytest.raises(ValueError, match=f"^out must not overlap {operand}"):
        call(**arrays, out=out)
