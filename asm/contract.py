"""The calling contracts: one argument struct per operation, described once.

Every kernel of an operation takes one pointer to the operation's argument struct and
returns nothing. The C header, the compile-time offset checks, the offsets that the
assembly generators use, and the ``ctypes`` mirror in the tests are all derived from the
tables in this module, so no offset is written down twice.

All strides are in bytes. Each field begins on a multiple of eight bytes, on machines with
pointers of four as well, so that an offset is an index.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

POINTER = "void *"
CONST_POINTER = "const void *"
INT = "int64_t"


@dataclass(frozen=True)
class Field:
    """One member of an argument struct."""

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
        members: list[tuple[str, Any]] = []
        for f in self.fields:
            ctype = ctypes.c_int64 if f.ctype == INT else ctypes.c_void_p
            members.append((f.name, ctype))
            if gap := 8 - ctypes.sizeof(ctype):
                members.append((f"_after_{f.name}", ctypes.c_char * gap))
        return type(self.struct, (ctypes.Structure,), {"_fields_": members})

    def c_declaration(self) -> str:
        """C text of the struct and of the checks of its offsets."""
        lines = [f"/* {self.summary} */", f"struct {self.struct} {{"]
        for f in self.fields:
            space = "" if f.ctype.endswith("*") else " "
            aligned = "_Alignas(8) " if f.ctype.endswith("*") else ""
            lines.append(f"    {aligned}{f.ctype}{space}{f.name}; /* {f.meaning} */")
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

# Longest chain of products that GEMM in half precision adds in half precision. A segment's k is
# cut into pieces of so many terms from its start; a piece goes on with the chain under way if the
# chain then is no longer than this, and otherwise begins a new one. Chains are added in float32,
# in their order, and the total is rounded to half precision once, before the epilogue. The end of
# a chain costs four vector operations for each accumulator's 64 FMAs. Measured as the largest
# error over the largest output of 24 x 24 sums of normal numbers, of 64 terms: 2.1e-3; of 512:
# 1.3e-3 (one chain for all: 6.1e-3); of 4608: 1.3e-3 (1.7e-2). Chains of 32 have 1.1e-3, of 128
# 1.8e-3 to 3.4e-3.
HALF_CHAIN = 64

# What `activate` computes, x being an element. NaN stays NaN and infinities give the limits.
ACTIVATIONS = {
    "LEAKY": 1,  # x < 0 ? slope[0] * x : x; a slope of zero gives zero, also for -inf
    "PRELU_ROW": 2,  # the same with slope[row]
    "PRELU_COLUMN": 3,  # the same with slope[column]
    "HARDSWISH": 4,  # x * clip(x + 3, 0, 6) / 6
    "SIGMOID": 5,  # 1 / (1 + exp(-x))
    "SILU": 6,  # x / (1 + exp(-x))
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
    "im2col of a segment of output pixels from a channels-last image: dst[pixel][tap][channel], "
    "restricted to k_begin <= k < k_end where k = (kh, kw, channel)",
    (
        Field("src", CONST_POINTER, "first image, first channel"),
        Field("src_ns", INT, "from one image to the next"),
        Field("src_ps", INT, "from one pixel to the next, channels that are not packed included"),
        Field("dst", POINTER, "packed rows, where k_begin goes"),
        Field("dst_rs", INT, "from one packed row to the next"),
        Field("dst_ts", INT, "dst: from one tap to the next, at least as far as channels reach"),
        Field("first", INT, "index of the first output pixel, counted over all images"),
        Field("pixels", INT, "output pixels to pack"),
        Field("channels", INT, "neighbouring channels that are packed"),
        Field("k_begin", INT, "first k"),
        Field("k_end", INT, "one past the last k"),
        Field("geometry", CONST_POINTER, "struct pplconv_geometry"),
    ),
)

PACK_CHANNELS = Contract(
    "pack_channels",
    "channel planes to pixels: dst[row, column, c] = src[c, row, column] for 0 <= c < channels, "
    "and zero for channels <= c < fill",
    (
        Field("src", CONST_POINTER, "plane of the first channel"),
        Field("src_cs", INT, "src: from one channel plane to the next"),
        Field("src_rs", INT, "src: from one image row to the next"),
        Field("dst", POINTER, "first pixel; the channels of a pixel lie side by side"),
        Field("dst_rs", INT, "dst: from one image row to the next"),
        Field("dst_ps", INT, "dst: from one pixel to the next"),
        Field("rows", INT, "image rows"),
        Field("columns", INT, "pixels in a row"),
        Field("channels", INT, "channels of src, >= 0"),
        Field("fill", INT, "elements written of each pixel, >= channels and >= 1"),
    ),
)

PACK_WEIGHTS = Contract(
    "pack_weights",
    "one group's weights (oc, ic, taps) into dst[panel][k][panel_width], tails zero; "
    "k = (block of input channels, tap, channel within the block); channels that the last block "
    "lacks are zero",
    (
        Field("src", CONST_POINTER, "contiguous weights of the group"),
        Field("dst", POINTER, "panels of ceil(ic / channel_block) * channel_block * taps rows"),
        Field("oc_begin", INT, "first output channel to pack, a multiple of panel_width"),
        Field("oc_end", INT, "one past the last output channel to pack"),
        Field("ic", INT, "input channels of the group"),
        Field("taps", INT, "kh * kw"),
        Field("panel_width", INT, "output channels in a panel"),
        Field(
            "channel_block", INT, "input channels in a block, >= 1: 1 is (ic, tap), ic (tap, ic)"
        ),
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

ACTIVATE = Contract(
    "activate",
    "data[i, j] = f(data[i, j]) for 0 <= i < rows, 0 <= j < columns, in place",
    (
        Field("data", POINTER, "row-major"),
        Field("row_stride", INT, "from one row to the next"),
        Field("rows", INT, "rows, >= 0"),
        Field("columns", INT, "elements in a row, >= 0"),
        Field("slope", CONST_POINTER, "1, rows or columns elements, by kind; else not read"),
        Field("kind", INT, "PPLCONV_ACTIVATE_*"),
    ),
)

WINOGRAD_INPUT = Contract(
    "winograd_input",
    "V = B^T d B of neighbouring tiles of F(MR x MR, NR x NR): dst[position][tile][channel], "
    "position = row * t + column of the t x t patch, t = MR + NR - 1; patches are MR pixels apart",
    (
        Field("src", CONST_POINTER, "pixel (0, 0) of the first patch, channels contiguous"),
        Field("src_rs", INT, "src: from one row of the image to the next"),
        Field("src_ps", INT, "src: from one pixel to the next"),
        Field("row_begin", INT, "first row of the patches that is inside the image"),
        Field("row_end", INT, "one past the last; rows outside count as zero and are not read"),
        Field("column_begin", INT, "first column inside the image, counted from the first patch's"),
        Field("column_end", INT, "one past the last; columns outside count as zero"),
        Field("tiles", INT, "tiles in the row"),
        Field("channels", INT, "channels, >= 1"),
        Field("dst", POINTER, "position 0 of the first tile, channels contiguous"),
        Field("dst_ts", INT, "dst: from one tile to the next"),
        Field("dst_ps", INT, "dst: from one position to the next"),
    ),
)

WINOGRAD_OUTPUT = Contract(
    "winograd_output",
    "epilogue(A^T M A) of neighbouring tiles of F(MR x MR, NR x NR) into a channels-last image; "
    "M = src[position][tile][channel] as winograd_input orders it",
    (
        Field("src", CONST_POINTER, "position 0 of the first tile, channels contiguous"),
        Field("src_ts", INT, "src: from one tile to the next"),
        Field("src_ps", INT, "src: from one position to the next"),
        Field("dst", POINTER, "pixel (0, 0) of the first tile, channels contiguous"),
        Field("dst_rs", INT, "dst: from one row of the image to the next"),
        Field("dst_ps", INT, "dst: from one pixel to the next"),
        Field("rows", INT, "rows of the tiles that are stored, 1 <= rows <= MR"),
        Field("columns", INT, "columns stored over all tiles, at least one of the last tile"),
        Field("tiles", INT, "tiles in the row"),
        Field("channels", INT, "channels, >= 1"),
        Field("bias", CONST_POINTER, "one element per channel, by flag BIAS_COLUMN"),
        Field("residual", CONST_POINTER, "like dst, by flag"),
        Field("residual_rs", INT, "residual: from one row to the next"),
        Field("residual_ps", INT, "residual: from one pixel to the next"),
        Field("clip", CONST_POINTER, "two elements, low and high, by flag"),
        Field("flags", INT, "PPLCONV_* bits"),
        Field(
            "spoiled",
            POINTER,
            "int64_t: 1 if a stored output is infinite or NaN before the epilogue, perhaps 1 if "
            "squares of outputs would overflow, else untouched",
        ),
    ),
)

DIRECT_SUMS = Contract(
    "direct_sums",
    "those outputs of one tile that `sums` says are infinite or NaN, and no others, as direct sums "
    "with stride 1: one chain of multiply-adds over (input channel, kh, kw) in ascending order, "
    "taps on padding left out, and the epilogue",
    (
        Field("sums", CONST_POINTER, "of pixel (0, 0) before the epilogue, channels contiguous"),
        Field("sums_rs", INT, "sums: from one row of pixels to the next"),
        Field("sums_ps", INT, "sums: from one pixel to the next"),
        Field("src", CONST_POINTER, "pixel that tap (0, 0) of output (0, 0) reads, first channel"),
        Field("src_bs", INT, "src: from one block of input channels to the next"),
        Field("src_rs", INT, "src: from one row of the image to the next"),
        Field("src_ps", INT, "src: from one pixel to the next"),
        Field("block", INT, "input channels in a block, neighbours in memory, >= 1"),
        Field("row_begin", INT, "first row inside the image, counted from src's"),
        Field("row_end", INT, "one past the last"),
        Field("column_begin", INT, "first column inside the image, counted from src's"),
        Field("column_end", INT, "one past the last"),
        Field("weights", CONST_POINTER, "contiguous (channels, ic, side, side)"),
        Field("ic", INT, "input channels of the group"),
        Field("side", INT, "kh and kw, at most 5"),
        Field("halves", INT, "1: src and weights are of half precision, else of elements"),
        Field("dst", POINTER, "pixel (0, 0), channels contiguous"),
        Field("dst_rs", INT, "dst: from one row of the image to the next"),
        Field("dst_ps", INT, "dst: from one pixel to the next"),
        Field("rows", INT, "rows of pixels, 1 <= rows <= 6"),
        Field("columns", INT, "pixels of a row, 1 <= columns <= 6"),
        Field("channels", INT, "output channels, >= 1"),
        Field("bias", CONST_POINTER, "one element per channel, by flag BIAS_COLUMN"),
        Field("residual", CONST_POINTER, "like dst, by flag"),
        Field("residual_rs", INT, "residual: from one row to the next"),
        Field("residual_ps", INT, "residual: from one pixel to the next"),
        Field("clip", CONST_POINTER, "two elements, low and high, by flag"),
        Field("flags", INT, "PPLCONV_* bits"),
    ),
)

WINOGRAD_WEIGHTS = Contract(
    "winograd_weights",
    "U = G g G^T of weights (oc, ic, NR, NR) for F(MR x MR, NR x NR), in double precision and "
    "rounded once: dst[position][panel][channel][panel_width], zero beyond oc_end and ic",
    (
        Field("src", CONST_POINTER, "contiguous weights of the group"),
        Field("dst", POINTER, "position 0 of panel 0"),
        Field("dst_ps", INT, "dst: from one position to the next"),
        Field("oc_begin", INT, "first output channel, a multiple of panel_width"),
        Field("oc_end", INT, "one past the last output channel"),
        Field("ic", INT, "input channels of the group"),
        Field("ic_padded", INT, "input channels in dst, >= ic"),
        Field("panel_width", INT, "output channels in a panel"),
    ),
)

ZERO_LANES = Contract(
    "zero_lanes",
    "dst[i, c] = 0 for 0 <= i < pixels, 0 <= c < lanes: channels that a blocked array lacks",
    (
        Field("dst", POINTER, "first element of the first pixel"),
        Field("dst_ps", INT, "from one pixel to the next"),
        Field("pixels", INT, "pixels, >= 1"),
        Field("lanes", INT, "elements of each pixel, >= 1"),
    ),
)

CONVERT_IN = Contract(
    "convert_in",
    "arrays of halves that are computed in float, or the other way round, rounded to the nearest: "
    "dst[i, j] = src[i, j] for 0 <= i < rows, 0 <= j < columns; with ACCUMULATE it is added to "
    "what dst holds",
    (
        Field("src", CONST_POINTER, "rows of the other type"),
        Field("src_rs", INT, "src: from one row to the next"),
        Field("dst", POINTER, "rows of elements"),
        Field("dst_rs", INT, "dst: from one row to the next"),
        Field("rows", INT, "rows, >= 0"),
        Field("columns", INT, "elements in a row, >= 0"),
        Field("flags", INT, "PPLCONV_ACCUMULATE or none"),
    ),
)

CONVERT_OUT = Contract(
    "convert_out",
    "what was computed in float to arrays of halves, or the other way round, rounded to the "
    "nearest, ties to even: dst[i, j] = epilogue(src[i, j]) for 0 <= i < rows, 0 <= j < columns, "
    "and zero for columns <= j < fill",
    (
        Field("src", CONST_POINTER, "rows of elements"),
        Field("src_rs", INT, "src: from one row to the next"),
        Field("dst", POINTER, "rows of the other type"),
        Field("dst_rs", INT, "dst: from one row to the next"),
        Field("rows", INT, "rows, >= 0"),
        Field("columns", INT, "elements in a row of src, >= 0"),
        Field("fill", INT, "elements written of each row; none beyond columns if it is less"),
        Field("residual", CONST_POINTER, "rows like those of dst, by flag"),
        Field("residual_rs", INT, "residual: from one row to the next"),
        Field("clip", CONST_POINTER, "two elements, low and high, by flag"),
        Field("flags", INT, "PPLCONV_* bits"),
    ),
)

DEPTHWISE_PIXELS = Contract(
    "depthwise_pixels",
    "depthwise convolution of channel planes, vectors along output columns: one chain of "
    "multiply-adds per output over (kh, kw) in ascending order, taps on padding left out",
    (
        Field("src", CONST_POINTER, "plane of the first input channel, rows of iw elements"),
        Field("src_cs", INT, "from one input plane to the next"),
        Field("dst", POINTER, "plane of the first output channel, rows of ow elements"),
        Field("dst_cs", INT, "from one output plane to the next"),
        Field("weights", CONST_POINTER, "kh * kw elements per output channel, contiguous"),
        Field("first_row", INT, "first output row to compute"),
        Field("rows", INT, "output rows to compute"),
        Field("channels", INT, "output channels"),
        Field("multiplier", INT, "output channel o reads input plane o / multiplier"),
        Field("bias", CONST_POINTER, "one element per output channel, by BIAS_ROW"),
        Field("residual", CONST_POINTER, "laid out as dst, by flag"),
        Field("residual_cs", INT, "residual: from one plane to the next"),
        Field("clip", CONST_POINTER, "two elements, low and high, by flag"),
        Field("flags", INT, "PPLCONV_* bits"),
        Field("geometry", CONST_POINTER, "struct pplconv_geometry"),
    ),
)

DEPTHWISE_CHANNELS = Contract(
    "depthwise_channels",
    "depthwise convolution of channels-last pixels, vectors along channels: one chain of "
    "multiply-adds per output over (kh, kw) in ascending order, taps on padding left out",
    (
        Field("src", CONST_POINTER, "pixel (0, 0) of the image, first input channel"),
        Field("src_rs", INT, "from one input row to the next"),
        Field("src_ps", INT, "from one input pixel to the next"),
        Field("dst", POINTER, "output pixel (0, 0), first output channel"),
        Field("dst_rs", INT, "from one output row to the next"),
        Field("dst_ps", INT, "from one output pixel to the next"),
        Field("weights", CONST_POINTER, "packed by pack_depthwise, at the first channel"),
        Field("weights_ts", INT, "weights: from one tap to the next"),
        Field("first_row", INT, "first output row to compute"),
        Field("rows", INT, "output rows to compute"),
        Field("channels", INT, "output channels, neighbours in memory"),
        Field("multiplier", INT, "output channel o reads input channel (phase + o) / multiplier"),
        Field("phase", INT, "0 <= phase < multiplier"),
        Field("bias", CONST_POINTER, "one element per output channel, by BIAS_COLUMN"),
        Field("residual", CONST_POINTER, "like dst, by flag"),
        Field("residual_rs", INT, "residual: from one row to the next"),
        Field("residual_ps", INT, "residual: from one pixel to the next"),
        Field("clip", CONST_POINTER, "two elements, low and high, by flag"),
        Field("flags", INT, "PPLCONV_* bits"),
        Field("geometry", CONST_POINTER, "struct pplconv_geometry"),
    ),
)

PACK_DEPTHWISE = Contract(
    "pack_depthwise",
    "weights (oc, taps) into rows of one tap each, channels across; "
    "lanes of the last row vector that are no channel become zero",
    (
        Field("src", CONST_POINTER, "contiguous weights of all channels"),
        Field("dst", POINTER, "taps rows of width elements"),
        Field("taps", INT, "kh * kw"),
        Field("oc_begin", INT, "first channel to pack"),
        Field("oc_end", INT, "one past the last to pack; a multiple of 16, or the end of all"),
        Field("width", INT, "elements from tap to tap: oc, or oc rounded up to at most 16"),
    ),
)

FMA_PEAK = Contract(
    "fma_peak",
    "independent register-only FMA chains: the ceiling that the benchmarks measure against",
    (Field("iterations", INT, "turns of the loop"),),
)

CONTRACTS = {c.op: c for c in tuple(globals().values()) if isinstance(c, Contract)}

_HEADER = """\
/* Calling contracts of the kernels. Generated from asm/contract.py. */
#ifndef PPLCONV_KERNELS_H
#define PPLCONV_KERNELS_H

#include <stddef.h>
#include <stdint.h>

enum {{
{flags}
}};

enum {{
{activations}
}};

enum {{ PPLCONV_HALF_CHAIN = {half_chain} }};

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
    const char *symbol, *op, *dtype, *isa, *tuning;
    int32_t mr, nr, kr, vector_bytes, lanes;
    pplconv_kernel function;
}};

/* A level, and the one below it, whose kernels stand in for those that it lacks; "" if none. */
struct pplconv_isa_row {{
    const char *isa, *below;
}};

extern const struct pplconv_kernel_row pplconv_kernel_table[];
extern const int32_t pplconv_kernel_count;
extern const struct pplconv_isa_row pplconv_isa_table[];
extern const int32_t pplconv_isa_count;

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
uint64_t pplconv_auxval(uint64_t type);
uint64_t pplconv_midr(void);

#endif
"""


def header_text() -> str:
    """C header with every contract, its checks and the kernel table's type."""
    flags = "\n".join(f"    PPLCONV_{name} = {value}," for name, value in FLAGS.items())
    activations = "\n".join(
        f"    PPLCONV_ACTIVATE_{name} = {value}," for name, value in ACTIVATIONS.items()
    )
    structs = "\n\n".join(c.c_declaration() for c in CONTRACTS.values())
    return _HEADER.format(
        flags=flags, activations=activations, half_chain=HALF_CHAIN, structs=structs
    )
