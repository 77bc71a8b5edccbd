"""A plan of Winograd's loops as C structs, and where tiles and memory of a task are."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport GemmFamily, pplconv_kernel
from pplconv.schedules.base cimport Shape, least
from pplconv.schedules.panel_offsets cimport Panels


cdef struct WinogradFields:
    # The candidate's decisions: members have the names of its `own_fields`, from which Cython fills
    # them by name. F(n x n, r x r) computes tiles of n x n outputs.
    int64_t n, r
    # Blocks and segments, in tiles and channels. If not staged: task = (tile block, group, oc
    # segment).
    # Staged: round = (tile block, group), whose tasks are parts of V, then products of one position
    # and oc segment, then parts of M.
    int64_t staged
    int64_t tile_block, ic_segment, oc_block, oc_segment
    int64_t tile_part, ic_part, oc_part
    int64_t mr, nr, panel_width, kr, b_ahead
    # Bytes of the scratch from tile to tile and, in a slab of some tiles, from row to row. A pixel
    # of the slab has room for `slab_channels` sums.
    int64_t v_row, m_row, slab_row, slab_tiles, slab_channels
    # Slabs end at multiples of so many tiles of a row.
    int64_t line_tiles


cdef struct WinogradOffsets:
    # Likewise its offsets in the scratch, which are whole elements: V[position][tile][ic] and
    # M[position][tile][oc], in the team's scratch if staged. A thread's scratch has a slab of
    # pixels with some channels each, if the user's channels are not neighbours, or for sums that
    # are converted.
    int64_t v_position, m_position, m_offset, slab_offset
    # For converted arrays: planes of the slab's channels, on their way into or out of the slab. In
    # every layout pixels then pass through the slab, except bytes, which transforms read.
    int64_t stage_offset


cdef struct WinogradJob:
    Shape shape
    WinogradFields plan
    WinogradOffsets at
    # Tiles come from patches of t x t inputs; t * t positions.
    int64_t t, positions
    # Subkernels of r x r taps side by side; channels of V: the input's, once for each subkernel.
    int64_t across, depth
    # Whether kernels are cut, or filled up with zeros.
    bint cut
    int64_t tiles_w, tiles_image, tiles
    int64_t vectors, lanes
    int64_t oc_segments
    # Whether the input is converted before it is transformed; bytes of an element that transforms
    # read.
    bint converts_in
    # The arrays: 0 of elements, 1 of float16, 2 of bfloat16.
    int halves
    int64_t pixel
    # Of a block of tiles, where staged: parts of its tiles, and of their channels in V and M.
    int64_t tile_parts, ic_parts, oc_parts
    # Packed weights U[group][position] in panels.
    Panels panels
    GemmFamily gemm
    pplconv_kernel input, output, weights, pack_channels, store_transposed, direct_sums


cdef struct Piece:
    # Neighbouring tiles of one row of tiles: where they begin, in tiles and in pixels.
    int64_t image, first, tiles, y, x


cdef struct Place:
    # Memory of a task: V and M of the tiles from `tile` on, each from the task's first channel on,
    # and the slab with its planes.
    char *v
    char *m
    char *slab
    char *stage
    int64_t tile


cdef inline Piece piece_at(const WinogradJob *j, int64_t tile, int64_t end) noexcept nogil:
    # The longest piece that begins at `tile` and ends before `end`.
    cdef Piece p
    cdef int64_t rest, column
    p.image = tile // j.tiles_image
    rest = tile - p.image * j.tiles_image
    column = rest % j.tiles_w
    p.y = rest // j.tiles_w * j.plan.n
    p.x = column * j.plan.n
    p.tiles = least(least(end - tile, j.tiles_w - column),
                    j.plan.slab_tiles - column % j.plan.line_tiles)
    p.first = tile
    return p


cdef inline Place place_of(const WinogradJob *j, int64_t tile, char *products,
                           char *scratch) noexcept nogil:
    # V and M of the tiles from `tile` on lie at `products`, and the slab in the thread's scratch.
    cdef Place at
    at.tile = tile
    at.v = products
    at.m = products + j.at.m_offset
    at.slab = scratch + j.at.slab_offset
    at.stage = scratch + j.at.stage_offset
    return at
