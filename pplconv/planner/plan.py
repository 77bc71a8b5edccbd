"""A plan: how one problem is computed."""

from __future__ import annotations

from dataclasses import replace
from typing import TextIO

from .._records import record
from ..schedules.team import largest_team
from .plan_fields import PlanFields


@record(frozen=True)
class Plan(PlanFields):
    """How one convolution is computed, decided before the first run.

    Block sizes and the team never change a result; algorithm, its variant and the ISA may
    change its last bits.

    Parameters
    ----------
    problem : str
        The problem in one line: a convolution as oneDNN's benchdnn writes it, a matrix product as
        ``"m64n512k256"``.
    dtype, layout : str
        Of input and output; a blocked layout with its block, ``"NCHW16c"``. For a matrix product
        which index runs fastest in each matrix: ``"mk.nk.mn"`` is that of `Linear`.
    compute : str
        Kind of product, which is the type of the arithmetic where floats are added up: `dtype`, or
        the other one of ``"f16"`` and ``"f32"``; ``"bf16"``, or integers by ``"u8"``, ``"s8"`` or
        ``"s16"``, with ``t`` by tile registers, ``m`` by instructions for matrices and ``p`` by
        pairs whose sums fit 16 bits.
    algorithm : str
        A name that ``algorithm=`` takes.
    bits : str
        What decides the bits of the result: method and order of sums, never the team.
    isa : str
        Instruction set of the kernels.
    kernel : str
        Symbol of the main microkernel.
    blocks : mapping of str to int or str
        Tile, blocks and segments, in elements, and the order of loops; the names depend on
        the algorithm.
    tasks, threads : int
        Tasks of the parallel loop; size of the team.
    packing : str
        Format of the packed weights: panel width and order of k.
    packed_weight_bytes : int
        Size of the packed weights, in bytes.
    scratch_bytes : int
        Scratch memory of the whole team, in bytes.
    error_bound : float
        Stated bound of the error against float64, relative to the output's largest magnitude.
    search : str
        Where the choice comes from: ``"estimate"``, ``"measure"``, ``"exhaustive"`` or
        ``"wisdom"``.
    cost : mapping of str to float
        The estimate, term by term, in cycles of the whole team's wall time.
    runners_up : tuple of str
        The next best candidates, best first, with their time (measured or estimated) as a
        multiple of the choice's.
    seconds : float or None
        Best time of a run, where the choice was measured.
    destination : str
        Type of the output, where it is not that of the input.
    predicted_gain, measured_gain : float or None
        Of sparse weights, on one thread: time of the best dense candidate as a multiple of that of
        the best one that leaves zeros out, by the estimate, and by a search, where one has timed
        both. Below 1 where dense ones are faster.
    """

    def show(
        self, measure: bool = False, *, width: int | None = None, file: TextIO | None = None
    ) -> None:
        """Print bars: the terms of the estimate beside the roofs, and beside what a run takes.

        Parameters
        ----------
        measure : bool, optional
            Run the plan on random arrays, and measure the FMA units and the memory of this machine;
            takes about two seconds. Otherwise the roofs are those of the cost model, and the run is
            the one that a search has timed, if one has.
        width : int, optional
            Columns; by default those of the terminal.
        file : file object, optional
            Where to print; standard output by default.

        Raises
        ------
        ValueError
            If the plan is to be measured, and this process has no such candidate: it was made for
            another machine, or for matrices that lie in another way than those of `Linear`.
        RuntimeError
            If the plan's team is not to be had.
        """
        from .showing import show

        show(self, measure, width, file)

    def _repr_html_(self) -> str:
        from .showing import page_part

        return page_part(self)


def as_run_here(plan: Plan) -> Plan:
    """Return the plan with the team that a call of this thread would get now.

    Parameters
    ----------
    plan : Plan
        As it was made.

    Returns
    -------
    Plan
        With the threads that pins and limits of OpenMP leave, other calls not counted.
    """
    threads = largest_team(plan.threads)
    return plan if threads == plan.threads else replace(plan, threads=threads)
