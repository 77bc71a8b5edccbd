# cython: cdivision=True
"""Plans of sparse weights and their packed terms as C structs."""

from libc.stdint cimport int32_t, int64_t

from pplconv._kernels cimport SparseFamily, pplconv_kernel, pplconv_panel
from pplconv.schedules.base cimport ceil_div
from pplconv.schedules.nest_job cimport NestJob


cdef enum:
    LINE = 64  # bytes
    # The cost of a panel besides its terms, in values; panels are divided into parts of equal cost.
    PANEL_WEIGHT = 64


cdef struct SparseFields:
    # The candidate's decisions: members have the names of its `own_fields`, from which Cython fills
    # them by name. Pixels are counted as in the GEMM nest.
    int64_t images, pixels
    bint x_in_rows, in_blocks, by_pixels, packed
    # Whether the rows of planes that a task sees are copied ("laid") into the scratch, with zeros
    # around them, where taps read them in place. Tiles of pixels then include the elements between
    # rows of outputs, and sums are stored row by row.
    bint laid
    # Whether terms prefetch pixels of the next tile, for planes that are read in place.
    bint fetches
    # Output channels of a block of the weights and of a panel; terms multiplied together; pixels of
    # a tile.
    int64_t sparse_block, sparse_panel, kr, width
    # Task = (group, image, segment of pixels, part of the panels).
    int64_t k_block, hw_segment, parts
    # Channels that a call of a kernel computes, whose sums are then finished together.
    int64_t chunk
    # Layout of the scratch.
    int64_t slab_rows, slab_channels
    # Elements of a laid row, and of a laid channel plane. With strides, each phase of rows and
    # columns has a part of its own, so that the pixels of a tap are neighbours.
    int64_t laid_row, laid_plane, row_phases, column_phases


cdef struct SparseRoom:
    # Bounds of the packed terms, and of their values.
    int64_t terms, values


cdef struct SparseOffsets:
    # Bytes of a row of gathered pixels, and offsets in the scratch.
    int64_t packed_row
    int64_t panel_offset, runs_offset, tile_offset, plane_offset, slab_offset


cdef struct TapPlaces:
    # Places of the rows, or columns, of taps. Tap i reads the input at h = i * dilation, its place
    # is h // stride * step + h % stride * phase: rows of one phase are `step` places apart, and
    # phases are `phase` places apart.
    int64_t dilation, stride, step, phase


cdef struct SparseJob:
    NestJob nest
    SparseFields plan
    SparseOffsets at
    SparseRoom room
    # Panels of whole blocks, and all panels of a group; blocks of K, and segments of pixels.
    int64_t whole_panels, panels, k_blocks, hw_segments
    # Places in the input from one channel to the next, as steps count them; places of taps.
    int64_t channel_step
    TapPlaces rows, columns
    # Input channels that are neighbours in the packed order of K: 1, or all.
    int64_t channel_block
    # Bytes before the steps, and before the values.
    int64_t steps_at, values_at
    # Kernels for the panels, and for those of a single channel.
    SparseFamily family, single
    # `store_sums` copies rows without converting them: laid rows, and sums.
    pplconv_kernel pack_sparse, store_sums, copy_strided


cdef struct Range:
    int64_t begin, end


cdef inline int64_t table_index(const SparseJob *j, int64_t group, int64_t k_block,
                                int64_t panel) noexcept nogil:
    return (group * j.k_blocks + k_block) * j.panels + panel


cdef inline int64_t table_entries(const SparseJob *j) noexcept nogil:
    # Entries of the table, without the extra one that ends the last panel.
    return j.nest.shape.groups * j.k_blocks * j.panels


cdef inline const pplconv_panel *table_of(const char *packed) noexcept nogil:
    return <const pplconv_panel *> packed


cdef inline int64_t panel_channel(const SparseJob *j, int64_t panel) noexcept nogil:
    # The first channel of a panel, in its group.
    cdef int64_t whole = j.whole_panels * j.plan.sparse_panel
    if panel < j.whole_panels:
        return panel * j.plan.sparse_panel
    return whole + (panel - j.whole_panels) * panel_width(j, panel)


cdef inline int64_t panel_width(const SparseJob *j, int64_t panel) noexcept nogil:
    # Channels that a term of a panel has values for.
    if panel < j.whole_panels or not j.plan.by_pixels:
        return j.plan.sparse_panel
    return 1


cdef inline int64_t weight_before(const SparseJob *j, const pplconv_panel *table, int64_t group,
                                  int64_t panel) noexcept nogil:
    # The cost of the panels of a group before `panel`, in values.
    cdef int64_t block, first, weight = panel * PANEL_WEIGHT
    for block in range(j.k_blocks):
        first = table_index(j, group, block, 0)
        weight += table[first + panel].value - table[first].value
    return weight


cdef inline int64_t border(const SparseJob *j, const pplconv_panel *table, int64_t group,
                           int64_t part) noexcept nogil:
    # The panel that a part begins with. Parts cost the same, as nearly as whole panels allow.
    cdef int64_t low = 0, high = j.panels, middle, wanted
    if part == 0 or part == j.plan.parts:
        return 0 if part == 0 else j.panels
    wanted = ceil_div(weight_before(j, table, group, j.panels) * part, j.plan.parts)
    while low < high:
        middle = (low + high) // 2
        if weight_before(j, table, group, middle) < wanted:
            low = middle + 1
        else:
            high = middle
    return low
