# cython: cdivision=True
"""How the GEMM nest packs weights: the panels that its tiles read."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from pplconv._kernels cimport PPLCONV_B_PADDED, pplconv_gemm_args, pplconv_pack_weights_args
from pplconv.schedules.base cimport Tensors, ceil_div, least
from pplconv.schedules.gemm_job cimport GemmJob, Product, source_at, weights_at
from pplconv.schedules.nest_job cimport Tile
from pplconv.schedules.panels cimport Share, bytes_of, share_of


cdef inline void pack_panels(const GemmJob *j, pplconv_pack_weights_args *p,
                             Share share) noexcept nogil:
    """Pack panels of a group, with zeros behind K where steps are longer than groups of k."""
    cdef int64_t used = bytes_of(&j.panels, j.nest.k), left = j.panels.panel_bytes - used, panel
    cdef char *packed = <char *> p.dst
    if left == 0:
        j.nest.pack_weights(p)
        return
    for panel in range(share.begin // j.panels.width, ceil_div(share.end, j.panels.width)):
        p.oc_begin = panel * j.panels.width
        p.oc_end = least(p.oc_begin + j.panels.width, share.end)
        # The kernel counts panels without the zeros.
        p.dst = packed + panel * left
        j.nest.pack_weights(p)
        memset(packed + panel * j.panels.panel_bytes + used, 0, left)


cdef inline void pack_range(const void *job, const char *weights, char *packed, int64_t index,
                            int64_t pieces) noexcept nogil:
    """Pack piece `index` of `pieces` of every group's panels."""
    cdef const GemmJob *j = <const GemmJob *> job
    cdef pplconv_pack_weights_args p
    cdef Share share = share_of(&j.panels, index, pieces)
    cdef int64_t group
    p.oc_begin, p.oc_end = share.begin, share.end
    p.ic = j.nest.shape.ic
    p.taps = j.nest.shape.taps
    p.panel_width, p.kr = j.panels.width, j.panels.kr
    p.channel_block = j.nest.shape.ic if j.plan.x_in_rows else 1
    p.src_os, p.src_ks = j.weights_column, j.weights_row
    if j.nest.shape.converts_weights:  # what was converted is dense
        p.src_os, p.src_ks = j.nest.k * j.nest.shape.size.weight, j.nest.shape.size.weight
    for group in range(j.nest.shape.groups):
        p.src = weights + group * (j.nest.shape.oc * p.src_os if j.nest.shape.converts_weights
                                   else j.weights_group)
        p.dst = packed + group * j.panels.bytes
        pack_panels(j, &p, share)


cdef inline void pack_own(const GemmJob *j, const Tensors *t, const Tile *tile,
                          char *packed) noexcept nogil:
    """Pack the task's part of a matrix (k, oc) or (oc, k): its output channels, a block of K."""
    cdef pplconv_pack_weights_args p
    p.src = source_at(j, t, tile)
    p.dst = packed
    p.oc_begin, p.oc_end = 0, tile.channels
    p.ic = tile.k_end - tile.k_begin
    p.taps = p.channel_block = 1
    p.panel_width, p.kr = j.panels.width, j.panels.kr
    p.src_os, p.src_ks = j.weights_column, j.weights_row
    j.nest.pack_weights(&p)


cdef inline void find_weights(const GemmJob *j, const Tensors *t, const Tile *tile, Product *p,
                              pplconv_gemm_args *g, char *scratch) noexcept nogil:
    """Point to the tile's weights, where they run in vectors."""
    if j.plan.weights_in_place:
        p.b = source_at(j, t, tile)
        p.b_across = j.plan.nr * j.nest.shape.size.weight
        g.b_ks = j.weights_row
    else:
        p.b = weights_at(j, t, tile)
        p.b_across = j.panels.panel_bytes
        g.b_ks = j.panels.down
        if j.panels.width == j.plan.nr and tile.channel % j.panels.width == 0:
            g.flags |= PPLCONV_B_PADDED
    if j.plan.weights_by_task:
        p.b = scratch + j.at.weights_offset
        p.b_across = bytes_of(&j.panels, p.k)
