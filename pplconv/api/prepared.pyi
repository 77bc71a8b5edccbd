"""Types of what the modules of networks see of a plan made ready."""

from typing import Any

from ..planner import Plan
from ..problem import Problem
from .activation import Activation as Description

class Prepared:
    problem: Problem
    plan: Plan
    fields: dict[str, Any]

    def __new__(
        cls, problem: Problem, plan: Plan, fields: dict[str, Any], most: int
    ) -> Prepared: ...

class Activation:
    def __new__(cls, description: Description, dtype: str) -> Activation: ...

class PackedWeights:
    packing: str

    def __new__(cls, prepared: Prepared, weight: Any, packed: Any = None) -> PackedWeights: ...
