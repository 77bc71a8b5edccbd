from typing import Any

import numpy as np
from numpy.typing import NDArray

def round_sums(sums: NDArray[Any], results: NDArray[Any], error: float) -> NDArray[np.int64]: ...
