"""Fill the memory of networks before each run, so that bytes that no step writes are seen.

Each room whose tests run networks installs this in its ``conftest.py``, so that it also works when
the room is run alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pplconv.network.compiled import Compiled
from pplconv.network.storage import Array

# All ones are NaN in every floating-point type. 255 and -1 are common integer results, so integer
# outputs get another byte.
_NAN, _OTHER = 0xFF, 0xA5
_run = Compiled._run


def _poisoned(
    self: Compiled, frame: object, arrays: Sequence[Array], seconds: Array | None
) -> None:
    memory = np.frombuffer(frame, np.uint8)  # type: ignore[call-overload]
    memory.fill(_NAN)
    # A view of the frame would outlive it.
    del memory
    for array in arrays[len(self.inputs) :]:
        array.reshape(-1).view(np.uint8).fill(_NAN if array.dtype.kind == "f" else _OTHER)
    _run(self, frame, arrays, seconds)  # type: ignore[arg-type]


def install() -> None:
    """Fill the memory of all runs in this process from now on."""
    Compiled._run = _poisoned  # type: ignore[method-assign]
