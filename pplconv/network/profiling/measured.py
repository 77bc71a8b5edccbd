"""A measured network, and its steps grouped by kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...machine.ceilings import Ceilings
from ...planner.roofs import NOMINAL_HERTZ
from ..report import NetworkPlan, StepPlan

# Number of colours for kinds of steps; the last one is for all others.
COLOURS = 8
OTHERS = "other steps"


@dataclass(frozen=True)
class Profile:
    """The measurements of a network.

    Parameters
    ----------
    model : str
        Its name.
    plan : NetworkPlan
        Its steps, with seconds.
    run_seconds : float
        Time of a whole run, in which steps follow one another without a pause.
    ceilings : Ceilings
        Peak and bandwidths of the machine.
    machine, version : str
        CPU and version of the run.
    hertz : float
        Cycles a second, for the planner's estimates.
    """

    model: str
    plan: NetworkPlan
    run_seconds: float
    ceilings: Ceilings
    machine: str
    version: str
    hertz: float = NOMINAL_HERTZ

    @property
    def step_seconds(self) -> float:
        """Sum of the steps, each by itself."""
        return sum(step.seconds or 0.0 for step in self.plan.steps)

    @property
    def flops(self) -> int:
        """Floating-point operations of all convolutions and products."""
        return sum(step.flops for step in self.plan.steps)

    @property
    def moved(self) -> int:
        """Bytes that all steps read and write."""
        return sum(map(moved, self.plan.steps))


@dataclass(frozen=True)
class Group:
    """A group of steps.

    Parameters
    ----------
    name : str
        Name of the group.
    numbers : tuple of int
        Of the steps.
    seconds : float
        Their time.
    flops, moved : int
        Their operations, and the bytes that they read and write.
    """

    name: str
    numbers: tuple[int, ...]
    seconds: float
    flops: int
    moved: int


def moved(step: StepPlan) -> int:
    """Bytes that a step reads and writes, packed weights included."""
    return step.bytes + step.weight_bytes


def kind_of(step: StepPlan) -> str:
    """What a step is, in a few words: convolutions by algorithm, chains as what they are."""
    if step.host:
        return f"{step.kind} in Python"
    if "+" in step.kind:
        return "element-wise chain"
    return f"{step.kind} {step.method}".rstrip()


def groups(plan: NetworkPlan, name: Callable[[StepPlan], str]) -> list[Group]:
    """Group steps by name, the longest group first."""
    found: dict[str, list[int]] = {}
    for number, step in enumerate(plan.steps):
        found.setdefault(name(step), []).append(number)
    made = [_group(plan, text, numbers) for text, numbers in found.items()]
    return sorted(made, key=lambda group: -group.seconds)


def kinds(plan: NetworkPlan) -> list[Group]:
    """Kinds of steps, at most `COLOURS`: the shortest kinds are merged."""
    found = groups(plan, kind_of)
    if len(found) <= COLOURS:
        return found
    rest = sorted(number for group in found[COLOURS - 1 :] for number in group.numbers)
    return [*found[: COLOURS - 1], _group(plan, OTHERS, rest)]


def _group(plan: NetworkPlan, name: str, numbers: Sequence[int]) -> Group:
    steps = [plan.steps[number] for number in numbers]
    return Group(
        name, tuple(numbers), sum(step.seconds or 0.0 for step in steps),
        sum(step.flops for step in steps), sum(map(moved, steps)),
    )  # fmt: skip


def live_bytes(plan: NetworkPlan) -> list[int]:
    """Bytes of the arena that are in use during each step."""
    changes = [0] * (len(plan.steps) + 1)
    for buffer in plan.buffers:
        changes[buffer.first] += buffer.size
        changes[buffer.last + 1] -= buffer.size
    found, now = [], 0
    for change in changes[:-1]:
        now += change
        found.append(now)
    return found


def record(profile: Profile) -> dict[str, Any]:
    """Give the profile as numbers, texts, lists and dicts, for JSON.

    Sizes are in bytes, times in seconds.
    """
    plan = asdict(profile.plan)
    plan["inputs"] = {name: list(shape) for name, shape in profile.plan.inputs}
    for step, live in zip(plan["steps"], live_bytes(profile.plan), strict=True):
        step["live_bytes"] = live
    return {
        "format": 1,
        "pplconv": profile.version,
        "model": profile.model,
        "machine": profile.machine,
        "ceilings": asdict(profile.ceilings),
        "run_seconds": profile.run_seconds,
        "step_seconds": profile.step_seconds,
        "flops": profile.flops,
        "moved_bytes": profile.moved,
        "plan": plan,
    }
