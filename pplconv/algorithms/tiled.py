"""Candidates of the GEMM nest: which tiles and blocks are worth an estimate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..machine import Machine
from ..problem import ConvProblem
from .nest import Nest, balanced, ceil_div, round_up


@dataclass(frozen=True)
class Surroundings:
    """What candidates depend on besides the problem.

    Parameters
    ----------
    machine : Machine
        Cache sizes.
    isa : str
        Instruction set of the kernels.
    tiles : mapping of int to int
        NR to the largest MR, of the kernels for the dtype and ISA.
    lanes : int
        Elements of a vector.
    threads : int
        Size of the team; decides segments only.
    """

    machine: Machine
    isa: str
    tiles: Mapping[int, int]
    lanes: int
    threads: int


def block_of_k(problem: ConvProblem, whole: int, budget: int) -> int:
    """Block the sum: all of it if that is short, else equal blocks of about `budget` bytes.

    Parameters
    ----------
    problem : ConvProblem
        Gives K and the element.
    whole : int
        A block is a multiple of this (the taps, where k runs through channels of taps).
    budget : int
        Bytes that one row of a block (one output channel's weights) may take.
    """
    k = problem.k
    longest = max(budget // problem.element, 1)
    # A sum a little too long is better left whole than cut into two passes over C.
    if k <= longest * 3 // 2:
        return k
    return balanced(k, longest, whole)


def row_tiles(rows: int, largest: int) -> list[int]:
    """Heights of tile worth trying: those that cut `rows` into equal parts, and the largest."""
    heights = {largest, min(rows, largest)}
    for panels in range(ceil_div(rows, largest), ceil_div(rows, largest) + 2):
        heights.add(max(1, min(largest, ceil_div(rows, panels))))
    return sorted(heights, reverse=True)


def candidates(
    problem: ConvProblem, around: Surroundings, algorithm: str, packed: bool
) -> Iterator[Nest]:
    """Yield the nests worth an estimate."""
    orientations = ("channels",) if problem.layout == "NHWC" else ("pixels", "channels")
    for orientation in orientations:
        for nr, largest in around.tiles.items():
            yield from _blocked(problem, around, algorithm, packed, orientation, nr, largest)


def _blocked(
    problem: ConvProblem,
    around: Surroundings,
    algorithm: str,
    packed: bool,
    orientation: str,
    nr: int,
    largest: int,
) -> Iterator[Nest]:
    by_pixels = orientation == "pixels"
    channels_last = problem.layout == "NHWC"
    oc = problem.oc // problem.groups
    area = problem.oh * problem.ow
    pixels = max(1, area * problem.batch if channels_last else area)
    images = 1 if channels_last else max(1, problem.batch)
    whole = problem.kh * problem.kw if packed and not channels_last else 1
    l1, l2 = around.machine.l1d_bytes, around.machine.l2_bytes
    k_block = block_of_k(problem, whole, l1 // 24)
    if packed and not channels_last:
        k_block = round_up(k_block, whole)
    per_pixel = k_block * problem.element
    # Packed pixels take up to half of L2; the rest is for weights on their way through.
    most_pixels = max(l2 // 2 // per_pixel, nr)
    if not by_pixels and not channels_last:
        most_pixels = min(most_pixels, max(l2 // 4 // (min(oc, 512) * problem.element), 16))
    rows = oc if by_pixels else min(pixels, most_pixels)
    for mr in row_tiles(rows, largest):
        unit = nr if by_pixels else mr
        share = images * problem.groups
        pieces = 1 if share % around.threads == 0 else around.threads
        hw_segment = balanced(pixels, most_pixels, unit, pieces)
        width = mr if by_pixels else nr
        oc_segment = round_up(oc, width)
        if not by_pixels and not channels_last:
            oc_segment = balanced(oc, 512, width)
        tasks = share * ceil_div(pixels, hw_segment) * ceil_div(oc, oc_segment)
        if tasks < around.threads:
            oc_segment = balanced(oc, oc_segment, width, ceil_div(around.threads, tasks))
        group_segment = balanced(
            problem.groups, max(1, problem.groups // (4 * around.threads)), 1, 1
        )
        yield Nest(
            problem, algorithm, packed, orientation, around.lanes, mr, nr, k_block,
            oc_segment, hw_segment, group_segment, by_pixels,
        )  # fmt: skip
