# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Weights for Winograd's loops: kernels become subkernels of r x r taps, then packed panels."""

from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from pplconv._kernels cimport pplconv_winograd_weights_args
from pplconv.schedules.base cimport ceil_div, least
from pplconv.schedules.panel_offsets cimport Share, depth, offset_in, share_of
from pplconv.schedules.winograd_job cimport WinogradJob


cdef enum:
    GATHERED = 1 << 15  # bytes of subkernels that are gathered at a time


cdef inline void pack_subkernels(const WinogradJob *j, const char *filters, char *packed,
                                 pplconv_winograd_weights_args *p) noexcept nogil:
    """Transform and pack some panels of a group, whose kernels are cut into subkernels."""
    cdef char gathered[GATHERED]
    cdef int64_t r = j.plan.r, e = j.shape.size.weight, width = j.panels.width
    cdef int64_t kh = j.shape.geometry.kh, kw = j.shape.geometry.kw
    cdef int64_t most_channels = GATHERED // (width * r * r * e)
    cdef int64_t begin = p.oc_begin, end = p.oc_end
    cdef int64_t panel, o, k, c, i, y, top, left, count, valid, filter
    cdef char *to
    p.src = gathered
    p.oc_begin = 0
    for panel in range(begin // width, ceil_div(end, width)):
        o = panel * width
        valid = least(end - o, width)
        p.oc_end = valid
        k = 0
        while k < j.depth:
            c = k % j.shape.ic
            count = least(most_channels, j.shape.ic - c)
            top, left = k // j.shape.ic // j.across * r, k // j.shape.ic % j.across * r
            memset(gathered, 0, valid * count * r * r * e)
            for i in range(valid * count):
                to = gathered + i * r * r * e
                filter = (o + i // count) * j.shape.ic + c + i % count
                for y in range(least(kh - top, r)):
                    memcpy(to + y * r * e, filters + ((filter * kh + top + y) * kw + left) * e,
                           least(kw - left, r) * e)
            p.ic = p.ic_padded = count
            p.dst = packed + offset_in(&j.panels, o, k)
            j.weights(p)
            k += count
    p.oc_begin, p.oc_end = begin, end


cdef inline void pack_range(const void *job, const char *weights, char *packed, int64_t index,
                            int64_t pieces) noexcept nogil:
    """Transform and pack piece `index` of `pieces` of every group's panels."""
    cdef const WinogradJob *j = <const WinogradJob *> job
    cdef pplconv_winograd_weights_args p
    cdef Share share = share_of(&j.panels, index, pieces)
    cdef int64_t group
    cdef int64_t filters = j.shape.oc * j.shape.ic * j.shape.taps * j.shape.size.weight
    p.dst_ps = j.panels.bytes
    p.oc_begin, p.oc_end = share.begin, share.end
    p.ic = j.shape.ic
    p.ic_padded = depth(j.shape.ic, j.panels.kr)
    p.panel_width = j.panels.width
    if p.oc_begin >= p.oc_end:
        return
    for group in range(j.shape.groups):
        p.src = weights + group * filters
        p.dst = packed + group * j.positions * j.panels.bytes
        if j.cut:
            pack_subkernels(j, weights + group * filters, <char *> p.dst, &p)
        else:
            j.weights(&p)
