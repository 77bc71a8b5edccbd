"""Types of what the modules of networks see of a plan made ready."""

from typing import Any

from ..arguments.activation import Activation as Description
from ..planner import Plan
from ..problem import Problem
from ..schedules.attention_loops import Attention
from ..schedules.elementwise_loops import Elementwise
from ..schedules.packing import Pack

class Prepared:
    problem: Problem
    plan: Plan
    fields: dict[str, Any]

    def __new__(
        cls, problem: Problem, plan: Plan, fields: dict[str, Any], most: int
    ) -> Prepared: ...
    @property
    def packed_bytes(self) -> int: ...
    def pack_work(self) -> Pack: ...
    def attention_work(
        self,
        sums: Prepared,
        before: list[Elementwise],
        behind: list[Elementwise],
        fields: dict[str, Any],
        isa: str,
    ) -> Attention: ...

class Activation:
    description: Description
    dtype: str

    def __new__(cls, description: Description, dtype: str) -> Activation: ...

class PackedWeights:
    prepared: Prepared
    packing: str
    weight: Any

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __new__(
        cls,
        prepared: Prepared,
        weight: Any,
        packed: Any = None,
        keep: Any = None,
        consume: bool = False,
    ) -> PackedWeights: ...
