"""Cost of a convolution or of a change of layout, for choices between plans."""

from __future__ import annotations

import math
from functools import lru_cache

from .. import config
from ..algorithms import CoreModel
from ..algorithms.core_model import CONVERT_OUT_CYCLES, CYCLES_PER_MICROSECOND
from ..machine.x86_identity import l3_share
from ..problem import Problem
from .estimating import Request, default_context
from .target import Target, here

# Cycles to transpose an element, in blocks that fit L1 (0.29 to 0.78 on a Zen 5).
TURN_CYCLES = 0.4
# Of L2: rows that steps hand to one another. Weights and what a prefetcher brings need the rest.
BAND_SHARE = 0.6
# The part of a core's share of L3 that bands take: neighbours take some of it, too (see
# benchmarks/measured/bands).
BAND_SHARE_L3 = 0.35
STAYS_SHARE = 0.25
# Products hide a part of the time in which their operands arrive.
HIDDEN = 0.75


@lru_cache(maxsize=1024)
def _least_cycles(request: Request, settings: config.Settings, target: Target) -> float:
    return request.ranked(1, settings=settings, only_best=True)[0].total


def least_cycles(problem: Problem, tolerance: float, max_workspace: int | None) -> float:
    """Estimate the cycles of the best candidate on one thread, with weights that are in no cache.

    Parameters
    ----------
    problem : Problem
        The problem to compute.
    tolerance : float
        Error that may be spent.
    max_workspace : int or None
        Bound of the scratch, in bytes.

    Returns
    -------
    float
        Infinite if no candidate serves the problem.
    """
    found = least_cycles_of(Request(problem, "auto", tolerance, 1, max_workspace, cold=True))
    return math.inf if found is None else found


def least_cycles_of(request: Request) -> float | None:
    """Estimate the cycles of the best candidate on one thread; None if none serves the request."""
    try:
        return _least_cycles(request, request.settings, request.target or here())
    except ValueError:
        return None


def kept_bytes() -> int:
    """Bytes that stay in the caches of one core from step to step."""
    machine = here().machine
    return max(l3_share(machine), machine.l2_share)


def band_bytes() -> list[int]:
    """Bytes of the arrays of neighbouring steps that stay in a core's L2, and in its share of L3.

    There is no share of L3 where it is not larger.
    """
    machine = here().machine
    near, far = int(BAND_SHARE * machine.l2_share), int(BAND_SHARE_L3 * l3_share(machine))
    return [near, far] if far > near else [near]


def staying_cycles(size: int, level: int) -> float:
    """Estimate the cycles that are saved where an array stays in a cache until it is read.

    Parameters
    ----------
    size : int
        Bytes of the whole array. A part of it stays in L2 in any case.
    level : int
        0 for L2, 1 for L3.
    """
    core = CoreModel.of(default_context("f32"))
    beyond = max(size - STAYS_SHARE * core.l2_bytes, 0)
    rate = core.l3_rate if level else core.l2_rate
    # A line is brought before it is written, written back, and brought again.
    return 3 * HIDDEN * beyond * max(1 / core.far_rate(2 * size) - 1 / rate, 0.0)


def narrowing_cycles(count: int, converted: float) -> float:
    """Estimate the cycles that a pass over numbers takes more as bfloat16 than as float32.

    Parameters
    ----------
    count : int
        Numbers that one thread reads or writes once.
    converted : float
        Cycles that a vector's conversion takes.

    Returns
    -------
    float
        Negative if the bytes that are saved outweigh that.
    """
    around = default_context("f32")
    core = CoreModel.of(around)
    rate = core.l2_rate if 4 * count <= core.l2_bytes // 2 else core.l3_rate
    return converted * count / around.lanes - 2 * count / rate


def converting_cycles(count: int) -> float:
    """Estimate the cycles of converting numbers between float32 and bfloat16, on one thread.

    Parameters
    ----------
    count : int
        Numbers in a step of their own.
    """
    around = default_context("f32")
    core = CoreModel.of(around)
    moved = 6 * count / core.far_rate(6 * count)
    return CYCLES_PER_MICROSECOND + max(CONVERT_OUT_CYCLES * count / around.lanes, moved)


def turning_cycles(shape: tuple[int, ...], element: int) -> float:
    """Estimate the cycles of bringing images from NCHW to NHWC, or back, on one thread.

    Parameters
    ----------
    shape : tuple of int
        N, C, H, W.
    element : int
        Bytes of an element.
    """
    around = default_context("f64" if element == 8 else "f32")
    count, size = math.prod(shape), element * math.prod(shape)
    moved = 2 * size / CoreModel.of(around).far_rate(2 * size)
    return CYCLES_PER_MICROSECOND + max(TURN_CYCLES * count, moved)
