# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Checks of the GEMM nest's plans: none may lead the loops outside its memory."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_run
from pplconv.schedules.base cimport ceil_div, check_offsets, check_tile, least, most
from pplconv.schedules.gemm_job cimport GemmFields, GemmJob
from pplconv.schedules.nest_job cimport NestFields
from pplconv.schedules.panel_offsets cimport check_panels, depth, panels_of


cdef int64_t pixel_tasks(const GemmFields *f) noexcept:
    """Tasks that share an image's pixels; a task that packs its own weights takes all of them."""
    return least(f.pixels, 1) if f.weights_by_task else ceil_div(f.pixels, f.hw_segment)


cdef int check_scratch(const GemmJob *j, int64_t tasks, int64_t thread_scratch) except -1:
    """Refuse scratch in which packed pixels, runs and tile overlap or do not fit."""
    cdef const GemmFields *f = &j.plan
    cdef const NestFields *n = &j.nest.plan
    cdef int64_t e = j.nest.shape.size.operand, packed = 0, runs = 0, tile = 0, width, entries
    check_offsets(j.at, e)
    check_offsets(j.nest.at, e)
    if n.packed_row % e or f.tile_row % e:
        raise ValueError("offsets are whole elements")
    if f.packed and f.x_in_rows:
        if n.packed_row < depth(least(f.k_block, j.nest.k), f.k_step) * e:
            raise ValueError("rows of the scratch are shorter than what goes into them")
        packed = f.hw_segment * n.packed_row
    elif f.packed:
        # Runs end with whole vectors; vectors over pixels are read up to a tile's width.
        width = ceil_div(f.hw_segment, j.nest.lanes) * j.nest.lanes
        if f.pixel_panel < width if f.channels_in_vectors else f.pixel_panel != f.nr:
            raise ValueError("panels of pixels are not as wide as what reads them")
        packed = panels_of(f.pixel_panel, f.kr, f.hw_segment, f.k_block, 1).bytes
        if packed >= 1 << 31:
            raise ValueError("packed pixels of a task are counted in 32 bits")
        packed *= e
        # A run ends with a vector, a row, a panel or the segment.
        entries = least(f.hw_segment, f.pixels)
        entries = (ceil_div(entries, j.nest.lanes) + ceil_div(entries, j.nest.shape.geometry.ow) + 1
                   + 2 * ceil_div(entries, f.pixel_panel)) if entries else 0
        runs = j.nest.shape.taps * entries * sizeof(pplconv_run)
    if f.channels_in_vectors and not f.y_in_rows:
        width = 1 if f.k_block >= j.nest.k else ceil_div(least(f.oc_segment, j.nest.shape.oc), f.nr)
        width *= f.nr
        if f.tile_row < width * j.nest.shape.size.sum:
            raise ValueError("rows of the tile are shorter than what goes into them")
        tile = f.hw_segment * f.tile_row
    if (j.nest.at.runs_offset < packed or j.at.tile_offset < j.nest.at.runs_offset + runs
            or (tasks and thread_scratch < j.at.tile_offset + tile)):
        raise ValueError("the scratch is too small")
    if f.copied or j.nest.shape.converts_in or j.nest.shape.converts_out:
        check_converted(j, tasks, thread_scratch, tile)
    return 0


cdef int check_converted(const GemmJob *j, int64_t tasks, int64_t thread_scratch,
                         int64_t tile) except -1:
    """Refuse scratch in which converted arrays overlap or do not fit.

    `tile` is the size of the tile that is stored transposed.
    """
    cdef const GemmFields *f = &j.plan
    cdef const NestFields *n = &j.nest.plan
    cdef int64_t e = j.nest.shape.size.operand, rows, columns, spanned
    cdef int64_t block = 0, planes = 0, slab = 0
    g = &j.nest.shape.geometry
    if f.plane_row % e:
        raise ValueError("offsets are whole elements")
    if f.copied:
        rows, columns = f.hw_segment, depth(least(f.k_block, j.nest.k), f.k_step)
        if not f.x_in_rows:
            rows, columns = columns, rows
        if n.packed_row < columns * e:
            raise ValueError("rows of the scratch are shorter than what goes into them")
        block = rows * n.packed_row
    elif j.nest.shape.converts_in:
        spanned = least(ceil_div(f.hw_segment - 1, most(g.ow, 1)) + 1, g.oh)
        spanned = (spanned - 1) * g.stride_h + (g.kh - 1) * g.dilation_h + 1
        if n.slab_rows < least(spanned, g.ih):
            raise ValueError("the slab has fewer rows than what goes into it")
        if n.slab_channels < 1 or (f.x_in_rows and n.slab_channels < least(
                j.nest.shape.ic, j.nest.shape.x.width)):
            raise ValueError("the slab has fewer channels than what goes into it")
        slab = n.slab_channels * n.slab_rows * g.iw * e
    if not j.nest.shape.converts_out:
        pass
    elif f.channels_in_vectors and not f.y_in_rows:
        if f.plane_row < f.hw_segment * j.nest.shape.size.sum:
            raise ValueError("planes are smaller than what goes into them")
        planes = f.nr * f.plane_row
    else:
        rows, columns = f.oc_segment, f.hw_segment
        if f.channels_in_vectors:
            rows, columns = columns, rows
        if f.k_block >= j.nest.k:
            rows, columns = f.mr, f.nr * f.finish_panels
        if f.tile_row < columns * j.nest.shape.size.sum:
            raise ValueError("rows of the tile are shorter than what goes into them")
        tile = rows * f.tile_row
    if tasks and (j.nest.at.runs_offset < block or j.at.plane_offset < j.at.tile_offset + tile
                  or j.nest.at.slab_offset < j.at.plane_offset + planes
                  or j.at.moved_offset < j.nest.at.slab_offset + slab
                  or thread_scratch < j.at.moved_offset + f.mr * f.moved_row):
        raise ValueError("the scratch is too small")
    return 0


cdef int check_own_weights(const GemmJob *j, int64_t tasks, int64_t thread_scratch) except -1:
    """Refuse weights that tasks could not read in place, or pack themselves."""
    cdef const GemmFields *f = &j.plan
    cdef int64_t size = j.nest.shape.size.weight, packed = 0
    if not (f.weights_in_place or f.weights_by_task):
        return 0
    if (f.weights_in_place and f.weights_by_task or not f.channels_in_vectors or not f.y_in_rows
            or j.nest.plan.in_blocks or j.nest.shape.converts_weights or j.nest.shape.converts_in
            or j.nest.shape.converts_out or j.nest.shape.taps != 1 or f.kr != 1
            or f.k_step != 1 or f.panel_width != f.nr):
        raise ValueError("only weights of a matrix product are not packed before")
    if f.weights_in_place and j.weights_column != size:
        raise ValueError("weights that are read as they lie are neighbours in rows")
    if f.weights_by_task:
        packed = panels_of(f.nr, 1, least(f.oc_segment, j.nest.shape.oc),
                           least(f.k_block, j.nest.k), size).bytes
    if tasks and (j.at.weights_offset < j.at.tile_offset
                  or thread_scratch < j.at.weights_offset + packed):
        raise ValueError("the scratch is too small")
    return 0


cdef int check_plan(const GemmJob *j, int64_t tasks, int64_t thread_scratch) except -1:
    """Refuse a plan that the loops could not carry out inside its memory."""
    cdef const GemmFields *f = &j.plan
    cdef const NestFields *n = &j.nest.plan
    s = &j.nest.shape
    g = &j.nest.shape.geometry
    check_tile(&j.gemm, f.mr, f.nr)
    if (not f.x_in_rows and (s.x.width != 1 or s.x.block == 0)
            or not f.y_in_rows and (s.y.width != 1 or s.y.block == 0)):
        raise ValueError("x_in_rows or y_in_rows says otherwise than the arrays")
    if (n.in_blocks != (f.x_in_rows and s.x.block != 0)
            or n.in_blocks != (f.y_in_rows and s.y.block != 0)):
        raise ValueError("in_blocks says otherwise than the arrays")
    if f.images != s.batch and (
            f.images != 1 or not f.x_in_rows or not f.y_in_rows
            or s.x.image != g.ih * s.x.row or s.x.row != g.iw * s.x.pixel
            or s.y.image != g.oh * s.y.row or s.y.row != g.ow * s.y.pixel):
        raise ValueError("pixels run on from image to image only where rows do")
    if f.images * f.pixels != s.batch * g.oh * g.ow:
        raise ValueError("images and pixels are not those of the geometry")
    if n.in_blocks and not f.packed:
        raise ValueError("channels in blocks must be packed")
    if not f.packed and (s.taps != 1 or g.ih != g.oh or g.iw != g.ow or g.pad_top
                         or g.pad_left or g.stride_h != 1 or g.stride_w != 1):
        raise ValueError("only pixels of a 1x1 kernel are used as they lie")
    if min(f.k_block, f.oc_segment, f.hw_segment, f.group_segment, f.finish_panels) < 1:
        raise ValueError("blocks and segments are at least 1")
    if f.finish_panels > 1 and (not s.exact or not f.y_in_rows or f.pixels_inner
                                or not f.channels_in_vectors):
        raise ValueError("only integer sums of neighbouring channels wait for one another")
    check_panels(f.panel_width, f.kr, &j.gemm, f.nr if f.channels_in_vectors else f.mr,
                 not n.in_blocks)
    if f.channels_in_vectors and not f.y_in_rows and not f.pixels_inner:
        raise ValueError("a panel that is stored transposed has its pixels innermost")
    if not f.channels_in_vectors and (f.x_in_rows or f.y_in_rows):
        raise ValueError("where channels are neighbours, vectors run over output channels")
    if f.oc_segment % f.panel_width and f.oc_segment < s.oc:
        raise ValueError("oc_segment must be whole panels")
    if not f.channels_in_vectors and f.hw_segment % j.nest.lanes and f.hw_segment < f.pixels:
        raise ValueError("hw_segment must be whole vectors")
    if f.packed and not f.x_in_rows and f.k_block % s.taps:
        raise ValueError("k_block must be whole channels")
    if n.in_blocks and f.k_block < j.nest.k and f.k_block % s.ic:
        raise ValueError("k_block must be whole taps")
    if f.copied != (not f.packed and (s.converts_in or j.nest.k % f.kr != 0)):
        raise ValueError("copied says otherwise than types and groups of k")
    if f.kr > 1 and not (f.x_in_rows and f.y_in_rows and f.channels_in_vectors
                         and not n.in_blocks):
        raise ValueError("kernels that take several k together want pixels in rows")
    if f.k_step < f.kr or f.k_step % f.kr or f.k_step > f.kr and not (
            s.exact and f.x_in_rows and f.channels_in_vectors):
        raise ValueError("only integer sums of pixels in rows have zeros behind them")
    if f.moved_row and (not s.exact or f.packed or f.copied or f.pixels_inner
                        or not f.x_in_rows
                        or f.moved_row < depth(least(f.k_block, j.nest.k), f.k_step)):
        raise ValueError("only rows of bytes are moved, which stay for all panels")
    if f.k_block < j.nest.k and f.k_block % f.kr:
        raise ValueError("k_block must be whole groups of kr")
    check_scratch(j, tasks, thread_scratch)
    check_own_weights(j, tasks, thread_scratch)
    if tasks != (f.images * ceil_div(s.oc, f.oc_segment)
                 * pixel_tasks(f) * ceil_div(s.groups, f.group_segment)):
        raise ValueError("the tasks are not those of the segments")
    return 0
