"""Types of the planner's stop watch."""

from typing import Any

import numpy as np

class Trial:
    def __new__(
        cls,
        fields: dict[str, Any],
        isa: str,
        weight: np.ndarray[Any, Any],
        epilogue: str = "none",
        packed: Trial | None = None,
    ) -> Trial: ...
    @property
    def whole(self) -> bool: ...
    def seconds(
        self,
        x: np.ndarray[Any, Any],
        y: np.ndarray[Any, Any],
        runs: int = 1,
        cold: bool = False,
    ) -> float: ...
