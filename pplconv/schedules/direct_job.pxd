"""A plan of direct convolution as C structs: see ``direct_loops.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport GemmFamily, pplconv_kernel
from pplconv.schedules.base cimport Memory, Shape
from pplconv.schedules.panel_offsets cimport Panels


cdef struct DirectFields:
    # The candidate's decisions: members have the names of its `own_fields`, from which Cython fills
    # them by name. `slab`: channels are not neighbours, so pixels pass through a slab, and outputs
    # are stored transposed. `gathered`: pixels pass through a slab for any reason: `slab`,
    # conversion, or to fill up groups of channels. `turned`: outputs stay in the scratch as pixels,
    # in the type of the output, until the task turns all of them into planes.
    bint slab, gathered, turned, taps_touch, pixels_inner
    # Neighbouring input channels in one segment of the sum.
    int64_t channels
    # The tile, and the output channels of a panel of weights: fewer than `nr` if a block has fewer.
    int64_t mr, nr, panel_width, kr, b_ahead
    # Task = (image, group, row segment, oc segment).
    int64_t row_segment, oc_segment
    # The slab's pixels and rows in bytes, and its rows; outputs of the longest run; channels of a
    # row that are converted at a time on their way into the slab.
    int64_t slab_pixel, slab_row, slab_rows, run_pixels, stage_channels
    # Bytes of a pixel of the outputs that are turned.
    int64_t turned_pixel
    # Panels of output channels whose tiles wait in the scratch to be finished together.
    int64_t finish_panels


cdef struct DirectOffsets:
    # Likewise its offsets in a thread's scratch, which are whole elements. The list of segments is
    # first; then come the slab, a run of the output, and the stage, where planes are converted. The
    # stage holds some channels of a row on their way into the slab, or a run of the output on its
    # way out. Outputs that are turned come last.
    int64_t slab_offset, run_offset, stage_offset, turned_offset


cdef struct Range:
    # Output rows or columns `begin` to `end` see the taps `low` to `high` of the kernel.
    int64_t begin, end, low, high


cdef struct DirectJob:
    Shape shape
    DirectFields plan
    DirectOffsets at
    # How the weights of a group are packed.
    Panels panels
    # The layout of the pixels that kernels read, in the user's array or the slab; and of the pixels
    # of outputs, in the user's array or, before they are turned, in the scratch.
    Memory x, y
    # Blocks of `plan.channels`.
    int64_t channel_blocks
    int64_t row_count, column_count
    const Range *rows
    const Range *columns
    int64_t lanes
    int64_t row_segments, oc_segments
    # Panels in a block of output channels, and bytes from its end to the next; 0 if unblocked.
    int64_t block_panels, block_step
    GemmFamily gemm
    pplconv_kernel pack_channels, pad_channels, pack_weights, store_transposed
    # Turns a residual into pixels, and outputs into planes.
    pplconv_kernel turn
    # Gives tile registers back; NULL where kernels use none.
    pplconv_kernel release


cdef struct Part:
    # What a task works on; `x` is where pixel (0, 0) of the image would lie.
    int64_t image, group, row, row_end, oc, oc_end
    const char *x
    char *scratch
    # The state that the kernels of this thread keep about their tile registers.
    int64_t *tiles


cdef struct Rectangle:
    # Outputs that see the same taps.
    int64_t row, row_end, column, column_end
    int64_t k, segments
    # Offsets added to integer sums, beginning with output channel 0 of group 0.
    const char *offsets
