"""Other structs of the C header: structs that arguments point to, and rows of the library's tables.

Unlike in argument structs, C decides the offsets of the members, and some members have less than
eight bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

_BYTES = {"pointer": 8, "int64_t": 8, "int32_t": 4, "float": 4, "uint16_t": 2, "uint8_t": 1}


@dataclass(frozen=True)
class Record:
    """A plain C struct.

    Parameters
    ----------
    struct : str
        Name, without the ``struct`` keyword.
    comment : str
        Description, as lines of a C comment; empty for no comment.
    members : tuple of (str, tuple of str)
        Type and names of each declaration, in order.
    size : int, optional
        Size in bytes, which the header asserts; given if generated code relies on it.
    """

    struct: str
    comment: str
    members: tuple[tuple[str, tuple[str, ...]], ...]
    size: int | None = None

    def declared(self) -> list[tuple[str, str]]:
        """Type and name of each member, in order."""
        return [(ctype, name) for ctype, names in self.members for name in names]

    def offset(self, name: str, index: int = 0) -> int:
        """Byte offset of a member of struct `index` of an array, where pointers have 64 bits."""
        offsets, end, align = {}, 0, 1
        for ctype, member in self.declared():
            size = _BYTES["pointer" if "*" in ctype else ctype]
            offsets[member] = -(-end // size) * size
            end, align = offsets[member] + size, max(align, size)
        return index * (-(-end // align) * align) + offsets[name]

    def c_declaration(self) -> str:
        """C text of the struct and of the check of its size."""
        lines = [self.comment] if self.comment else []
        lines.append(f"struct {self.struct} {{")
        for ctype, names in self.members:
            base = ctype.rstrip("* ")
            pointer = ctype[len(base) :].strip()
            lines.append(f"    {base} {', '.join(pointer + name for name in names)};")
        lines.append("};")
        if self.size is not None:
            lines.append(
                f"_Static_assert(sizeof(struct {self.struct}) == {self.size}, "
                f'"struct {self.struct} grew");'
            )
        return "\n".join(lines)


SEGMENT = Record(
    "pplconv_segment",
    "/* One segment of a GEMM's sum: where its A and B begin, in bytes from `a` and `b`. */",
    (("int64_t", ("a", "b")),),
    size=16,
)

RUN = Record(
    "pplconv_run",
    "/* One run of output pixels of one image row, for one tap: `lanes` packed elements from\n"
    " * `dst` on. Lanes set in load_mask, which are neighbours, come from the image, the others\n"
    " * are padding. Lane i comes from element src + i * stride of the channel plane. This run\n"
    " * and later ones write the first `room` elements from `dst` on, so this run may write\n"
    " * anything into those beyond `lanes`. A run may have several `vectors` if these are whole\n"
    " * and come from the image; else `vectors` is 1. */",
    (
        ("int32_t", ("src", "dst")),
        ("uint16_t", ("load_mask", "store_mask", "vectors")),
        ("uint8_t", ("lanes", "room")),
    ),
    size=16,
)

STREAM = Record(
    "pplconv_stream",
    "/* Rows of elements that `elementwise` loads into register `reg` or stores from it, `rs`\n"
    " * bytes from one row to the next. A row has an element for each column, or, if `step` is\n"
    " * 0, one for all columns. If `stored` is not 0, elements have another type than registers,\n"
    " * PPLCONV_STORED_*, and are converted on their way in and out. */",
    (
        ("void *", ("data",)),
        ("int64_t", ("rs",)),
        ("int32_t", ("step",)),
        ("uint16_t", ("reg", "stored")),
    ),
    size=24,
)

INSTRUCTION = Record(
    "pplconv_instruction",
    "/* One step of a program over registers: to = op(a, b, c). */",
    (("uint8_t", ("op", "to", "a", "b", "c")),),
    size=5,
)

GEOMETRY = Record(
    "pplconv_geometry",
    "/* Geometry of one problem, in elements and pixels. */",
    (
        ("int64_t", ("ih", "iw", "oh", "ow", "kh", "kw")),
        ("int64_t", ("stride_h", "stride_w", "dilation_h", "dilation_w", "pad_top", "pad_left")),
    ),
)

QUANTIZATION = Record(
    "pplconv_quantization",
    "/* Parameters of `requantize`. A residual r is the number (r - residual_zero) *\n"
    " * residual_scale, or r itself in f32 kernels. If `gate` is not 0, a number x becomes\n"
    " * x * min(max(x * slope + middle, 0), 1) + shift. If `table` is not NULL, a byte b, read\n"
    " * as uint8, is stored as table[b]. */",
    (
        ("const void *", ("table",)),
        ("int64_t", ("gate",)),
        ("float", ("low", "high", "residual_scale", "slope", "middle", "shift")),
        ("int32_t", ("residual_zero", "zero")),
    ),
    size=48,
)

KERNEL_ROW = Record(
    "pplconv_kernel_row",
    "/* Strings are stored in the row: a pointer would need a relocation in each process. */",
    (
        ("char", ("symbol[64]", "op[28]", "dtype[12]", "isa[16]", "tuning[12]")),
        ("int32_t", ("mr", "nr", "kr", "vector_bytes", "lanes")),
        ("pplconv_kernel", ("function",)),
    ),
)

ISA_ROW = Record(
    "pplconv_isa_row",
    '/* A level, and the level below it, whose kernels serve for missing ones; "" if there is '
    "none. */",
    (("const char *", ("isa", "below")),),
)

NUMBER_ROW = Record(
    "pplconv_number_row",
    "/* A constant of the contracts, PPLCONV_<kind>_<name>. */",
    (("char", ("kind[8]", "name[24]")), ("int32_t", ("value",))),
)

PANEL = Record(
    "pplconv_panel",
    "/* Start of a panel of sparse weights: the index of its first term, and of its first value.\n"
    " * The panel ends where the next one begins. */",
    (("int64_t", ("term", "value")),),
    size=16,
)

# Structs that arguments point to.
PIECES = (SEGMENT, RUN, STREAM, INSTRUCTION, GEOMETRY, QUANTIZATION, PANEL)

# Arrays of rows that the library holds: pplconv_<name>_table, of pplconv_<name>_count rows.
TABLES = {"kernel": KERNEL_ROW, "isa": ISA_ROW, "number": NUMBER_ROW}
