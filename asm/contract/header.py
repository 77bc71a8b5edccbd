"""The C header, generated from the tables."""

from __future__ import annotations

from asm.contract.constants import ENUMERATIONS
from asm.contract.operations import CONTRACTS
from asm.contract.records import PIECES, TABLES

_HEADER = """\
/* Calling contracts of the kernels. Generated from asm/contract/. */
#ifndef PPLCONV_KERNELS_H
#define PPLCONV_KERNELS_H

#include <stddef.h>
#include <stdint.h>

{enumerations}

{pieces}

{structs}

typedef void (*pplconv_kernel)(const void *args);

{rows}

{tables}

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
/* Ask the system for permission to use tile registers (AMX): 1 if granted, else 0. */
int32_t pplconv_permit_tiles(void);
uint64_t pplconv_auxval(uint64_t type);
uint64_t pplconv_midr(void);

#endif
"""


def _enumeration(values: dict[str, int]) -> str:
    return "\n".join(
        ["enum {", *(f"    {name} = {value}," for name, value in values.items()), "};"]
    )


def header_text() -> str:
    """Give the C header: every contract with its checks, and the library's tables."""
    return _HEADER.format(
        enumerations="\n\n".join(map(_enumeration, ENUMERATIONS)),
        pieces="\n\n".join(record.c_declaration() for record in PIECES),
        structs="\n\n".join(c.c_declaration() for c in CONTRACTS.values()),
        rows="\n\n".join(record.c_declaration() for record in TABLES.values()),
        tables="\n".join(
            f"extern const struct {record.struct} pplconv_{name}_table[];\n"
            f"extern const int32_t pplconv_{name}_count;"
            for name, record in TABLES.items()
        ),
    )
