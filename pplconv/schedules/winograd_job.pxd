"""What Winograd's loops know of a plan: see ``winograd.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport GemmFamily, pplconv_kernel
from pplconv.schedules.base cimport Shape


cdef struct WinogradJob:
    Shape shape
    # F(n x n, r x r): tiles of n x n outputs from patches of t x t inputs; t * t positions.
    int64_t n, r, t, positions
    int64_t tiles_w, tiles_image, tiles
    # Blocks and segments, in tiles and channels; packed input channels of a group.
    int64_t tile_block, ic_segment, oc_block, oc_segment, ic_packed
    int64_t mr, nr, vectors, lanes, b_ahead
    # Task = (tile block, group, oc segment).
    int64_t oc_segments
    # Scratch of one thread: V[position][tile][ic], M[position][tile][oc], and a slab of pixels
    # with `lanes` channels each, where the user's channels are not neighbours.
    int64_t v_row, v_position, m_row, m_position, m_offset, slab_offset, slab_tiles, slab_row
    # For arrays that are converted: planes of one vector's channels, on their way into or out of
    # the slab. In every layout pixels then pass through the slab.
    int64_t stage_offset
    # Packed weights U[group][position][panel][ic][nr].
    int64_t u_position, u_group
    GemmFamily gemm
    pplconv_kernel input, output, weights, pack_channels, store_transposed, direct_sums


cdef struct Piece:
    # Neighbouring tiles of one row of tiles: where they begin, in tiles and in pixels.
    int64_t image, first, tiles, y, x
