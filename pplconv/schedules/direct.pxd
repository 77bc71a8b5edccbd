"""Direct convolution's loops compiled: see ``direct.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport GemmFamily, pplconv_kernel
from pplconv.memory.workspace cimport Buffer
from pplconv.schedules.base cimport Memory, Schedule, Shape


cdef struct Range:
    # Output rows or columns `begin` to `end` see the taps `low` to `high` of the kernel.
    int64_t begin, end, low, high


cdef struct DirectJob:
    Shape shape
    # How pixels lie as the kernels read them, in the user's array or the slab; then their
    # neighbouring channels.
    Memory x
    int64_t channels, channel_blocks
    # Images, or one where NHWC pixels run on from image to image.
    int64_t images
    bint slab, taps_touch, pixels_inner
    int64_t row_count, column_count
    const Range *rows
    const Range *columns
    # The tile, and the output channels of a panel of weights: fewer than `nr` if a block has fewer.
    int64_t mr, nr, panel, vectors, lanes, b_ahead
    int64_t row_segment, oc_segment
    # Task = (image, group, row segment, oc segment).
    int64_t row_segments, oc_segments
    # Scratch of one thread: the list of segments, the slab, a run of the output.
    int64_t slab_offset, run_offset
    # The stage, where planes are converted: it holds some channels of a row on their way into the
    # slab, or those of a run of the output on their way out.
    int64_t stage_channels, stage_offset, run_pixels
    int64_t panel_bytes, weights_group
    # Panels in a block of output channels, and bytes from its end to the next; 0 if unblocked.
    int64_t block_panels, block_step
    GemmFamily gemm
    pplconv_kernel pack_channels, pack_weights, store_transposed


cdef class DirectSchedule(Schedule):
    cdef DirectJob own
    cdef Buffer ranges

    cdef int check(self, int64_t slab_rows) except -1
    cdef int check_converted(self, int64_t slab_rows) except -1
