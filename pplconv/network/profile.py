"""`NetworkProfile`: what `InferenceSession.profile` measured, as a table, bars, a page."""

from __future__ import annotations

import os
import time
from dataclasses import fields
from functools import cached_property
from typing import Any

from .. import _version, planner
from .._records import record
from ..machine import ceilings as roofs
from ..machine import current as current_machine
from ..planner.roofs import clock
from ..schedules.team import largest_team
from ..wisdom import wisdom_files
from .programs import Program
from .report import NetworkPlan, plan_of

__all__ = ["NetworkProfile"]


@record(frozen=True)
class NetworkProfile(NetworkPlan):
    """A network's plan with measured times: a `NetworkPlan` with these fields besides.

    Parameters
    ----------
    model : str
        Name of the file, or of the graph.
    run_seconds : float
        Shortest time of a whole run, in which steps follow one another without a pause.
    threads : int
        How many threads may compute at once.
    """

    model: str = ""
    run_seconds: float = 0.0
    threads: int = 1

    @cached_property
    def ceilings(self) -> roofs.Ceilings:
        """The roofs: FMA peak and speed of memory, measured at first use, in about a second.

        Raises
        ------
        MemoryError
            If there is no room for the arrays that are copied.
        """
        isa = planner.default_context("f32").isa
        return roofs.measure(isa, self.threads, current_machine())

    def html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Draw a page: steps and memory over time, a roofline, estimates beside measured times.

        Parameters
        ----------
        path : str or os.PathLike, optional
            Where to write it, too; a file that is there is replaced at once.

        Returns
        -------
        str
            HTML without scripts, which fetches nothing.

        Raises
        ------
        OSError
            If the file cannot be written.
        MemoryError
            As of `ceilings`.
        """
        from .profiling import page

        content = page.page(self._measured())
        if path is not None:
            wisdom_files.replace(os.path.realpath(os.fspath(path)), content.encode(), 0o666)
        return content

    def record(self) -> dict[str, Any]:
        """Give all measurements as numbers, texts, lists and dicts, for JSON.

        Sizes are in bytes, times in seconds.
        """
        from .profiling import measured

        return measured.record(self._measured())

    def _measured(self) -> Any:
        from .profiling.measured import Profile

        machine = current_machine()
        plan = NetworkPlan(**_values(self))
        return Profile(
            self.model, plan, self.run_seconds, self.ceilings, machine.cpu_name or machine.arch,
            _version.__version__, clock(self.ceilings),
        )  # fmt: skip

    def __str__(self) -> str:
        return f"{super().__str__()}\nwhole run: {self.run_seconds * 1e3:.3f} ms"


def _values(plan: NetworkPlan) -> dict[str, Any]:
    return {entry.name: getattr(plan, entry.name) for entry in fields(NetworkPlan)}


def profiled(
    program: Program,
    fired: dict[str, list[str]],
    inputs: list[Any],
    model: str,
    repeats: int,
    threads: int,
) -> NetworkProfile:
    """Time the steps of a network, each by itself, and whole runs.

    Parameters
    ----------
    program : Program
        The network.
    fired : dict
        Rules that rewrote its graph.
    inputs : list of Item
        The arrays, or other values, that it takes.
    model : str
        Its name.
    repeats : int
        Runs of either kind.
    threads : int
        How many threads may compute at once.
    """
    outputs = program.compute(inputs)
    times = zip(*(program.time(inputs) for _ in range(repeats)), strict=True)
    best = [min(each) for each in times]
    whole = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        program.compute(inputs, outputs)
        whole = min(whole, time.perf_counter() - begin)
    plan = plan_of(program, fired, best)
    return NetworkProfile(
        **_values(plan), model=model, run_seconds=whole, threads=largest_team(threads)
    )
