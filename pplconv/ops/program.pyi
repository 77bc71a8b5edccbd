"""Types of what Python sees of a compiled program."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

class Frame: ...

class Program:
    steps: tuple[tuple[Any, dict[str, Any]], ...]
    arena_bytes: int
    scratch_bytes: int
    threads: int
    most: int
    external_bytes: list[int]

    def __new__(
        cls,
        steps: Sequence[tuple[Any, dict[str, Any]]],
        arena_bytes: int,
        external_bytes: list[int],
        threads: int,
        most: int,
        most_scratch: int | None = None,
        repeats: Sequence[tuple[Any, ...]] = (),
        inputs: int = 0,
    ) -> Program: ...
    def frame(self) -> Frame: ...
    def give_back(self, frame: Frame) -> None: ...
    def run(
        self,
        frame: Frame,
        externals: list[npt.NDArray[Any] | None],
        begin: int,
        end: int,
        seconds: npt.NDArray[np.float64] | None = None,
        most: int = ...,
    ) -> int: ...
