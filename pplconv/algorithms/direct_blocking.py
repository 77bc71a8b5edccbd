"""One candidate of direct convolution: its tile and segments, and the memory that they need.

Vectors run over output channels, pixels are broadcast, and the batch-reduce GEMM sums over a list
of stretches of input; see ``schedules/direct_loops.pyx``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from .._lazy import lazy
from .._records import record
from ..numerics import Numerics
from ..problem import ConvProblem
from .candidate import (
    EXACT,
    INSIDE,
    LINE,
    Candidate,
    KernelKey,
    ceil_div,
    finish_panels,
    is_padded,
    odd_lines,
    round_up,
    thread_scratch,
)
from .core_model import PART_CYCLES, WHOLE_CYCLES, tile_steps
from .error_bounds import direct_error_bound
from .panels import Panels

STAGE_CHANNELS = 16
SEGMENT_BYTES = 16  # struct pplconv_segment
SHORT = 14  # pixels: fewer do not fill a tile's rows
RANGES = tuple[tuple[int, int, int, int], ...]


@lru_cache(maxsize=64)
def ranges(
    outputs: int, inputs: int, kernel: int, stride: int, dilation: int, before: int
) -> RANGES:
    """Cut rows or columns of outputs by the taps that lie inside the image.

    Returns
    -------
    tuple of (begin, end, low, high)
        Outputs begin..end-1 see the taps low..high-1.
    """
    found: list[tuple[int, int, int, int]] = []
    at = 0
    while at < outputs:
        first = at * stride - before
        low = min(max(0, ceil_div(-first, dilation)), kernel)
        high = max(low, min(kernel, ceil_div(inputs - first, dilation)))
        end = at + 1
        if low == 0 and high == kernel:
            # Take all outputs that see every tap at once: images are larger than borders.
            last = (inputs - 1 - (kernel - 1) * dilation + before) // stride
            end = max(end, min(outputs, last + 1))
        if found and found[-1][2:] == (low, high):
            found[-1] = (found[-1][0], end, low, high)
        else:
            found.append((at, end, low, high))
        at = end
    return tuple(found)


def inside_axis(p: ConvProblem, axis: int) -> float:
    """Share of the taps along an axis, 0 or 1, that lie inside images."""
    outputs, kernel = (p.oh, p.ow)[axis], (p.kh, p.kw)[axis]
    seen = ranges(
        outputs, (p.ih, p.iw)[axis], kernel, p.stride[axis], p.dilation[axis], p.padding[axis][0]
    )
    taps = sum((end - begin) * (high - low) for begin, end, low, high in seen)
    return taps / max(outputs * kernel, 1)


def apart(size: int) -> int:
    """Bytes from one pixel of `size` bytes to the next, so that long ones share no cache set."""
    return size if size <= LINE else odd_lines(size)


def weight_panels(problem: ConvProblem, kernel: KernelKey, lanes: int) -> Panels:
    """Panels of weights, whose output channels are the columns of a tile.

    No vector may cross into another block of channels, so a panel divides the block. If a block is
    one vector, each vector of the tile goes to a block of its own.
    """
    panels = Panels.of_columns(kernel)
    if problem.layout != "NCHWc" or problem.block == lanes:
        return panels
    return panels.inside(problem.block)


# Values of a blocking that follow from the problem and its numerics.
OF_PROBLEM = (
    "turned", "ic", "oc", "flat", "geometry", "images", "channels", "rows", "columns"
)  # fmt: skip


@record(frozen=True)
class DirectBlocking(Candidate):
    """One way to run a problem through direct convolution's loops, without its cost estimate.

    Parameters
    ----------
    problem : ConvProblem
        The problem to compute.
    numerics : Numerics
        The types that it is computed with.
    algorithm : str
        ``"direct"``, or ``"pointwise"`` for 1x1 on blocked arrays.
    lanes, mr, nr : int
        Elements of a vector; the tile.
    row_segment, oc_segment : int
        Output rows and channels of a task.
    pixels_inner : bool
        Whether the loop over the task's pixels is the inner one.
    """

    problem: ConvProblem
    numerics: Numerics
    algorithm: str
    lanes: int
    mr: int
    nr: int
    row_segment: int
    oc_segment: int
    pixels_inner: bool

    loops = "direct"
    walks_rows = True
    offsets_by_taps = True
    multiplies_padding = False

    @property
    def takes_gaps(self) -> bool:
        """True unless pixels are copied into a slab with neighbouring channels."""
        return not self.slab

    @property
    def bits(self) -> str:
        """The order of the sum, and whether it leaves taps out.

        Taps on padding add nothing to a sum, but they decide the sign of a zero, and they give NaN
        if a weight is infinite.
        """
        p = self.problem
        if self.numerics.exact:
            return EXACT
        inside = INSIDE if is_padded(p) else ""
        each = self.channels * (p.kw if self.taps_touch else 1)  # in a segment of the sum
        # Limited chains end, and steps of several k begin, with each segment of the sum.
        if self.numerics.chain is not None or (self.numerics.narrow and each % self.numerics.step):
            inside += ", by taps that touch" if self.taps_touch else ", by taps"
        order = f"c/{p.block}, kh, kw, c" if p.layout == "NCHWc" else "kh, kw, c"
        return f"sum over {order}{inside}{self.numerics.order}"

    @property
    def error_bound(self) -> float:
        """Bound of one chain of FMAs."""
        return direct_error_bound(self.problem.k, self.numerics)

    @property
    def blocks(self) -> dict[str, int | str]:
        """Kind of product, tile, segments, order of loops."""
        return self.numerics.kind | {
            "mr": self.mr,
            "nr": self.nr,
            "row_segment": self.row_segment,
            "oc_segment": self.oc_segment,
            "innermost": "pixels" if self.pixels_inner else "channels",
        }

    @property
    def kernel(self) -> KernelKey:
        """The GEMM microkernel."""
        return KernelKey("gemm", self.mr, self.nr, self.numerics.kr)

    @property
    def slab(self) -> bool:
        """Whether pixels pass through a slab with neighbouring channels."""
        return self.problem.layout == "NCHW"

    @lazy
    def turned(self) -> bool:
        """Whether outputs stay in the scratch as pixels until the task turns them into planes.

        So bytes are turned, after their sums are finished, and not sums.
        """
        return self.slab and self.numerics.exact

    @lazy
    def ic(self) -> int:
        """Input channels of a group."""
        return self.problem.ic // self.problem.groups

    @lazy
    def oc(self) -> int:
        """Output channels of a group."""
        return self.problem.oc // self.problem.groups

    @property
    def gathered(self) -> bool:
        """Whether pixels pass through a slab: for NCHW, conversion, or whole groups of k."""
        whole = self.channels % self.numerics.kr == 0
        return self.slab or self.numerics.converts_in or not whole

    @lazy
    def flat(self) -> bool:
        """Whether an image is one long row: a 1x1 kernel sees pixels, not rows."""
        return self.problem.is_pointwise and (self.turned or not self.slab)

    @property
    def skips_rows(self) -> bool:
        """Whether only the rows that a strided 1x1 kernel sees are copied into the slab."""
        p = self.problem
        strided = p.kh == p.kw == 1 < p.stride[0] and not any(sum(p.padding, ()))
        return self.turned and strided

    @lazy
    def geometry(self) -> tuple[int, ...]:
        """Geometry as the loops see it."""
        p = self.problem
        if self.flat:
            # In NHWC, the pixels of all images are contiguous. Short rows are joined to longer
            # ones.
            rows = p.ih * (p.batch if p.layout == "NHWC" else 1)
            along = next((d for d in range(1, rows) if rows % d == 0 and d * p.iw >= SHORT), rows)
            pixels = p.iw * along
            rows = ceil_div(rows, max(along, 1))
            return (rows, pixels, rows, pixels, 1, 1, 1, 1, 1, 1, 0, 0)
        (top, _), (left, _) = p.padding
        if self.skips_rows:
            return (p.oh, p.iw, p.oh, p.ow, 1, 1, 1, p.stride[1], 1, 1, 0, 0)
        return (p.ih, p.iw, p.oh, p.ow, p.kh, p.kw, *p.stride, *p.dilation, top, left)

    @lazy
    def images(self) -> int:
        """Images as the loops see them."""
        return 1 if self.flat and self.problem.layout == "NHWC" else self.problem.batch

    @lazy
    def channels(self) -> int:
        """Neighbouring input channels in one segment of the sum."""
        # A single block may be partly empty (images have 3 channels); only real channels are read.
        return min(self.problem.block, self.ic) if self.problem.layout == "NCHWc" else self.ic

    @property
    def taps_touch(self) -> bool:
        """Whether the taps of one row of the kernel are contiguous in memory, and one segment."""
        p = self.problem
        if p.layout == "NHWC":
            # The slab has the group's channels only.
            whole = p.groups == 1 or self.gathered
        else:
            whole = p.layout == "NCHW" or self.channels == p.block
        return p.dilation[1] == 1 and whole and not self.taps_fill_steps

    @property
    def taps_fill_steps(self) -> bool:
        """Whether tile registers are faster with a segment for each tap.

        All taps of a row may end in a step that is copied, where single taps need no copies. The
        answer must not depend on the tile, since the bits of rounded sums depend on it.
        """
        if self.numerics.step == self.numerics.kr:
            return False
        groups, exact = ceil_div(self.channels, self.numerics.kr), self.numerics.exact
        taps = self.problem.kw
        (joined, copied), (each, copies) = (tile_steps(n, exact) for n in (taps * groups, groups))
        more = (taps * each - joined) * WHOLE_CYCLES
        return copied and not copies and more < PART_CYCLES

    @lazy
    def panels(self) -> Panels:
        """The panels of packed weights."""
        return weight_panels(self.problem, self.kernel, self.lanes)

    @lazy
    def k_packed(self) -> int:
        """Length of a packed sum: blocks of channels are whole, and each begins a group of k."""
        p = self.problem
        blocks = ceil_div(self.ic, self.channels)
        return blocks * self.panels.depth(self.channels) * p.kh * p.kw

    @property
    def packing(self) -> str:
        """Format of the packed weights, the order of the OpenPPL slides' 6-D weights."""
        order = f"c/{self.channels},kh,kw,c" if self.problem.layout == "NCHWc" else "khkwc"
        if self.channels % self.numerics.kr:
            order += f", each tap in whole groups of {self.numerics.kr}"
        return f"{self.panels.name}, k = {order}"

    @property
    def packed_weight_bytes(self) -> int:
        """Size of the packed weights."""
        size = self.panels.bytes(self.oc, self.k_packed, self.numerics.weight_bytes)
        return self.problem.groups * size

    @property
    def tasks(self) -> int:
        """Iterations of the parallel loop."""
        rows = ceil_div(self.geometry[2], self.row_segment) if self.geometry[2] else 0
        return self.images * self.problem.groups * rows * ceil_div(self.oc, self.oc_segment)

    @lazy
    def slab_rows(self) -> int:
        """Input rows that a task's outputs see."""
        ih, _, _, _, kh, _, stride, _, dilation, *_ = self.geometry
        return min((self.row_segment - 1) * stride + (kh - 1) * dilation + 1, ih)

    @lazy
    def rows(self) -> RANGES:
        """Rows of outputs by the taps that they see."""
        ih, _, oh, _, kh, _, stride, _, dilation, _, top, _ = self.geometry
        return ranges(oh, ih, kh, stride, dilation, top)

    @lazy
    def columns(self) -> RANGES:
        """Columns of outputs by the taps that they see."""
        _, iw, _, ow, _, kw, _, stride, _, dilation, _, left = self.geometry
        return ranges(ow, iw, kw, stride, dilation, left)

    @property
    def slab_pixel(self) -> int:
        """Bytes of a pixel in the slab: the group's channels, or a block of them."""
        channels = self.problem.block or round_up(self.ic, self.numerics.kr)
        size = channels * self.numerics.operand_bytes
        if self.turned and self.problem.kw == 1:
            return apart(size)
        return size

    @property
    def turned_pixel(self) -> int:
        """Bytes of a pixel of outputs in the scratch, if they are turned into planes."""
        if not self.turned:
            return 0
        return apart(min(self.oc_segment, self.oc) * self.numerics.destination_bytes)

    @property
    def stage_channels(self) -> int:
        """Channels of NCHW that are converted at a time on their way into the slab."""
        return min(STAGE_CHANNELS, self.ic) if self.numerics.converts_in and self.slab else 0

    @property
    def finish_panels(self) -> int:
        """Panels of output channels whose tiles are finished together; see `NestBlocking`."""
        if not self.numerics.exact or self.pixels_inner:
            return 1
        return finish_panels(self.oc_segment, self.nr)

    @lazy
    def scratch(self) -> tuple[int, int, int, int, int]:
        """Offsets of slab, run of outputs, stage and turned outputs, and bytes of one thread."""
        p, e, numerics = self.problem, self.numerics.operand_bytes, self.numerics
        size = ceil_div(self.ic, self.channels) * p.kh * p.kw * SEGMENT_BYTES
        slab = round_up(size, LINE)
        size = run = stage = turned = slab
        if self.gathered or numerics.converts_out:
            blocks = ceil_div(self.ic, self.channels)
            rows = self.slab_rows if self.gathered else 0
            size = slab + blocks * rows * self.geometry[1] * self.slab_pixel
            run = round_up(size, LINE)
            size = run + (
                (self.run_pixels if self.slab and not self.turned else self.mr)
                * (self.nr * self.finish_panels)
                * self.numerics.sum_bytes
            )
            stage = turned = round_up(size, LINE)
        if self.slab and numerics.converts:
            out = 0
            if numerics.converts_out and not self.turned:
                out = self.nr * self.run_pixels * numerics.sum_bytes
            size = stage + max(self.stage_channels * self.geometry[1] * e, out)
            turned = round_up(size, LINE)
            size = turned + self.row_segment * self.geometry[3] * self.turned_pixel
        return slab, run, stage, turned, thread_scratch(size)

    @property
    def run_pixels(self) -> int:
        """Outputs of the longest run that is stored transposed."""
        return max((end - begin for begin, end, _, _ in self.columns), default=0)

    @property
    def scratch_bytes(self) -> int:
        """Scratch of one thread."""
        return self.scratch[-1]

    def own_fields(self) -> dict[str, Any]:
        """Collect what ``schedules.direct_loops.DirectSchedule`` takes."""
        slab, run, stage, turned, _ = self.scratch
        return {
            "geometry": self.geometry,
            "batch": self.images,
            **self._memories(),
            "slab": self.slab,
            "gathered": self.gathered,
            "turned": self.turned,
            "turned_pixel": self.turned_pixel,
            "slab_pixel": self.slab_pixel,
            "slab_row": self.geometry[1] * self.slab_pixel,
            "slab_rows": self.slab_rows,
            "slab_offset": slab,
            "run_offset": run,
            "run_pixels": self.run_pixels,
            "stage_channels": self.stage_channels,
            "finish_panels": self.finish_panels,
            "stage_offset": stage,
            "turned_offset": turned,
            "channels": self.channels,
            "taps_touch": self.taps_touch,
            "pixels_inner": self.pixels_inner,
            "mr": self.mr,
            "nr": self.nr,
            **self.panels.fields,
            "b_ahead": self.panels.ahead(self.numerics.weight_bytes),
            "row_segment": self.row_segment,
            "oc_segment": self.oc_segment,
            "rows": self.rows,
            "columns": self.columns,
        }

    def _memories(self) -> dict[str, tuple[int, ...]]:
        """Describe the arrays by the rows of `geometry`, if these are not the user's."""
        p = self.problem
        if self.skips_rows:
            image, block, row, *pixel = p.input_memory(self.numerics.source_bytes)
            return {"x": (image, block, row * p.stride[0], *pixel)}
        if not self.flat:
            return {}
        x = p.memory(self.numerics.source_bytes, p.ic, *self.geometry[:2])
        y = p.memory(self.numerics.destination_bytes, p.oc, *self.geometry[2:4])
        return {"x": x, "y": y}
