# cython: boundscheck=False, wraparound=False
"""The kernel table: the registry of ``asm/`` as it was built for this machine.

The bottom layer of the package. It knows which kernels exist and their addresses, and nothing about
convolution; every other module reaches a kernel through it.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport strcmp

cdef extern from "pplconv_kernels.h" nogil:
    int64_t pplconv_pixel_runs(const pplconv_geometry *geometry, int64_t first, int64_t pixels,
                               int64_t lanes, int64_t width, int64_t panel_elements,
                               pplconv_run *runs)
    void pplconv_cpuid(uint32_t leaf, uint32_t subleaf, uint32_t *out)
    uint64_t pplconv_xgetbv(uint32_t index)
    int32_t pplconv_permit_tiles()
    uint64_t pplconv_auxval(uint64_t type)
    uint64_t pplconv_midr()

# The most products that kernels add up in half precision; longer sums are cut into such chains.
HALF_CHAIN = PPLCONV_HALF_CHAIN


cdef str word(const char *text):
    return text.decode()


cdef dict _numbers(bytes kind):
    """Return the numbers of one kind in the kernels' contract, by name."""
    cdef int32_t i
    cdef const pplconv_number_row *row
    cdef dict found = {}
    for i in range(pplconv_number_count):
        row = &pplconv_number_table[i]
        if row.kind == kind:
            found[word(row.name)] = row.value
    return found


# Numbers in the kernels' contract: instructions of element-wise programs, their registers, the
# instructions that `curve` computes, those of programs of integers, and the types that streams
# convert; kinds of pooling and of reduction; types of an image's pixels.
INSTRUCTIONS = _numbers(b"DO")
MOST_REGISTERS = PPLCONV_MOST_REGISTERS
CURVES = frozenset(_numbers(b"CURVE"))
OF_INTEGERS = frozenset(_numbers(b"WHOLE"))
STORED = {name.lower(): number for name, number in _numbers(b"STORED").items()}
POOLINGS = _numbers(b"POOL")
REDUCTIONS = _numbers(b"REDUCE")
SUMS = {name.lower(): number for name, number in _numbers(b"SUMS").items()}
PIXELS = {name.lower(): number for name, number in _numbers(b"PIXELS").items()}


cdef dict _row(const pplconv_kernel_row *row):
    return {
        "symbol": word(row.symbol),
        "op": word(row.op),
        "dtype": word(row.dtype),
        "isa": word(row.isa),
        "tuning": word(row.tuning),
        "mr": row.mr,
        "nr": row.nr,
        "kr": row.kr,
        "vector_bytes": row.vector_bytes,
        "lanes": row.lanes,
        "address": <size_t> row.function,
    }


def rows():
    """List the kernels of this build.

    Returns
    -------
    list of dict
        ``symbol``, ``op``, ``dtype`` ("f16", "f32" or "f64"), ``isa``, ``tuning`` (the kind of
        cores for which a variant is made, else empty), the tile ``mr`` x ``nr`` x ``kr`` (0 without
        a tile), ``vector_bytes``, ``lanes`` (sums in a vector) and ``address`` (of the
        function).
    """
    cdef int32_t i
    return [_row(&pplconv_kernel_table[i]) for i in range(pplconv_kernel_count)]


# Read when a family is looked up; variants compute the same bits, so plans do not depend on it.
cdef bytes _tuning = b""


def tune(str tuning):
    """Prefer GEMM kernels for one kind of cores from now on, where the build has them.

    Parameters
    ----------
    tuning : str
        ``"inorder"``, or empty for the kernels that suit any core (the default).
    """
    global _tuning
    _tuning = tuning.encode()


cdef const pplconv_kernel_row *_find(bytes op, bytes dtype, bytes isa,
                                     int mr=0, int nr=0, int kr=0) except? NULL:
    cdef int32_t i
    cdef const pplconv_kernel_row *row
    # Not `bytes` of each row: the table has thousands, and a network looks up hundreds of kernels.
    cdef const char *wanted_op = op
    cdef const char *wanted_dtype = dtype
    cdef const char *wanted_isa = isa
    for i in range(pplconv_kernel_count):
        row = &pplconv_kernel_table[i]
        if row.mr != mr or row.nr != nr or row.kr != kr or row.tuning[0]:
            continue
        if strcmp(row.op, wanted_op) or strcmp(row.dtype, wanted_dtype):
            continue
        if strcmp(row.isa, wanted_isa) == 0:
            return row
    return NULL


cdef bytes _below(bytes isa):
    """The level below one, empty below the lowest."""
    cdef int32_t i
    for i in range(pplconv_isa_count):
        if pplconv_isa_table[i].isa == isa:
            return pplconv_isa_table[i].below
    return b""


cdef const pplconv_kernel_row *_find_down(bytes op, bytes dtype, bytes isa, int mr,
                                          int nr, int kr) except? NULL:
    """The kernel of `isa`, or of the next level below it that has one."""
    cdef const pplconv_kernel_row *row = NULL
    while isa and row == NULL:
        row = _find(op, dtype, isa, mr, nr, kr)
        isa = _below(isa)
    return row


def ladder(str isa):
    """List the levels whose kernels serve `isa`, itself first."""
    cdef bytes level = isa.encode()
    found = []
    while level:
        found.append(level.decode())
        level = _below(level)
    return found


def serving(str op, str dtype, str isa, int mr=0, int nr=0, int kr=0):
    """Return the symbol of the kernel that `isa` calls; it may be of a lower level.

    Raises
    ------
    LookupError
        If no level has one.
    """
    cdef const pplconv_kernel_row *row = _find_down(op.encode(), dtype.encode(), isa.encode(),
                                                    mr, nr, kr)
    if row == NULL:
        raise LookupError(_lack(op, dtype, mr, nr, kr))
    return word(row.symbol)


cdef str _lack(str op, str dtype, int mr, int nr, int kr):
    tile = f" {mr}x{nr}" if mr else ""
    depth = f" of kr {kr}" if kr > 1 else ""
    return f"no kernel for {op}{tile}{depth} in {dtype}"


cdef pplconv_kernel find(str op, str dtype, str isa, int mr=0, int nr=0,
                         int kr=0) except NULL:
    """Find the kernel with this tile (0: no tile), from `isa` down the ladder."""
    cdef const pplconv_kernel_row *row = _find_down(op.encode(), dtype.encode(), isa.encode(),
                                                    mr, nr, kr)
    if row == NULL:
        raise LookupError(_lack(op, dtype, mr, nr, kr))
    return row.function


cdef pplconv_kernel find_if_any(str op, str dtype, str isa) except? NULL:
    """Find the kernel from `isa` down the ladder; NULL if there is none."""
    cdef const pplconv_kernel_row *row = _find_down(op.encode(), dtype.encode(), isa.encode(),
                                                    0, 0, 0)
    return row.function if row != NULL else NULL


cdef int find_gemm_family(str dtype, str isa, int kr, GemmFamily *family) except -1:
    """Fill `family` with every GEMM tile of one dtype, ISA and KR."""
    cdef int32_t i, v, m
    cdef const pplconv_kernel_row *row
    cdef bytes dtype_bytes = dtype.encode(), isa_bytes = isa.encode()
    cdef const char *wanted_dtype = dtype_bytes
    cdef const char *wanted_isa = isa_bytes
    for v in range(MAX_VECTORS):
        for m in range(MAX_MR):
            family.tile[v][m] = NULL
    family.lanes = 0
    family.kr = kr
    for i in range(pplconv_kernel_count):
        row = &pplconv_kernel_table[i]
        if row.kr != kr or strcmp(row.op, b"gemm"):
            continue
        if strcmp(row.dtype, wanted_dtype) or strcmp(row.isa, wanted_isa):
            continue
        # Variants come after the kernels that they replace.
        if row.tuning != b"" and row.tuning != _tuning:
            continue
        family.lanes = row.lanes
        v = row.nr // family.lanes
        if v > MAX_VECTORS or row.mr > MAX_MR:
            raise LookupError(f"{word(row.symbol)} is larger than MAX_VECTORS x MAX_MR")
        family.tile[v - 1][row.mr - 1] = row.function
    if family.lanes == 0:
        raise LookupError(f"no GEMM kernels of kr {kr} for {dtype} on {isa}")
    # A row narrower than any tile is computed as a tail of the next wider tile.
    for v in range(MAX_VECTORS - 2, -1, -1):
        for m in range(MAX_MR):
            if family.tile[v][m] == NULL:
                family.tile[v][m] = family.tile[v + 1][m]
    return 0


cdef int find_sparse_family(str dtype, str isa, int panel, int kr, bint by_pixels,
                            SparseFamily *family) except -1:
    """Fill `family` with the kernels for panels of `panel` channels, from `isa` down the ladder."""
    cdef int32_t i
    cdef int index
    cdef const pplconv_kernel_row *row
    cdef bytes wanted = dtype.encode(), level = isa.encode()
    cdef bytes op = b"sparse_pixels" if by_pixels else b"sparse_channels"
    for index in range(MAX_MR):
        family.tile[index] = NULL
    family.lanes = 0
    while level and family.lanes == 0:
        for i in range(pplconv_kernel_count):
            row = &pplconv_kernel_table[i]
            if row.op != op or row.dtype != wanted or row.isa != level or row.kr != kr:
                continue
            if (row.mr if by_pixels else row.nr) != panel:
                continue
            index = row.nr // row.lanes if by_pixels else row.mr
            if index > (MAX_PIXELS if by_pixels else MAX_MR):
                raise LookupError(f"{word(row.symbol)} is larger than the loops can index")
            family.lanes = row.lanes
            family.tile[index - 1] = row.function
        level = _below(level)
    if family.lanes == 0:
        raise LookupError(f"no kernels for sparse panels of {panel}, kr {kr}, in {dtype}")
    if by_pixels:
        # Rows narrower than any tile are computed as a tail of the next wider tile.
        for index in range(MAX_PIXELS - 2, -1, -1):
            if family.tile[index] == NULL:
                family.tile[index] = family.tile[index + 1]
    return 0


cdef int64_t make_pixel_runs(const pplconv_geometry *geometry, int64_t first, int64_t pixels,
                             int64_t lanes, int64_t width, int64_t panel_elements,
                             pplconv_run *runs) noexcept nogil:
    return pplconv_pixel_runs(geometry, first, pixels, lanes, width, panel_elements, runs)


def pixel_runs(geometry, int64_t first, int64_t pixels, int64_t lanes, int64_t width,
               int64_t panel_elements, int64_t room):
    """Make the table of runs that ``pack_pixels`` reads (for tests).

    Parameters
    ----------
    geometry : sequence of 12 int
        ih, iw, oh, ow, kh, kw, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left.
    first, pixels : int
        The output pixels of the segment, in row-major order.
    lanes, width : int
        Pixels in a vector; pixels in a panel.
    panel_elements : int
        Elements from one panel to the next.
    room : int
        Runs that the table can hold.

    Returns
    -------
    bytearray
        ``struct pplconv_run []``, as many as there are.
    """
    cdef pplconv_geometry g
    (g.ih, g.iw, g.oh, g.ow, g.kh, g.kw, g.stride_h, g.stride_w,
     g.dilation_h, g.dilation_w, g.pad_top, g.pad_left) = geometry
    cdef bytearray table = bytearray(max(room, 1) * sizeof(pplconv_run))
    cdef char *start = table
    cdef int64_t count = pplconv_pixel_runs(&g, first, pixels, lanes, width, panel_elements,
                                            <pplconv_run *> start)
    return table[:count * sizeof(pplconv_run)]


def fma_peak(str isa, str dtype, int64_t iterations):
    """Run the register-only loop of one ISA's products, without the GIL.

    Parameters
    ----------
    isa : str
        A level of the ladder that this CPU can execute, and whose registers this thread may use.
    dtype : str
        An element type or, of narrow types, a product: ``"f32"``, ``"f64"``, ``"u8"``, ``"bf16t"``.
    iterations : int
        Turns of the loop.

    Returns
    -------
    int
        Operations executed, 2 a product.
    """
    cdef const pplconv_kernel_row *row = _find(b"fma_peak", dtype.encode(), isa.encode())
    if row == NULL:
        raise LookupError(f"no fma_peak kernel for {dtype} on {isa}")
    cdef pplconv_fma_peak_args args
    cdef int64_t operations = 0
    args.iterations = iterations
    args.operations = &operations
    with nogil:
        row.function(&args)
    return iterations * operations


def cpuid(uint32_t leaf, uint32_t subleaf=0):
    """Execute CPUID and return (eax, ebx, ecx, edx), or None on CPUs without the instruction."""
    cdef uint32_t out[4]
    pplconv_cpuid(0, 0, out)
    if out[0] == 0:
        return None
    pplconv_cpuid(leaf, subleaf, out)
    return out[0], out[1], out[2], out[3]


def xgetbv(uint32_t index=0):
    """Execute XGETBV, or return None where the system has not enabled it."""
    cdef uint32_t out[4]
    pplconv_cpuid(0, 0, out)
    if out[0] < 1:
        return None
    pplconv_cpuid(1, 0, out)
    if not out[2] >> 27 & 1:
        return None
    return pplconv_xgetbv(index)


def permit_tiles():
    """Ask the system to let this process use tile registers (AMX), and return whether it does.

    The permission is final, and threads and forked children have it too. The system refuses if it
    does not know the request, or if a thread of the process has an alternate signal stack that is
    too small for tiles. With the permission no such stack can be installed.
    """
    return bool(pplconv_permit_tiles())


def auxval(uint64_t kind):
    """Return a word of this process's auxiliary vector; 0 if absent, and off Linux on Arm."""
    return pplconv_auxval(kind)


def midr():
    """Return the identity of the AArch64 core that this runs on; 0 if it cannot be read."""
    return pplconv_midr()
