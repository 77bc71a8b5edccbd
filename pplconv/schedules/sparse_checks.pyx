# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Checks of plans for sparse weights: none may lead the loops outside its memory."""

from libc.stdint cimport INT32_MAX, int64_t

from pplconv._kernels cimport MAX_MR, MAX_PIXELS, pplconv_panel, pplconv_run
from pplconv.schedules.base cimport Memory, ceil_div, check_offsets, least, most
from pplconv.schedules.panel_offsets cimport depth
from pplconv.schedules.sparse_job cimport LINE, SparseFields, SparseJob, table_entries


cdef int check_memory(const SparseFields *f, const Memory *m) except -1:
    """Refuse fields that contradict the memory layout of an array."""
    if not f.x_in_rows and (m.width != 1 or m.block == 0):
        raise ValueError("x_in_rows says otherwise than the arrays")
    if f.in_blocks != (f.x_in_rows and m.block != 0):
        raise ValueError("in_blocks says otherwise than the arrays")
    return 0


cdef int check_arrays(const SparseJob *j) except -1:
    """Refuse fields that contradict the arrays, and arrays that the loops cannot work on."""
    cdef const SparseFields *f = &j.plan
    s = &j.nest.shape
    g = &j.nest.shape.geometry
    check_memory(f, &s.x)
    check_memory(f, &s.y)
    if f.images != s.batch and (
            f.images != 1 or not f.x_in_rows
            or s.x.image != g.ih * s.x.row or s.x.row != g.iw * s.x.pixel
            or s.y.image != g.oh * s.y.row or s.y.row != g.ow * s.y.pixel):
        raise ValueError("pixels run on from image to image only where rows do")
    if f.images * f.pixels != s.batch * g.oh * g.ow:
        raise ValueError("images and pixels are not those of the geometry")
    if not f.packed and (s.taps != 1 or g.ih != g.oh or g.iw != g.ow or g.pad_top or g.pad_left
                         or g.stride_h != 1 or g.stride_w != 1 or s.converts_in or f.in_blocks):
        raise ValueError("only pixels of a 1x1 kernel are used as they lie")
    if f.fetches and f.packed:
        raise ValueError("only pixels that are read where they lie are fetched")
    if s.exact and (f.in_blocks or f.packed and not (f.x_in_rows or f.laid) and (
            s.taps != 1 or g.ih != g.oh or g.iw != g.ow or g.pad_top or g.pad_left
            or g.stride_h != 1 or g.stride_w != 1)):
        raise ValueError("of bytes, planes are laid, or read by a 1x1 kernel")
    if f.in_blocks and f.images != s.batch:
        raise ValueError("images of blocks lie apart")
    if f.in_blocks and not f.by_pixels and (
            s.y.width % f.sparse_panel or s.groups > 1 and s.oc % s.y.width):
        raise ValueError("a panel that is stored at once lies in one block")
    return 0


cdef int check_tiles(const SparseJob *j) except -1:
    """Refuse tiles without kernels, and blocks that panels, taps or loops do not divide."""
    cdef const SparseFields *f = &j.plan
    cdef int64_t i, needed
    if min(f.sparse_block, f.sparse_panel, f.width, f.k_block, f.hw_segment, f.parts,
           f.chunk) < 1 or f.sparse_block % f.sparse_panel:
        raise ValueError("blocks, panels and segments are at least 1, and blocks whole panels")
    needed = ceil_div(f.width, j.nest.lanes) if f.by_pixels else f.width
    if needed > (MAX_PIXELS if f.by_pixels else MAX_MR):
        raise ValueError(f"no such tile: {f.sparse_panel} channels by {f.width} pixels")
    for i in range(needed):
        if j.family.tile[i] == NULL or f.by_pixels and j.single.tile[i] == NULL:
            raise ValueError(f"no kernel for a tile of {i + 1} of {needed}")
    if f.by_pixels and (f.width % j.nest.lanes or j.single.lanes != j.nest.lanes):
        raise ValueError("tiles of pixels are whole vectors")
    if f.by_pixels and not f.laid and f.hw_segment % f.width and f.hw_segment < f.pixels:
        raise ValueError("hw_segment must be whole tiles")
    if not f.by_pixels and not f.x_in_rows:
        raise ValueError("vectors run over channels where those are neighbours")
    if f.k_block < j.nest.k and (f.x_in_rows and not f.laid or f.k_block % j.nest.shape.taps):
        raise ValueError("k_block must be whole channels of planes, or all of K")
    if f.chunk < f.sparse_panel:
        raise ValueError("a chunk has a panel at least")
    return 0


cdef int check_laid(SparseJob *j) except -1:
    """Refuse laid rows that do not match the taps' reads; store how steps of terms are counted."""
    cdef const SparseFields *f = &j.plan
    cdef (int64_t, int64_t) seen
    cdef int64_t largest
    g = &j.nest.shape.geometry
    # For packed pixels, each k is a row of its own.
    j.rows.dilation = j.rows.stride = j.columns.dilation = j.columns.stride = 1
    j.rows.phase = j.columns.phase = 0
    j.channel_block = 1
    j.channel_step, j.rows.step, j.columns.step = j.nest.shape.taps, g.kw, 1
    if f.x_in_rows and not f.laid:
        j.channel_block = most(j.nest.shape.ic, 1)
        j.channel_step, j.rows.step, j.columns.step = 1, j.nest.shape.ic * g.kw, j.nest.shape.ic
    if not f.laid:
        return 0
    if not f.by_pixels or not f.packed or f.images != j.nest.shape.batch:
        raise ValueError("rows of each image are laid for vectors of pixels")
    if min(f.slab_rows, f.laid_row, f.row_phases, f.column_phases) < 1:
        raise ValueError("laid planes have rows, and those have elements")
    seen = (g.kh - 1) * g.dilation_h, (g.kw - 1) * g.dilation_w
    if (f.row_phases < least(g.stride_h, seen[0] + 1)
            or f.column_phases < least(g.stride_w, seen[1] + 1)):
        raise ValueError("fewer phases of rows and columns are laid than what is seen")
    if f.laid_row < g.ow + seen[1] // g.stride_w:
        raise ValueError("laid rows are shorter than what goes into them")
    if f.hw_segment % most(g.ow, 1):
        raise ValueError("hw_segment must be whole rows")
    if f.slab_rows < least(f.hw_segment // most(g.ow, 1), g.oh) + seen[0] // g.stride_h:
        raise ValueError("fewer rows are laid than what is seen")
    # Divided, not multiplied: products of the sizes might overflow.
    largest = f.laid_plane // f.slab_rows // f.laid_row // f.row_phases // f.column_phases
    if f.laid_plane % j.nest.lanes or largest < 1:
        raise ValueError("laid planes are smaller than what goes into them")
    if g.ih * g.iw > INT32_MAX or f.laid_plane * most(j.nest.shape.ic, 1) > INT32_MAX:
        raise ValueError("laid planes are larger than steps can say")
    j.channel_step = f.laid_plane
    j.rows.dilation, j.rows.stride = g.dilation_h, g.stride_h
    j.columns.dilation, j.columns.stride = g.dilation_w, g.stride_w
    j.rows.step, j.columns.step = f.laid_row, 1
    j.columns.phase = f.slab_rows * f.laid_row
    j.rows.phase = f.column_phases * j.columns.phase
    return 0


cdef int check_scratch(const SparseJob *j, int64_t tasks, int64_t thread_scratch) except -1:
    """Refuse scratch whose parts overlap or are too small for their contents."""
    cdef const SparseFields *f = &j.plan
    cdef int64_t e = j.nest.shape.size.operand, s = j.nest.shape.size.sum
    cdef int64_t rows = 0, panel = 0, runs = 0, tile = 0, plane = 0, slab = 0, entries, spanned
    cdef bint transposes = f.by_pixels and f.x_in_rows
    g = &j.nest.shape.geometry
    check_offsets(j.at, e)
    if j.at.tile_offset % s or j.at.plane_offset % s:
        raise ValueError("offsets are whole elements")
    if f.packed and f.x_in_rows and not f.laid:
        if j.at.packed_row < j.nest.k * e:
            raise ValueError("rows of the scratch are shorter than what goes into them")
        rows = f.width * j.at.packed_row
    if f.laid:
        # A tile reads past the last row of the last plane.
        panel = (j.nest.shape.ic * f.laid_plane + f.width) * e
    elif transposes or f.packed and not f.x_in_rows:
        panel = f.k_block * f.width
        if panel >= INT32_MAX:
            raise ValueError("packed pixels of a task are counted in 32 bits")
        panel *= e
        if not f.x_in_rows:
            if j.at.panel_offset:
                raise ValueError("pixels of planes are packed where the scratch begins")
            entries = (ceil_div(f.width, j.nest.lanes) + ceil_div(f.width, most(g.ow, 1)) + 3)
            runs = j.nest.shape.taps * entries * <int64_t> sizeof(pplconv_run)
    if transposes or f.laid or j.nest.shape.converts_out:
        tile = (f.chunk if j.k_blocks == 1 else j.nest.shape.oc) * f.width * s
        plane = f.chunk * f.width * s if transposes and j.nest.shape.converts_out else 0
    if f.laid:
        if j.nest.shape.converts_in and (f.x_in_rows or g.stride_w != 1):
            slab = (most(j.nest.shape.ic, f.slab_rows) * f.laid_row * j.nest.shape.size.source)
    elif f.packed and j.nest.shape.converts_in and (f.x_in_rows or not j.nest.shape.exact):
        spanned = least(ceil_div(f.width - 1, most(g.ow, 1)) + 1, g.oh)
        spanned = (spanned - 1) * g.stride_h + (g.kh - 1) * g.dilation_h + 1
        if f.slab_rows < least(spanned, g.ih):
            raise ValueError("the slab has fewer rows than what goes into it")
        if f.slab_channels < 1 or f.x_in_rows and f.slab_channels < least(
                j.nest.shape.ic, j.nest.shape.x.width):
            raise ValueError("the slab has fewer channels than what goes into it")
        slab = f.slab_channels * f.slab_rows * g.iw * e
    if tasks and (j.at.panel_offset < rows or j.at.runs_offset < j.at.panel_offset + panel
                  or j.at.tile_offset < j.at.runs_offset + runs
                  or j.at.plane_offset < j.at.tile_offset + tile
                  or j.at.slab_offset < j.at.plane_offset + plane
                  or thread_scratch < j.at.slab_offset + slab):
        raise ValueError("the scratch is too small")
    return 0


cdef int check_plan(SparseJob *j, int64_t tasks, int64_t thread_scratch) except -1:
    """Count a plan's panels and blocks; refuse it if the loops would leave its memory."""
    cdef const SparseFields *f = &j.plan
    cdef int64_t whole, rest
    check_arrays(j)
    check_tiles(j)
    whole = j.nest.shape.oc // f.sparse_block * f.sparse_block
    rest = j.nest.shape.oc - whole
    j.whole_panels = whole // f.sparse_panel
    j.panels = j.whole_panels + (rest if f.by_pixels else ceil_div(rest, f.sparse_panel))
    j.k_blocks = most(ceil_div(j.nest.k, f.k_block), 1)
    j.hw_segments = ceil_div(f.pixels, f.hw_segment)
    check_laid(j)
    check_scratch(j, tasks, thread_scratch)
    if tasks != j.nest.shape.groups * f.images * j.hw_segments * f.parts:
        raise ValueError("the tasks are not those of the segments")
    return 0


cdef int64_t weight_places(SparseJob *j) except -1:
    """Store where steps and values of packed weights begin; return the size of packed weights."""
    cdef int64_t entries = table_entries(j) + 1
    j.steps_at = depth(entries * <int64_t> sizeof(pplconv_panel), LINE)
    j.values_at = j.steps_at + depth(j.room.terms * 4, LINE)
    return j.values_at + j.room.values * j.nest.shape.size.weight
