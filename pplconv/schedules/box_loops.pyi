"""Types of calls whose results are as many as the data say."""

from typing import Any

import numpy as np
import numpy.typing as npt

def suppress(
    corners: npt.NDArray[np.float32], threshold: Any, most: int, isa: str
) -> npt.NDArray[np.int64]: ...
def top(
    rows: npt.NDArray[Any], count: int, kind: int, dtype: str, isa: str
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]: ...
