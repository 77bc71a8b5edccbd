# cython: cdivision=True
"""The pixels of a tile as the kernels for terms want them: one row for each k, or as they lie."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport make_pixel_runs, pplconv_pack_weights_args, pplconv_run
from pplconv.schedules.base cimport Tensors
from pplconv.schedules.nest_job cimport Tile, input_at
from pplconv.schedules.nest_pixels cimport gather_block, pack_block
from pplconv.schedules.sparse_laid cimport copy_rows
from pplconv.schedules.sparse_job cimport SparseJob


cdef struct Pixels:
    # Where k = 0 of the first pixel is; bytes from one k to the next, and from one pixel to the
    # next. `padded`: whole vectors of pixels may be read.
    const char *at
    int64_t k, pixel
    bint padded


cdef inline Pixels rows_of(const SparseJob *j, const Tensors *t, const Tile *tile,
                           char *scratch) noexcept nogil:
    """The pixels with their channels side by side: gathered, or as they lie."""
    cdef Pixels x
    x.k = j.nest.shape.size.operand
    x.padded = False
    if j.plan.packed:
        gather_block(&j.nest, t, tile, scratch)
        x.at, x.pixel = scratch, j.at.packed_row
    else:
        x.pixel = j.nest.shape.x.pixel
        x.at = input_at(&j.nest, t, tile) + tile.pixel * x.pixel
    return x


cdef inline Pixels panel_of(const SparseJob *j, const Tensors *t, Tile *tile,
                            char *scratch) noexcept nogil:
    """A row of pixels for each k of the tile's block."""
    cdef pplconv_pack_weights_args p
    cdef Pixels x, rows
    x.pixel = j.nest.shape.size.operand
    x.k = j.plan.width * x.pixel
    x.at = scratch + j.at.panel_offset
    x.padded = True
    if j.plan.laid:
        x.k = x.pixel
        x.at += (tile.k_begin // j.nest.shape.taps * j.plan.laid_plane + tile.pixel) * x.pixel
    elif j.plan.x_in_rows:
        # What packs weights of output channels by k turns rows of pixels in the same way.
        rows = rows_of(j, t, tile, scratch)
        p.src, p.src_os, p.src_ks = rows.at, rows.pixel, rows.k
        p.dst = scratch + j.at.panel_offset
        p.oc_begin, p.oc_end = 0, tile.pixels
        p.ic, p.taps = j.nest.k, 1
        p.panel_width, p.kr, p.channel_block = j.plan.width, 1, 1
        j.nest.pack_weights(&p)
    elif j.plan.packed and j.nest.shape.exact:
        # Of bytes, pixels of a 1x1 kernel alone are packed: as they are, in another type.
        copy_rows(j, input_at(&j.nest, t, tile) + tile.k_begin * j.nest.shape.x.block
                  + tile.pixel * j.nest.shape.size.source, j.nest.shape.x.block,
                  scratch + j.at.panel_offset, x.k, tile.k_end - tile.k_begin, tile.pixels)
    elif j.plan.packed:
        if tile.first:
            tile.run_count = make_pixel_runs(
                &j.nest.shape.geometry, tile.pixel, tile.pixels, j.nest.lanes, j.plan.width,
                j.nest.pixels.panel_bytes // x.pixel,
                <pplconv_run *> (scratch + j.at.runs_offset))
        pack_block(&j.nest, t, tile, scratch)
    else:
        x.k = j.nest.shape.x.block
        x.at = input_at(&j.nest, t, tile) + tile.k_begin * x.k + tile.pixel * x.pixel
        x.padded = False
    return x
