"""Types of the steps after the activation."""

from typing import Any

class Finish:
    arguments: tuple[Any, ...]

    def __new__(cls, dtype: str, scale: Any = None, offset: Any = None) -> Finish: ...
