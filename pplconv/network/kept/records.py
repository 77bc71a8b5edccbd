"""A compiled program as a value that a file can hold, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import planner
from ..compiled import Compiled, program_of
from ..interface import Interface
from ..plan_settings import Settings
from ..storage import Buffer, Step, Value
from ..texts import printable
from .written_objects import NotKept, Reader, Writer

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["read_program", "written_program"]


def written_program(
    key: Any, compiled: Compiled, fired: dict[str, list[str]], team: int, advice: str,
    blocks: list[npt.NDArray[np.uint8]],
) -> dict[str, Any]:  # fmt: skip
    """Describe a compiled program.

    Parameters
    ----------
    key : hashable
        As of `programs.key_of`: shapes, constants, team.
    compiled : Compiled
        The program.
    fired : dict
        Rules that rewrote its graph.
    team : int
        Size of the team that it was compiled for; the work may pay for fewer threads.
    advice : str
        What a lower precision would gain, in a line.
    blocks : list of ndarray of uint8
        Receives its weights and constants.

    Raises
    ------
    ValueError
        If a step runs in Python, by a function that no file can hold; the message names it.
    """
    writer = Writer(blocks)
    steps = [_written(step, writer) for step in compiled.steps]
    root = {
        "steps": steps, "repeats": compiled.repeats, "groups": compiled.groups,
        "arena": compiled.program.arena_bytes, "sizes": compiled.program.external_bytes,
        "inputs": compiled.inputs, "outputs": compiled.outputs, "times": compiled.times,
        "fired": fired, "advice": advice, "threads": compiled.program.threads, "team": team,
    }  # fmt: skip
    described = {name: each if name == "steps" else writer.value(each)
                 for name, each in root.items()}  # fmt: skip
    return {"key": Writer(blocks).value(key), "objects": writer.objects, **described}


def _written(step: Step, writer: Writer) -> Any:
    try:
        return writer.value(step)
    except NotKept as error:
        names = ", ".join(map(repr, step.nodes)) or "no node"
        raise ValueError(
            f"model: {printable(step.kind)} of {names} cannot be kept in a file: {error}"
        ) from error


def read_program(
    described: Mapping[str, Any], blocks: Sequence[npt.NDArray[np.uint8]], settings: Settings,
    interface: Interface,
) -> tuple[Compiled, dict[str, list[str]]]:  # fmt: skip
    """Compile a program that `written_program` described.

    Parameters
    ----------
    described : mapping
        Its description.
    blocks : sequence of ndarray of uint8
        Of its file.
    settings : Settings
        Team, and most scratch, of its runs.
    interface : Interface
        Of the network.

    Raises
    ------
    Exception
        Of any kind, if the description is no program.
    """
    most = planner.share(settings.threads)
    reader = Reader(blocks, described["objects"], most)

    def value(name: str) -> Any:
        return reader.value(described[name])

    steps = [reader.value(step) for step in described["steps"]]
    repeats, inputs, outputs = value("repeats"), value("inputs"), value("outputs")
    sizes, times = value("sizes"), value("times")
    if not all(isinstance(step, Step) for step in steps) or len(sizes) != len(inputs + outputs):
        raise ValueError("a program has steps, and a size for each of the caller's arrays")
    values = [value for step in steps for value in (*step.reads, *step.writes)]
    if not all(isinstance(value, Value) and isinstance(value.buffer, Buffer) for value in values):
        raise ValueError("steps read and write arrays")
    known = {arg.name for arg in interface.inputs}, {arg.name for arg in interface.outputs}
    _check_arrays(inputs, times, known[0])
    _check_arrays(outputs, times, known[1])
    if {name for name, *_ in outputs} != known[1]:
        raise ValueError("a program gives other outputs than the network")
    team, threads = planner.team_size(settings.threads), value("threads")
    if threads < value("team"):
        team = min(team, threads)
    program, native = program_of(
        steps, repeats, value("arena"), sizes, team, most,
        settings.max_workspace, len(inputs),
    )  # fmt: skip
    compiled = Compiled(
        program, steps, native, inputs, outputs, frozenset(), None, {}, times, repeats,
        value("groups"), value("advice"),
    )  # fmt: skip
    return compiled, value("fired")


def _check_arrays(arrays: list[Any], times: int, known: set[str]) -> None:
    """Refuse arrays of a program that are not those of the network."""
    if type(times) is not int or times < 1:
        raise ValueError(f"a program runs {times!r} times")
    for name, shape, dtype in arrays:
        sizes = all(type(size) is int and 0 <= size < 1 << 47 for size in shape)
        if name not in known or not sizes or dtype.hasobject:
            raise ValueError(f"a program has an array {name!r} of shape {shape!r}")
        if times > 1 and shape[0] % times:
            raise ValueError(f"a program runs {times} times for {shape[0]} images")
