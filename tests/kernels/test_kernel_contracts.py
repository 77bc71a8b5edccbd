"""The argument structs: their description agrees with the C header, ctypes and Cython."""

from __future__ import annotations

import ctypes
import re
import subprocess

import pytest

from asm.contract import (
    CONTRACTS,
    FLAGS,
    INSTRUCTIONS,
    INT,
    POOLINGS,
    REDUCTIONS,
    declarations_text,
    header_text,
)
from tests.kernels.kernel_checker import NATIVE, STRUCTURES, compile_library

every_contract = pytest.mark.parametrize("op", CONTRACTS)


@every_contract
def test_members_begin_eight_bytes_apart_in_order(op):
    contract, structure = CONTRACTS[op], STRUCTURES[op]
    for index, field in enumerate(contract.fields):
        mirror = getattr(structure, field.name)
        assert contract.offset(field.name) == mirror.offset == 8 * index
        assert field.ctype == INT or field.ctype.endswith("*")
        assert mirror.size == (8 if field.ctype == INT else ctypes.sizeof(ctypes.c_void_p))
        assert field.meaning
    assert ctypes.sizeof(structure) == 8 * len(contract.fields)
    assert contract.op == op
    assert contract.summary


@every_contract
def test_unknown_member(op):
    with pytest.raises(KeyError, match="no member 'nothing'"):
        CONTRACTS[op].offset("nothing")


def test_compiler_agrees(tmp_path):
    """``offsetof``, sizes, flags and numbers of the C header, by the compiler."""
    lines = ['#include "pplconv_kernels.h"']
    for op, contract in CONTRACTS.items():
        offsets = ", ".join(
            f"offsetof(struct {contract.struct}, {f.name})" for f in contract.fields
        )
        lines.append(f"const int64_t offsets_{op}[] = {{{offsets}}};")
        lines.append(f"const int64_t size_{op} = sizeof(struct {contract.struct});")
    flags = ", ".join(f"PPLCONV_{name}" for name in FLAGS)
    lines.append(f"const int64_t flags[] = {{{flags}}};")
    kinds = {
        **{f"PPLCONV_DO_{name}": value for name, value in INSTRUCTIONS.items()},
        **{f"PPLCONV_POOL_{name}": value for name, value in POOLINGS.items()},
        **{f"PPLCONV_REDUCE_{name}": value for name, value in REDUCTIONS.items()},
    }
    lines.append(f"const int64_t kinds[] = {{{', '.join(kinds)}}};")
    source = tmp_path / "offsets.c"
    source.write_text("\n".join(lines) + "\n")
    library = compile_library(tmp_path, "offsets", [source])
    for op, contract in CONTRACTS.items():
        offsets = (ctypes.c_int64 * len(contract.fields)).in_dll(library, f"offsets_{op}")
        assert list(offsets) == [contract.offset(field.name) for field in contract.fields]
        size = ctypes.c_int64.in_dll(library, f"size_{op}").value
        assert size == ctypes.sizeof(STRUCTURES[op])
    assert list((ctypes.c_int64 * len(FLAGS)).in_dll(library, "flags")) == list(FLAGS.values())
    values = list(kinds.values())
    assert list((ctypes.c_int64 * len(values)).in_dll(library, "kinds")) == values


@every_contract
def test_moved_member_does_not_compile(tmp_path, op):
    """The header asserts its offsets: another member at the front breaks the build."""
    contract = CONTRACTS[op]
    text = header_text()
    start = f"struct {contract.struct} {{\n"
    assert text.count(start) == 1
    source = tmp_path / "moved.c"
    source.write_text(text.replace(start, start + "    int64_t stowaway;\n"))
    command = ["cc", "-std=gnu11", "-fsyntax-only", f"-I{NATIVE}", str(source)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode != 0
    assert f"{contract.struct}.{contract.fields[0].name} moved" in result.stderr


def test_flags_are_single_bits():
    values = sorted(FLAGS.values())
    assert values == [1 << bit for bit in range(len(values))]


def members(text: str, struct: str, end: str) -> list[str]:
    """List type and name of each member of a struct as C or Cython text declares it, in order."""
    body = re.search(rf"struct {struct}\b[ {{:]*\n(.*?){end}", text, re.DOTALL)
    assert body, struct
    found = []
    for line in re.sub(r"/\*.*?\*/|_Alignas\(8\)|;", "", body[1], flags=re.DOTALL).split("\n"):
        base, pointer, names = re.fullmatch(r"\s*(const \w+|\w*)\s*(\*?)(.*)", line).groups()
        found += [f"{base} {pointer}{name.strip(' *')}" for name in names.split(",") if name]
    return found


def test_c_and_cython_declare_the_same():
    """Cython does not check the members that it declares: a wrong one breaks the C build only."""
    c, cython = header_text(), declarations_text()
    structs = re.findall(r"^struct (\w+) \{", c, re.MULTILINE)
    assert structs == re.findall(r"^    struct (\w+):", cython, re.MULTILINE)
    assert {contract.struct for contract in CONTRACTS.values()} < set(structs)
    for struct in structs:
        declared = members(cython, struct, r"\n\n")
        assert declared
        assert members(c, struct, r"\};") == declared
    constants = re.findall(r"^    (PPLCONV_\w+) = ", c, re.MULTILINE)
    assert constants == re.findall(r"^        (PPLCONV_\w+)$", cython, re.MULTILINE)
    assert len(constants) > len(FLAGS) + len(INSTRUCTIONS)
