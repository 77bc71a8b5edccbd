"""The Cython declarations, generated from the same tables as the C header."""

from __future__ import annotations

from asm.contract.constants import ENUMERATIONS
from asm.contract.operations import CONTRACTS
from asm.contract.records import PIECES, TABLES

_TEXT = """\
# Written by each build from the tables of asm/contract/: edit those.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t


cdef extern from "pplconv_kernels.h" nogil:
{enumerations}

{pieces}

{arguments}

    ctypedef void (*pplconv_kernel)(const void *args) noexcept nogil

{rows}

{tables}
"""


def _enumeration(values: dict[str, int]) -> str:
    return "\n".join(["    enum:", *(f"        {name}" for name in values)])


def _member(ctype: str, name: str) -> str:
    return f"        {ctype}{'' if ctype.endswith('*') else ' '}{name}"


def _struct(name: str, members: list[tuple[str, str]]) -> str:
    return "\n".join([f"    struct {name}:", *(_member(*member) for member in members)])


def declarations_text() -> str:
    """Give the Cython declarations of the C header, for the modules that call kernels."""
    pieces = [_struct(record.struct, record.declared()) for record in PIECES]
    arguments = [
        _struct(contract.struct, [(field.ctype, field.name) for field in contract.fields])
        for contract in CONTRACTS.values()
    ]
    return _TEXT.format(
        enumerations="\n\n".join(map(_enumeration, ENUMERATIONS)),
        pieces="\n\n".join(pieces),
        arguments="\n\n".join(arguments),
        rows="\n\n".join(_struct(row.struct, row.declared()) for row in TABLES.values()),
        tables="\n".join(
            f"    const {row.struct} pplconv_{name}_table[]\n    const int32_t pplconv_{name}_count"
            for name, row in TABLES.items()
        ),
    )
