from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

class KeptFilters:
    most: int
    most_bytes: int
    size: int
    def __init__(self, most: int, most_bytes: int) -> None: ...
    def __len__(self) -> int: ...
    def clear(self) -> None: ...

kept_filters: KeptFilters

def keeping(*kernels: str) -> Callable[[_Function], _Function]: ...
