"""The calling contracts: one argument struct per operation, described once.

Every kernel of an operation takes one pointer to the operation's argument struct and
returns nothing. The C header, the compile-time offset checks, the offsets that the
assembly generators use, and the ``ctypes`` mirror in the tests are all derived from the
tables in this module, so no offset is written down twice.

All strides are in bytes. All fields are eight bytes wide, so that an offset is an index.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

POINTER = "void *"
CONST_POINTER = "const void *"
INT = "int64_t"


@dataclass(frozen=True)
class Field:
    """One eight-byte member of an argument struct."""

    name: str
    ctype: str
    meaning: str


@dataclass(frozen=True)
class Contract:
    """The argument struct of one operation.

    Parameters
    ----------
    op : str
        Operation; the struct is ``struct pplconv_<op>_args``.
    summary : str
        What a kernel of this operation computes.
    fields : tuple of Field
        Members in order.
    """

    op: str
    summary: str
    fields: tuple[Field, ...]

    @property
    def struct(self) -> str:
        """Name of the C struct, without the ``struct`` keyword."""
        return f"pplconv_{self.op}_args"

    def offset(self, name: str) -> int:
        """Byte offset of the member `name`."""
        for index, field in enumerate(self.fields):
            if field.name == name:
                return 8 * index
        raise KeyError(f"{self.struct} has no member {name!r}")

    def ctypes_structure(self) -> type[ctypes.Structure]:
        """Build the ``ctypes`` mirror of the struct (used by the kernel tests)."""
        members = [
            (f.name, ctypes.c_int64 if f.ctype == INT else ctypes.c_void_p) for f in self.fields
        ]
        return type(self.struct, (ctypes.Structure,), {"_fields_": members})

    def c_declaration(self) -> str:
        """C text of the struct and of the checks of its offsets."""
        lines = [f"/* {self.summary} */", f"struct {self.struct} {{"]
        for f in self.fields:
            space = "" if f.ctype.endswith("*") else " "
            lines.append(f"    {f.ctype}{space}{f.name}; /* {f.meaning} */")
        lines.append("};")
        for index, f in enumerate(self.fields):
            lines.append(
                f"_Static_assert(offsetof(struct {self.struct}, {f.name}) == {8 * index}, "
                f'"{self.struct}.{f.name} moved");'
            )
        return "\n".join(lines)


FLAGS = {
    "ACCUMULATE": 1,  # start from what c holds instead of zero
    "BIAS_ROW": 2,  # bias[m] is added to row m; excludes BIAS_COLUMN
    "BIAS_COLUMN": 4,  # bias[n] is added to column n; excludes BIAS_ROW
    "RESIDUAL": 8,  # residual[m, n] is added
    "CLIP": 16,  # min(max(x, clip[0]), clip[1]); NaN passes through
    "B_PADDED": 32,  # whole vectors of b may be read, whatever n is
}

GEMM = Contract(
    "gemm",
    "C[0:MR, 0:n] = epilogue(sum over segments and k of A[:, k] * B[k, :]), in ascending order",
    (
        Field("a", CONST_POINTER, "A, read one element at a time and broadcast"),
        Field("b", CONST_POINTER, "B, read in vectors along its rows"),
        Field("c", POINTER, "C, in rows of vectors; only its first n columns are touched"),
        Field("segments", CONST_POINTER, "struct pplconv_segment [segment_count]"),
        Field("segment_count", INT, "0: A and B lie at a and b; else A and B of each segment"),
        Field("k", INT, "length of the sum, of each segment if there are any; >= 0"),
        Field("a_rs", INT, "A: from one row (m) to the next"),
        Field("a_ks", INT, "A: from one k to the next; a_rs or a_ks is one element"),
        Field("b_ks", INT, "B: from one k to the next"),
        Field("b_ahead", INT, "B: how far ahead of each row to prefetch"),
        Field("c_rs", INT, "C: from one row to the next"),
        Field("c_vs", INT, "C: from one vector of a row to the next"),
        Field("n", INT, "columns, 1 <= n <= NR"),
        Field("bias", CONST_POINTER, "MR or n elements, by flag"),
        Field("residual", CONST_POINTER, "in rows of vectors like C, by flag"),
        Field("residual_rs", INT, "residual: from one row to the next"),
        Field("residual_vs", INT, "residual: from one vector of a row to the next"),
        Field("clip", CONST_POINTER, "two elements, low and high, by flag"),
        Field("flags", INT, "PPLCONV_* bits"),
    ),
)

PACK_PIXELS = Contract(
    "pack_pixels",
    "im2col of a segment of output pixels from channel planes: the runs are copied once for "
    "each channel; lanes of a run that lie outside the image become zero",
    (
        Field("src", CONST_POINTER, "plane of the first channel"),
        Field("src_cs", INT, "from one channel plane to the next"),
        Field("dst", POINTER, "packed pixels of the first channel"),
        Field("dst_cs", INT, "from one channel's packed pixels to the next"),
        Field("channels", INT, "channels to pack"),
        Field("runs", CONST_POINTER, "struct pplconv_run [run_count]"),
        Field("run_count", INT, "runs of one channel"),
        Field("stride", INT, "input columns from one output pixel to the next"),
    ),
)

PACK_ROWS = Contract(
    "pack_rows",
    "im2col of a segment of output pixels from a channels-last image: dst[pixel][k], "
    "k = (kh, kw, channel), restricted to k_begin <= k < k_end",
    (
        Field("src", CONST_POINTER, "first image, first channel of the group"),
        Field("src_ns", INT, "from one image to the next"),
        Field("src_ps", INT, "from one pixel to the next (channels of all groups)"),
        Field("dst", POINTER, "packed rows"),
        Field("dst_rs", INT, "from one packed row to the next"),
        Field("first", INT, "index of the first output pixel, counted over all images"),
        Field("pixels", INT, "output pixels to pack"),
        Field("channels", INT, "input channels of the group"),
        Field("k_begin", INT, "first k"),
        Field("k_end", INT, "one past the last k"),
        Field("geometry", CONST_POINTER, "struct pplconv_geometry"),
    ),
)

PACK_WEIGHTS = Contract(
    "pack_weights",
    "one group's weights (oc, ic, taps) into dst[panel][k][panel_width], tails zero; "
    "k = (ic, tap), or (tap, ic) if taps_first",
    (
        Field("src", CONST_POINTER, "contiguous weights of the group"),
        Field("dst", POINTER, "ceil(oc / panel_width) panels"),
        Field("oc_begin", INT, "first output channel to pack, a multiple of panel_width"),
        Field("oc_end", INT, "one past the last output channel to pack"),
        Field("ic", INT, "input channels of the group"),
        Field("taps", INT, "kh * kw"),
        Field("panel_width", INT, "output channels in a panel"),
        Field("taps_first", INT, "order of k"),
    ),
)

STORE_TRANSPOSED = Contract(
    "store_transposed",
    "dst[j, i] = epilogue(src[i, j]) for 0 <= i < rows, 0 <= j < columns",
    (
        Field("src", CONST_POINTER, "row-major, a row per pixel"),
        Field("src_rs", INT, "from one row of src to the next"),
        Field("dst", POINTER, "row-major, a row per output channel"),
        Field("dst_rs", INT, "from one row of dst to the next"),
        Field("rows", INT, "pixels"),
        Field("columns", INT, "output channels"),
        Field("bias", CONST_POINTER, "one element per column of src, by flag"),
        Field("residual", CONST_POINTER, "like dst, by flag"),
        Field("residual_rs", INT, "residual: from one row to the next"),
        Field("clip", CONST_POINTER, "two elements, low and high, by flag"),
        Field("flags", INT, "PPLCONV_* bits"),
    ),
)

FMA_PEAK = Contract(
    "fma_peak",
    "independent register-only FMA chains: the ceiling that the benchmarks measure against",
    (Field("iterations", INT, "turns of the loop"),),
)

CONTRACTS = {
    c.op: c for c in (GEMM, PACK_PIXELS, PACK_ROWS, PACK_WEIGHTS, STORE_TRANSPOSED, FMA_PEAK)
}

_HEADER = """\
/* Calling contracts of the kernels. Generated from asm/contract.py. */
#ifndef PPLCONV_KERNELS_H
#define PPLCONV_KERNELS_H

#include <stddef.h>
#include <stdint.h>

enum {{
{flags}
}};

/* One segment of a GEMM's sum: where its A and B begin, in bytes from `a` and `b`. */
struct pplconv_segment {{
    int64_t a, b;
}};
_Static_assert(sizeof(struct pplconv_segment) == 16, "struct pplconv_segment grew");

/* One run of output pixels of one image row, for one tap: `lanes` packed elements from
 * `dst` on, of which those from `begin` up to `end` come from the image and the others are
 * padding. Lane i comes from element src + i * stride of the channel plane. */
struct pplconv_run {{
    int32_t src, dst;
    uint16_t load_mask, store_mask;
    uint8_t begin, end, lanes, unused;
}};
_Static_assert(sizeof(struct pplconv_run) == 16, "struct pplconv_run grew");

/* Geometry of one problem, in elements and pixels. */
struct pplconv_geometry {{
    int64_t ih, iw, oh, ow, kh, kw;
    int64_t stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
}};

{structs}

typedef void (*pplconv_kernel)(const void *args);

struct pplconv_kernel_row {{
    const char *symbol, *op, *dtype, *isa;
    int32_t mr, nr, kr, vector_bytes;
    pplconv_kernel function;
}};

extern const struct pplconv_kernel_row pplconv_kernel_table[];
extern const int32_t pplconv_kernel_count;

/* Write the runs of output pixels first .. first + pixels - 1 for every tap, and return how
 * many there are. Packed pixels lie in panels of `width` pixels, panel_elements apart; within
 * a panel, taps lie `width` apart. A run stays within a panel, an image row and `lanes`
 * lanes; the last panel is filled up with zeros to a multiple of `lanes`. */
int64_t pplconv_pixel_runs(const struct pplconv_geometry *geometry, int64_t first, int64_t pixels,
                           int64_t lanes, int64_t width, int64_t panel_elements,
                           struct pplconv_run *runs);

/* CPUID and XGETBV; all zero where the machine has no such instruction. */
void pplconv_cpuid(uint32_t leaf, uint32_t subleaf, uint32_t out[4]);
uint64_t pplconv_xgetbv(uint32_t index);

#endif
"""


def header_text() -> str:
    """C header with every contract, its checks and the kernel table's type."""
    flags = "\n".join(f"    PPLCONV_{name} = {value}," for name, value in FLAGS.items())
    structs = "\n\n".join(c.c_declaration() for c in CONTRACTS.values())
    return _HEADER.format(flags=flags, structs=structs)
