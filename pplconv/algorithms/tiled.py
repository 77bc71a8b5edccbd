"""Candidates of the GEMM nest: which tiles and blocks are worth an estimate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ..problem import Problem
from .candidate import LINE, KernelKey, balanced, ceil_div, round_up, team_pieces
from .context import PlanContext
from .core_model import FEW_CHANNELS, STAYS, TILE_GROUPS, CoreModel, direct_sum_floor
from .nest import Nest
from .nest_blocking import BEFORE, BY_TASK, IN_PLACE, weight_panels
from .panels import Panels

# Planes that are read at once: as many streams as prefetchers follow well. Twice as many halve the
# passes over C, which pays if there are more output channels.
PLANE_STREAMS = 8
# A more even division is worth an estimate if the busiest thread has less than this share of the
# pixels that it has with tasks of whole tiles.
FEWER_PIXELS = 0.99
# Parts of L2 that a task may fill with what it packs of B.
L2_SHARES = (4, 2)


def row_tiles(rows: int, largest: int) -> set[int]:
    """Heights of tile worth trying: the largest, and the one that cuts `rows` into equal parts."""
    return {min(rows, largest), ceil_div(rows, ceil_div(rows, largest))}


def widths(channels: int, around: PlanContext) -> Iterator[tuple[int, int]]:
    """Yield each (NR, largest MR) worth trying for tiles whose vectors run over `channels`.

    If two widths cut the channels into equally many panels, the narrower tile has more rows.
    """
    seen = set()
    for nr, largest in sorted(around.tiles.items()):
        panels = ceil_div(channels, nr)
        if panels not in seen:
            seen.add(panels)
            yield nr, largest


def candidates(
    problem: Problem, around: PlanContext, algorithm: str, packed: bool
) -> Iterator[Nest]:
    """Yield the nests worth an estimate."""
    frame = _Frame(problem, around, algorithm, packed)
    panels = set()
    for nr, largest in sorted(around.tiles.items()):
        if not frame.matrix.prepacked:
            yield from frame.unpacked(nr, largest)
            continue
        if problem.block:
            # A wider tile that cuts blocks into as many panels has fewer rows.
            if (panel := frame.panels("channels", largest, nr)) in panels:
                continue
            panels.add(panel)
        if not (frame.matrix.a_in_rows or frame.matrix.c_in_rows):
            yield from frame.by_pixels(nr, largest)
        if not frame.is_narrow(nr, largest):
            yield from frame.by_channels(nr, largest)


class _Frame:
    """The numbers that all candidates of one problem and algorithm share."""

    def __init__(self, problem: Problem, around: PlanContext, algorithm: str, packed: bool) -> None:
        self.problem, self.around = problem, around
        self.algorithm, self.packed = algorithm, packed
        self.numerics = numerics = around.numerics
        self.element = numerics.operand_bytes
        self.weight = numerics.weight_bytes
        self.sum = numerics.sum_bytes
        self.matrix = matrix = problem.matrix
        self.in_rows = matrix.a_in_rows and matrix.c_in_rows and not problem.block
        self.oc = matrix.n
        self.pixels = max(1, matrix.m)
        self.share = max(1, matrix.images) * matrix.groups
        # What nests know of the problem and, by orientation and tile, what they know besides.
        self.of_problem = {
            "matrix": matrix, "oc": matrix.n, "pixels": matrix.m, "images": matrix.images,
            "in_rows": matrix.a_in_rows, "ic": problem.ic // problem.groups,
        }  # fmt: skip
        self.of_tiles: dict[tuple[str, int, int], dict[str, Any]] = {}
        # K is cut between channels if packed k runs through the taps of each channel, and between
        # taps if channels are gathered from blocks.
        self.whole = 1
        if packed and problem.block:
            self.whole = max(problem.ic // problem.groups, 1)
        elif packed and not matrix.a_in_rows:
            self.whole = problem.geometry.kh * problem.geometry.kw
        self.whole = math.lcm(self.whole, numerics.step)
        core = CoreModel.of(around)
        self.broadcasts = core.broadcasts
        self.cycles = direct_sum_floor(problem, around.lanes, core) / self.share
        self.l1 = around.machine.l1d_bytes
        self.l2 = around.machine.l2_share
        weights = self.oc * matrix.k * self.weight
        # The part of L2 for packed pixels; weights are streamed through the rest. Weights of a
        # large matrix come from memory again for each segment of A, so segments are larger.
        from_memory = problem is matrix and 0 < core.l3_bytes * around.threads < weights
        self.room = self.l2 * 3 // 8 if from_memory else self.l2 // 4

    def block_of_k(self, budget: int) -> int:
        """All of K, or equal blocks of about `budget` bytes for one row of weights."""
        k, longest = self.matrix.k, max(budget // self.weight, 1)
        if self.numerics.chain is not None:
            return k  # sums of chains would be rounded between blocks
        # A sum that is a little too long is better left whole: cut, it needs two passes over C.
        if k <= longest * 3 // 2:
            return k
        return round_up(balanced(k, longest, self.whole), self.whole)

    def blocks_of_k(self, panel: int, one_tile: bool) -> set[int]:
        """Blocks of K worth trying if vectors run over channels: for L1, and the largest for L2.

        Parameters
        ----------
        panel : int
            Output channels of a panel, which stays in L2 with 64 pixels.
        one_tile : bool
            Whether all pixels fit into one tile: weights are then read only once, best in one
            stream.
        """
        whole, block = self.matrix.k, self.block_of_k(self.l1 // 24)
        larger = block
        if self.problem is self.matrix or self.broadcasts == 1:
            # Fewer passes over C, with weights that stay in L2: measured on x86.
            larger = self.block_of_k(self.l1 // 6)
        if self.numerics.converts_in and self.packed and self.matrix.a_in_rows:
            # Each block of K converts the segment's slab anew, so there is only one block.
            return {whole}
        longest = self.l2 * 3 // 4 // ((panel + 64) * self.element)
        if one_tile:
            return {block, whole}
        if self.numerics.in_tiles:
            # Rows of a tile stay in L1 while panels are streamed.
            rows = int(STAYS * self.l1) // (2 * TILE_GROUPS)
            near = whole if self.pixels_inner else balanced(whole, rows, self.whole)
            return {whole, round_up(near, self.whole)}
        if whole <= longest:
            return {block, larger, whole}
        if block >= longest:
            return {block}
        return {block, larger, round_up(balanced(whole, longest, self.whole), self.whole)}

    def is_narrow(self, nr: int, largest: int) -> bool:
        """Whether a tile is too narrow to stream weights that are read once: a line at a time."""
        wider = self.oc > nr and nr < max(self.around.tiles)
        weights = self.oc * self.matrix.k * self.weight
        return (
            wider
            and nr * self.weight <= LINE
            and self.pixels <= largest
            and weights > self.l2
            and not self.problem.block
        )

    def panels(self, orientation: str, mr: int, nr: int) -> Panels:
        """The panels of weights for a tile."""
        panels: Panels = self.known(orientation, mr, nr)["panels"]
        return panels

    def known(self, orientation: str, mr: int, nr: int) -> dict[str, Any]:
        """What all nests of a tile know."""
        key = orientation, mr, nr
        found = self.of_tiles.get(key)
        if found is None:
            kernel = KernelKey("gemm", mr, nr, self.numerics.kr)
            panels = weight_panels(self.problem, self.numerics, kernel, orientation)
            found = self.of_tiles[key] = {**self.of_problem, "panels": panels}
        return found

    def pieces(self) -> tuple[int, ...]:
        """Numbers of pieces to cut the pixels into for the team: one if groups and images suffice.

        Otherwise one for each thread, or one again: `nest` then cuts the output channels instead,
        which suits small images with many weights.
        """
        threads = self.around.threads
        if self.problem is self.matrix and not self.matrix.c_in_rows and self.oc >= 16 * threads:
            return (1,)  # pieces of columns would meet in the lines of every row
        return (1,) if self.share % threads == 0 else (threads, 1)

    def finer(self, pieces: int, multiple: int) -> int:
        """Return several pieces a thread if the weights, which each piece reads, stay in L2."""
        if pieces == 1 or self.oc * self.matrix.k * self.weight > self.l2 // 4:
            return pieces
        return team_pieces(self.pixels, multiple, pieces, self.cycles)

    def segments(self, segment: int, unit: int) -> Iterator[int]:
        """Yield `segment`, of whole tiles, and a segment that divides pixels more evenly, if any.

        Parameters
        ----------
        segment : int
            Pixels of a task.
        unit : int
            The more even segment is a multiple of it.
        """
        yield segment
        threads, count = self.around.threads, ceil_div(self.pixels, segment)
        if threads == 1 or count == 1:
            return
        # The least number of pieces, of all images, that is a multiple of the team.
        pieces = round_up(count, threads // math.gcd(self.share, threads))
        even = round_up(ceil_div(self.pixels, pieces), unit)
        if self.busiest(even) < FEWER_PIXELS * self.busiest(segment):
            yield even

    @property
    def pixels_inner(self) -> bool:
        """Whether pixels are innermost, which keeps a panel of weights in L1 while they stream by.

        The other order suits NHWC as long as the weights stay in L2: it finishes whole pixels of
        the output one after the other. Weights of a matrix product that fill L2 do not stay there.
        """
        room = self.l2 * 7 // 8 if self.problem is self.matrix else self.l2
        return not self.in_rows or self.oc * self.matrix.k * self.weight > room

    def busiest(self, segment: int) -> int:
        """Pixels of the busiest thread, in tasks of `segment` pixels."""
        tasks = self.share * ceil_div(self.pixels, segment)
        return ceil_div(tasks, self.around.threads) * segment

    def nest(
        self, orientation: str, mr: int, nr: int, k_block: int, hw_segment: int, oc_segment: int,
        columns: str = BEFORE,
    ) -> Nest:  # fmt: skip
        """Finish a candidate: enough tasks for the team, and the order of the inner loops."""
        threads = self.around.threads
        tasks = self.share * ceil_div(self.pixels, hw_segment) * ceil_div(self.oc, oc_segment)
        known = self.known(orientation, mr, nr)
        if tasks < threads:
            width = known["panels"].width
            oc_segment = balanced(self.oc, oc_segment, width, ceil_div(threads, tasks))
        groups = self.matrix.groups
        group_segment = balanced(groups, max(1, groups // (4 * threads)), 1)
        made = Nest(
            self.problem, self.numerics, self.algorithm, self.packed, orientation,
            self.around.lanes, mr, nr, k_block, oc_segment, hw_segment, group_segment,
            self.pixels_inner if columns == BEFORE else False, columns,
        )  # fmt: skip
        return made.knowing(known)

    def by_pixels(self, nr: int, largest: int) -> Iterator[Nest]:
        """Vectors over pixels: panels of them fill half of L2, the rest is for weights.

        Panels small enough for L1 were tried too: their short blocks of K need more passes over C,
        which cost more than the nearer panels save.
        """
        k_block = self.block_of_k(self.l1 // 24)
        most_pixels = max(self.l2 // 2 // (k_block * self.element), nr)
        if self.numerics.converts_out and k_block < self.matrix.k:
            # Sums wait in scratch for the next block of K; L2 has to hold them.
            most_pixels = min(most_pixels, max(self.l2 // 4 // (self.oc * self.sum), nr))
        pieces = self.finer(self.pieces()[0], nr)
        hw_segment = balanced(self.pixels, most_pixels, nr, pieces)
        if pieces <= self.around.threads and hw_segment < self.pixels <= pieces * most_pixels:
            # Give each thread the same share, up to a vector instead of a tile.
            hw_segment = balanced(self.pixels, most_pixels, self.around.lanes, pieces)
        for mr in row_tiles(self.oc, largest):
            oc_segment = self.panels("pixels", mr, nr).padded(self.oc)
            for segment in self.segments(hw_segment, self.around.lanes):
                yield self.nest("pixels", mr, nr, k_block, segment, oc_segment)
        if not self.passes_once() or self.packed or self.numerics.converts_in:
            return
        # Planes that are read only once are best read as a few long streams.
        hw_segment = balanced(self.pixels, self.l2 // 4 // (self.oc * self.sum), nr, pieces)
        streams = PLANE_STREAMS if self.oc <= 2 else 2 * PLANE_STREAMS
        mr = min(row_tiles(self.oc, largest))
        oc_segment = self.panels("pixels", mr, nr).padded(self.oc)
        yield self.nest("pixels", mr, nr, streams, hw_segment, oc_segment)

    def passes_once(self) -> bool:
        """Whether planes come from beyond L2, for few output channels."""
        planes = self.matrix.k * self.pixels * self.element
        return self.oc <= FEW_CHANNELS and planes > self.l2 and self.matrix.k > 2 * PLANE_STREAMS

    def unpacked(self, nr: int, largest: int) -> Iterator[Nest]:
        """Vectors over columns of a B that was not packed before.

        If its rows are contiguous, tiles can read it in place. Or each task packs a block of B that
        stays in its core's L2 while all rows of A are read.
        """
        k, n, threads = self.matrix.k, self.oc, self.around.threads
        budgets = (self.l1 // 24, self.l1 // 6)
        for k_block in sorted({k, *map(self.block_of_k, budgets)}):
            row = k_block * self.element
            if self.matrix.b.column == 1:
                for mr in row_tiles(ceil_div(self.pixels, threads), largest):
                    hw = balanced(self.pixels, max(self.l2 // 4 // row, 1), mr, self.pieces()[0])
                    whole = round_up(n, nr)
                    yield self.nest("channels", mr, nr, k_block, hw, whole, IN_PLACE)
            multiple = threads // math.gcd(self.share, threads)
            columns = [max(self.l2 // share // row, nr) for share in L2_SHARES]
            pieces = {round_up(ceil_div(n, most), multiple) for most in columns}
            segments = {balanced(n, n, nr, count) for count in pieces}
            for oc_segment in sorted(segments):
                for mr in row_tiles(self.pixels, largest):
                    hw = round_up(self.pixels, mr)
                    if self.packed:
                        hw = balanced(self.pixels, max(self.l2 // 4 // row, 1), mr)
                    yield self.nest("channels", mr, nr, k_block, hw, oc_segment, BY_TASK)

    def by_channels(self, nr: int, largest: int) -> Iterator[Nest]:
        """Vectors over output channels; in NCHW through a tile that is stored transposed."""
        whole, panels = self.matrix.k, self.panels("channels", largest, nr)
        for k_block in self.blocks_of_k(panels.width, self.pixels <= largest):
            row = k_block * self.element
            most_pixels = max(self.room // row, 1)
            oc_segment = panels.padded(self.oc)
            if not self.matrix.c_in_rows or (self.numerics.converts_out and k_block < whole):
                # One panel of the tile should stay in L1; all of them, between blocks of K, in L2.
                waiting = nr if k_block == whole else oc_segment
                room = self.l1 if k_block == whole else self.l2 // 4
                most_pixels = min(most_pixels, max(room // (waiting * self.sum), 64))
            seen = set()
            for pieces in self.pieces():
                share = ceil_div(self.pixels, pieces)
                if pieces > 1 and not self.matrix.c_in_rows and 2 * share * self.sum <= LINE:
                    continue  # threads would write to the same lines
                for mr in row_tiles(min(share, most_pixels), largest):
                    finer = self.finer(pieces, mr)
                    hw_segment = balanced(self.pixels, most_pixels, mr, finer)
                    for segment in self.segments(hw_segment, 1):
                        if (mr, segment) not in seen:
                            seen.add((mr, segment))
                            yield self.nest("channels", mr, nr, k_block, segment, oc_segment)
