"""The loops on few channel planes compiled: see ``plane_loops.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport GemmFamily, pplconv_geometry, pplconv_kernel
from pplconv.schedules.base cimport Schedule, Shape
from pplconv.schedules.panel_offsets cimport Panels


cdef struct PlanesFields:
    # The candidate's decisions: members have the names of its `own_fields`, from which Cython fills
    # them by name.
    int64_t mr, nr, panel_width, kr
    # Task = (image, group, row segment).
    int64_t row_segment
    # Rows of the slab, and elements of a row.
    int64_t slab_rows, slab_width


cdef struct PlanesOffsets:
    # Offsets in a thread's scratch: after the list of segments come the table of runs and the slab.
    int64_t runs_offset, slab_offset


cdef struct PlanesJob:
    Shape shape
    PlanesFields plan
    PlanesOffsets at
    # How the weights of a group are packed.
    Panels panels
    # The geometry by which `pack_pixels` copies the padded image.
    pplconv_geometry around
    # Elements of a channel in the slab.
    int64_t plane
    int64_t lanes, row_segments
    GemmFamily gemm
    pplconv_kernel pack_pixels, pack_weights


cdef class PlanesSchedule(Schedule):
    cdef PlanesJob own
