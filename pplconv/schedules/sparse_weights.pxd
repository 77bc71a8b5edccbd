# cython: cdivision=True
"""How sparse weights are packed: counted, placed, and filled in.

Packed weights are a table of panels, the steps of all terms, and their values. Each panel has its
place in the table, for each group and block of K; so panels are counted first, all at once, and
filled in when it is known where each begins.
"""

from libc.stdint cimport int32_t, int64_t

from pplconv._kernels cimport pplconv_pack_sparse_args, pplconv_panel
from pplconv.schedules.base cimport least
from pplconv.schedules.sparse_job cimport (
    SparseJob,
    TapPlaces,
    panel_channel,
    panel_width,
    table_entries,
    table_index,
    table_of,
)


cdef inline void describe_panel(const SparseJob *j, const char *weights, int64_t group,
                                int64_t block, int64_t panel,
                                pplconv_pack_sparse_args *p) noexcept nogil:
    """Describe one block of K of a panel to the kernel that packs it."""
    cdef int64_t size = j.nest.shape.size.weight, channel = panel_channel(j, panel)
    p.src_ks = size
    p.src_os = j.nest.k * size
    p.src = weights + (group * j.nest.shape.oc + channel) * p.src_os
    p.ic = j.nest.shape.ic
    p.taps = j.nest.shape.taps
    p.channel_block = j.channel_block
    p.kw = j.nest.shape.geometry.kw
    p.channel_step = j.channel_step
    p.row_dilation, p.row_stride = j.rows.dilation, j.rows.stride
    p.row_step, p.row_phase = j.rows.step, j.rows.phase
    p.column_dilation, p.column_stride = j.columns.dilation, j.columns.stride
    p.column_step, p.column_phase = j.columns.step, j.columns.phase
    p.width = panel_width(j, panel)
    p.rows = least(p.width, j.nest.shape.oc - channel)
    p.kr = j.plan.kr
    p.k_begin = block * j.plan.k_block
    p.k_end = least(p.k_begin + j.plan.k_block, j.nest.k)


cdef inline void count_range(const void *job, const char *weights, char *packed, int64_t index,
                             int64_t pieces) noexcept nogil:
    """Count the terms of piece `index` of `pieces` of every group's panels, into the table."""
    cdef const SparseJob *j = <const SparseJob *> job
    cdef pplconv_panel *table = <pplconv_panel *> packed
    cdef pplconv_pack_sparse_args p
    cdef int64_t group, block, panel, at
    p.steps = p.values = NULL
    p.room = 0
    for group in range(j.nest.shape.groups):
        for block in range(j.k_blocks):
            for panel in range(j.panels * index // pieces, j.panels * (index + 1) // pieces):
                at = table_index(j, group, block, panel)
                describe_panel(j, weights, group, block, panel, &p)
                p.count = &table[at].term
                j.pack_sparse(&p)
                table[at].value = table[at].term * p.width


cdef inline void place_panels(const void *job, const char *weights, char *packed, int64_t index,
                              int64_t pieces) noexcept nogil:
    """Turn what was counted into where each panel begins."""
    cdef const SparseJob *j = <const SparseJob *> job
    cdef pplconv_panel *table = <pplconv_panel *> packed
    cdef pplconv_panel sum, own
    cdef int64_t at, entries = table_entries(j)
    sum.term = sum.value = 0
    for at in range(entries):
        own = table[at]
        table[at] = sum
        sum.term += own.term
        sum.value += own.value
    table[entries] = sum


cdef inline bint has_room(const SparseJob *j, const char *packed) noexcept nogil:
    """Whether all terms that were counted fit what the plan has for them."""
    cdef const pplconv_panel *last = table_of(packed) + table_entries(j)
    return last.term <= j.room.terms and last.value <= j.room.values


cdef inline void pack_range(const void *job, const char *weights, char *packed, int64_t index,
                            int64_t pieces) noexcept nogil:
    """Fill in the terms of piece `index` of `pieces` of every group's panels."""
    cdef const SparseJob *j = <const SparseJob *> job
    cdef const pplconv_panel *table = table_of(packed)
    cdef pplconv_pack_sparse_args p
    cdef int64_t group, block, panel, at, count
    if not has_room(j, packed):
        return
    p.count = &count
    for group in range(j.nest.shape.groups):
        for block in range(j.k_blocks):
            for panel in range(j.panels * index // pieces, j.panels * (index + 1) // pieces):
                at = table_index(j, group, block, panel)
                describe_panel(j, weights, group, block, panel, &p)
                p.steps = packed + j.steps_at + table[at].term * <int64_t> sizeof(int32_t)
                p.values = packed + j.values_at + table[at].value * j.nest.shape.size.weight
                p.room = table[at + 1].term - table[at].term
                j.pack_sparse(&p)


cdef inline int64_t last_place(const TapPlaces *taps, int64_t count) noexcept nogil:
    """The furthest place of `count` rows of taps, or columns."""
    cdef int64_t seen = (count - 1) * taps.dilation
    return seen // taps.stride * taps.step + least(seen, taps.stride - 1) * taps.phase


cdef inline int64_t places_of(const SparseJob *j, int64_t k) noexcept nogil:
    """How many places of the input the terms of a block of `k` may have."""
    g = &j.nest.shape.geometry
    if k == 0:
        return 0
    if not j.plan.laid:
        return k
    return ((k // j.nest.shape.taps - 1) * j.channel_step + last_place(&j.rows, g.kh)
            + last_place(&j.columns, g.kw) + 1)


cdef inline bint is_sound(const SparseJob *j, const char *packed) noexcept nogil:
    """Whether terms from elsewhere lead the loops nowhere but to weights and pixels."""
    cdef const pplconv_panel *table = table_of(packed)
    cdef const int32_t *steps = <const int32_t *> (packed + j.steps_at)
    cdef int64_t at, term, k, left, count, entries = table_entries(j)
    if table[0].term != 0 or table[0].value != 0:
        return False
    for at in range(entries):
        count = table[at + 1].term - table[at].term
        if count < 0 or count % j.plan.kr or table[at + 1].term > j.room.terms:
            return False
        if table[at + 1].value - table[at].value != count * panel_width(j, at % j.panels):
            return False
        left = at // j.panels % j.k_blocks * j.plan.k_block
        left = places_of(j, least(j.plan.k_block, j.nest.k - left))
        k = 0
        for term in range(table[at].term, table[at + 1].term):
            k += steps[term]
            if k < 0 or k >= left:
                return False
    return has_room(j, packed)
