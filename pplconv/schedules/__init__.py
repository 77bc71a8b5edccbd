"""The loops: a plan's work divided over a team, tiles packed, kernels called. No GIL.

=========================  =====================================================================
``loops_by_name``          `compile_plan`: the loops that a plan names
``base``                   `Schedule`: tasks, memory layout, types
``gemm_loops``             1x1 and tiled im2col through the GEMM microkernel
``direct_loops``           convolution without im2col, in place on NHWC and NCHWc
``plane_loops``            convolution of few channel planes, read in a padded slab
``sparse_loops``           sparse weights, packed as lists of terms
``winograd_loops``         pre-processing, products over all positions, post-processing
``depthwise_loops``        one input channel for each output channel; also of bytes, exact
``relayout``               NCHW to NCHWc and back
``team_loop``              the only parallel loop: phases of tasks, hooks of threads
``execute``                runs of a plan, for calls and trials: team, scratch, loops, time
``team``                   how many threads a call gets just now
=========================  =====================================================================

A plan's ``loops`` names the module that runs it. Only ``team_loop`` divides work over
threads, and no module of this folder computes with elements: kernels do that.

Importing this package loads none of these modules: `pplconv` itself imports ``team``, which loads
OpenMP's library, and nothing else of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import on_demand

if TYPE_CHECKING:
    from .base import Schedule
    from .loops_by_name import SCHEDULES, compile_plan

__all__ = ["SCHEDULES", "Schedule", "compile_plan"]

if not TYPE_CHECKING:
    __getattr__ = on_demand(
        __name__,
        {"SCHEDULES": "loops_by_name", "Schedule": "base", "compile_plan": "loops_by_name"},
    )
