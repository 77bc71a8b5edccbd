"""The C header, written from the tables."""

from __future__ import annotations

from asm.contract.constants import ACTIVATIONS, FLAGS, HALF_CHAIN
from asm.contract.operations import CONTRACTS

_HEADER = """\
/* Calling contracts of the kernels. Generated from asm/contract/. */
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
