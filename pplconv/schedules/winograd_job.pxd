"""What Winograd's loops know of a plan: see ``winograd.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport GemmFamily, pplconv_kernel
from pplconv.schedules.base cimport Shape
from pplconv.schedules.panels cimport Panels


cdef struct WinogradFields:
    # The candidate's decisions: members have the names of its `own_fields`, from which Cython fills
    # them by name. F(n x n, r x r) computes tiles of n x n outputs.
    int64_t n, r
    # Blocks and segments, in tiles and channels: task = (tile block, group, oc segment).
    int64_t tile_block, ic_segment, oc_block, oc_segment
    int64_t mr, nr, panel_width, kr, b_ahead
    # Bytes of the scratch from tile to tile and, in a slab of some tiles, from row to row.
    int64_t v_row, m_row, slab_row, slab_tiles


cdef struct WinogradOffsets:
    # The same for its places in the scratch of a thread, which are whole elements:
    # V[position][tile][ic], M[position][tile][oc], and a slab of pixels with `lanes` channels each,
    # where the user's channels are not neighbours.
    int64_t v_position, m_position, m_offset, slab_offset
    # For arrays that are converted: planes of one vector's channels, on their way into or out of
    # the slab. In every layout pixels then pass through the slab.
    int64_t stage_offset


cdef struct WinogradJob:
    Shape shape
    WinogradFields plan
    WinogradOffsets at
    # Tiles come from patches of t x t inputs; t * t positions.
    int64_t t, positions
    int64_t tiles_w, tiles_image, tiles
    int64_t vectors, lanes
    int64_t oc_segments
    # Packed weights U[group][position] in panels.
    Panels panels
    GemmFamily gemm
    pplconv_kernel input, output, weights, pack_channels, store_transposed, direct_sums


cdef struct Piece:
    # Neighbouring tiles of one row of tiles: where they begin, in tiles and in pixels.
    int64_t image, first, tiles, y, x
