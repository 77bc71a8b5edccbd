"""No instruction where the CPU may not have it: the installed libraries, disassembled."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pplconv
from asm.registry import ISAS, kernels
from disassembly import Function, functions, violations
from kernel_checker import compile_library
from kernel_table import MACHINE
from pplconv import _kernels

pytestmark = [
    pytest.mark.skipif(MACHINE != "x86_64", reason="the judge knows x86-64"),
    pytest.mark.unsanitized("judges code as it is shipped, without what a sanitizer adds"),
]

LIBRARIES = sorted(Path(pplconv.__file__).parent.rglob("*.so"))
FEATURES = {kernel.symbol: ISAS[kernel.isa].features for kernel in kernels("x86_64")}
GEMM = [k for k in kernels("x86_64") if k.op == "gemm" and k.source == "generator"]


@pytest.fixture(scope="module")
def kernel_functions() -> dict[str, Function]:
    """Disassemble the library of the kernels; functions by symbol."""
    return {function.name: function for function in functions(Path(_kernels.__file__))}


def test_every_library_is_looked_at():
    """At least those of the kernels, the loops and the public functions."""
    names = {library.name.split(".")[0] for library in LIBRARIES}
    assert {"_kernels", "base", "_conv"} <= names


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: path.name.split(".")[0])
def test_no_instruction_above_its_level(library, tmp_path):
    """Kernels use the features of their instruction set, everything else the baseline's."""
    found = violations(library, FEATURES, tmp_path)
    assert not found, "\n".join(found[:20])


def test_every_kernel_was_found(kernel_functions):
    """By its own symbol: a stripped library could not be judged."""
    assert set(FEATURES) <= set(kernel_functions)
    assert all(kernel_functions[symbol].instructions for symbol in FEATURES)


@pytest.mark.parametrize("kernel", GEMM, ids=lambda kernel: kernel.symbol.removeprefix("pplconv_"))
def test_tile_stays_in_registers(kernel_functions, kernel):
    """As many FMA chains as the tile has vectors, and no vector goes to the stack."""
    texts = [text for _, text in kernel_functions[kernel.symbol].instructions]
    destinations = {t.split(",")[-1].split("{")[0] for t in texts if t.startswith("vfmadd")}
    assert len(destinations) == kernel.mr * kernel.vectors
    assert not [t for t in texts if re.search(r"[xyz]mm", t) and "%rsp" in t]


BREACHES = """
    .intel_syntax noprefix
    .text
.macro function name
    .globl \\name
    .type \\name, @function
\\name:
.endm

function plain_sse2
    addps xmm0, xmm1
    endbr64
    rep bsf eax, ecx
    ret
function plain_sse41
    pmulld xmm0, xmm1
    ret
function plain_popcnt
    popcnt eax, ecx
    ret
function plain_xgetbv
    xgetbv
    ret
function plain_avx
    vaddps xmm0, xmm0, xmm1
    ret
function plain_bmi2
    shlx eax, ecx, edx
    ret
function pplconv_xgetbv
    xgetbv
    ret
function pplconv_good_avx2
    vfmadd231ps ymm0, ymm1, ymm2
    bzhi eax, ecx, edx
    vzeroupper
    ret
function pplconv_good_avx2.part.0
    vaddps ymm0, ymm1, ymm2
    ret
function pplconv_zmm_avx2
    vaddps zmm0, zmm1, zmm2
    ret
function pplconv_mask_avx2
    kmovw k1, eax
    ret
function pplconv_encoding_avx2
    {evex} vaddps ymm0, ymm1, ymm2
    ret
function pplconv_bmi1_avx2
    andn eax, ecx, edx
    ret
function pplconv_vaes_avx2
    vaesenc ymm0, ymm1, ymm2
    ret
function pplconv_good_avx512
    vaddps zmm17{k1}{z}, zmm1, [rax]{1to16}
    vpaddw zmm0, zmm1, zmm2
    kmovq k1, rax
    ret
function pplconv_vnni_avx512
    vpdpbusd zmm0, zmm1, zmm2
    ret
function pplconv_vbmi_avx512
    vpermb zmm0, zmm1, zmm2
    ret
    .section .note.GNU-stack, "", @progbits
"""


def test_breaches_are_found(tmp_path):
    """Each function that breaks the rule is named, and no other."""
    source = tmp_path / "breaches.S"
    source.write_text(BREACHES)
    compile_library(tmp_path, "breaches", [source])
    names = re.findall(r"^function (\S+)", BREACHES, re.MULTILINE)
    features = {
        name: ISAS[name.rsplit("_", 1)[1]].features
        for name in names
        if name.startswith("pplconv_") and name.rsplit("_", 1)[1] in ISAS
    }
    found = violations(tmp_path / "breaches.so", features, tmp_path)
    guilty = {line.split(":")[0] for line in found}
    allowed = {"plain_sse2", "pplconv_xgetbv", *(n for n in names if "_good_" in n)}
    assert guilty == set(names) - allowed


def test_helpers_belong_to_their_file(tmp_path):
    """A static function that was not inlined is judged as its file's kernel."""
    kernel, plain = tmp_path / "pplconv_whole_avx2.c", tmp_path / "plain.c"
    kernel.write_text(
        "typedef float v8 __attribute__((vector_size(32)));\n"
        "static __attribute__((noinline)) v8 helper(v8 a, v8 b) { return a + b; }\n"
        "void pplconv_whole_avx2(v8 *p) { p[0] = helper(p[1], p[2]); }\n"
    )
    plain.write_text(kernel.read_text().replace("pplconv_whole_avx2", "plain"))
    avx2 = {"pplconv_whole_avx2": ISAS["avx2"].features}
    for sources, guilty in (([kernel], []), ([plain, kernel], ["helper", "plain"])):
        name = f"library_of_{len(sources)}"
        compile_library(tmp_path, name, sources, flags=["-mavx2"])
        found = violations(tmp_path / f"{name}.so", avx2, tmp_path)
        assert sorted({line.split(":")[0] for line in found}) == guilty
