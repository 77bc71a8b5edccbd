"""Structs that kernels share: pieces of arguments, and a row of the table of kernels.

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
        Its name, without the ``struct`` keyword.
    comment : str
        Its contents, as lines of a C comment; empty for no comment.
    members : tuple of (str, tuple of str)
        Members in order, those of one type in one declaration.
    size : int, optional
        Size in bytes, which the header asserts; given if C and generated code rely on it.
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
    " * and those behind it write the first `room` elements from `dst` on, so that those\n"
    " * beyond `lanes` may hold anything until then. Of a vector that comes from the image as a\n"
    " * whole there may be several, one behind the other: `vectors`, else 1. */",
    (
        ("int32_t", ("src", "dst")),
        ("uint16_t", ("load_mask", "store_mask", "vectors")),
        ("uint8_t", ("lanes", "room")),
    ),
    size=16,
)

STREAM = Record(
    "pplconv_stream",
    "/* Rows of elements that `elementwise` reads or stores, `rs` bytes from one to the next; of\n"
    " * each row an element for every column, or with `step` 0 one for all of them. They go\n"
    " * through register `reg`. */",
    (("void *", ("data",)), ("int64_t", ("rs",)), ("int32_t", ("step", "reg"))),
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
    "/* What `requantize` knows of an output array and of the residual: a residual r counts\n"
    " * (r - residual_zero) * residual_scale, of f32 r itself. Where `gate` is not 0 a number x\n"
    " * becomes x * min(max(x * slope + middle, 0), 1) + shift. Bytes b, if `table` is not NULL,\n"
    " * are stored as the byte of it whose number is b, taken for uint8. */",
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
    "/* Words lie in the row: each pointer would be a relocation for every process that starts. */",
    (
        ("char", ("symbol[64]", "op[28]", "dtype[12]", "isa[16]", "tuning[12]")),
        ("int32_t", ("mr", "nr", "kr", "vector_bytes", "lanes")),
        ("pplconv_kernel", ("function",)),
    ),
)

ISA_ROW = Record(
    "pplconv_isa_row",
    '/* A level, and the one below it, whose kernels stand in for those that it lacks; "" if '
    "none. */",
    (("const char *", ("isa", "below")),),
)

NUMBER_ROW = Record(
    "pplconv_number_row",
    "/* A number that kernels know something by, PPLCONV_<kind>_<name>. */",
    (("char", ("kind[8]", "name[24]")), ("int32_t", ("value",))),
)

PANEL = Record(
    "pplconv_panel",
    "/* Where a panel of sparse weights begins: its first term, and the first of its values,\n"
    " * counted in terms and in values. The panel behind it says where it ends. */",
    (("int64_t", ("term", "value")),),
    size=16,
)

# Structs that arguments point to.
PIECES = (SEGMENT, RUN, STREAM, INSTRUCTION, GEOMETRY, QUANTIZATION, PANEL)

# Arrays of rows that the library holds: pplconv_<name>_table, of pplconv_<name>_count rows.
TABLES = {"kernel": KERNEL_ROW, "isa": ISA_ROW, "number": NUMBER_ROW}
