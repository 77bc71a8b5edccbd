"""Classes of contracts and of their fields, and the C and ctypes structs that follow from them."""

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
        Result that a kernel of this operation computes.
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
