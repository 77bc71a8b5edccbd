# cython: cdivision=True
"""The memory layout of packed operands: panels, in the format of the kernel that reads them.

The counterpart of ``algorithms/panels.py`` for the loops, which pack, read and check with it.
"""

from libc.stdint cimport int64_t

from pplconv._kernels cimport GemmFamily, pplconv_gemm_args
from pplconv.schedules.base cimport ceil_div, least


cdef struct Panels:
    # `n` rows or columns of a product in panels [panel][k / kr][width][kr], with zeros where either
    # ends: `kr` neighbouring k of one row or column lie side by side.
    int64_t width, kr, n
    # Bytes from one row or column of a panel to the next, from one group of k to the next and from
    # one panel to the next; of all panels.
    int64_t across, down, panel_bytes, bytes


cdef enum:
    PARTS = 4  # tiles that fetch the next panel, at most


cdef struct Share:
    # Rows or columns that one thread packs: whole panels.
    int64_t begin, end


cdef inline int64_t depth(int64_t k, int64_t kr) noexcept nogil:
    # `k` rounded up to whole groups of `kr`.
    return ceil_div(k, kr) * kr


cdef inline int64_t bytes_of(const Panels *p, int64_t k) noexcept nogil:
    # Bytes of a panel that `k` elements of each row or column take.
    return ceil_div(k, p.kr) * p.down


cdef inline int64_t offset_in(const Panels *p, int64_t index, int64_t k) noexcept nogil:
    # Bytes before a row or column, at the first k of a group.
    return (index // p.width * p.panel_bytes + index % p.width * p.across
            + k // p.kr * p.down)


cdef inline Share share_of(const Panels *p, int64_t piece, int64_t pieces) noexcept nogil:
    # The rows or columns of one of `pieces` pieces.
    cdef Share s
    cdef int64_t panels = ceil_div(p.n, p.width)
    s.begin = panels * piece // pieces * p.width
    s.end = least(panels * (piece + 1) // pieces * p.width, p.n)
    return s


cdef inline int check_panels(int64_t width, int64_t kr, const GemmFamily *gemm, int64_t side,
                             bint whole) except -1:
    # Refuse panels that the kernels do not read. `side` is the side of the tile; a panel may be
    # narrower unless `whole` is set.
    if kr != gemm.kr:
        raise ValueError(f"kr is {kr}, but the kernels take {gemm.kr} k together")
    if width < 1 or width > side or whole and width != side:
        raise ValueError(f"panel_width is {width}, but the tile that reads it has {side}")
    return 0


cdef inline Panels panels_of(int64_t width, int64_t kr, int64_t n, int64_t k,
                             int64_t element) noexcept nogil:
    # Panels that `check_panels` has seen: `n` rows or columns of `k` elements.
    cdef Panels p
    p.width, p.kr, p.n = width, kr, n
    p.across = kr * element
    p.down = width * p.across
    p.panel_bytes = bytes_of(&p, k)
    p.bytes = ceil_div(n, width) * p.panel_bytes
    return p


cdef inline void fetch_panel(pplconv_gemm_args *g, int64_t across, int64_t piece,
                             int64_t pieces) noexcept nogil:
    """Let tile `piece` of those that share a panel fetch a part of the one `across` bytes on.

    The first tile has loaded this panel. A cache line takes as long from memory as several
    products, so the tiles after the first share the work of fetching the next panel.
    """
    cdef int64_t parts = least(pieces - 1, PARTS)
    if piece > parts:
        return
    g.b_ahead_ks = g.b_ks // parts
    g.b_ahead = across + (piece - 1) * (g.k * g.b_ahead_ks)
