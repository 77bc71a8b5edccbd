# cython: cdivision=True
"""How the GEMM nest packs weights: the panels that its tiles read."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from pplconv._kernels cimport pplconv_pack_weights_args
from pplconv.schedules.base cimport ceil_div, least
from pplconv.schedules.gemm_job cimport GemmJob
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
