"""The disassembled libraries have no instruction that the CPU may lack."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pplconv
from asm.aarch64.products import BY_MATRIX
from asm.registry import BRAIN_CONVERSIONS, ISAS, SPARSE_OPERATIONS, kernels
from pplconv import _kernels
from tests.cases import each
from tests.kernels.disassembly import Function
from tests.kernels.disassembly_aarch64 import JudgeAarch64
from tests.kernels.disassembly_armv7l import JudgeArmv7l
from tests.kernels.disassembly_x86_64 import JudgeX86
from tests.kernels.kernel_checker import compile_library
from tests.kernels.kernel_table import MACHINE, in_pairs

JUDGES = {judge.machine: judge for judge in (JudgeX86(), JudgeAarch64(), JudgeArmv7l())}

pytestmark = [
    pytest.mark.skipif(MACHINE not in JUDGES, reason="no judge knows this machine"),
    pytest.mark.unsanitized("judges code as it is shipped, without what a sanitizer adds"),
]

JUDGE = JUDGES.get(MACHINE)
LIBRARIES = sorted(Path(pplconv.__file__).parent.rglob("*.so"))
FEATURES = {kernel.symbol: ISAS[kernel.isa].features for kernel in kernels(MACHINE)}
# Kernels with accumulators in vectors; on tile registers, epilogues go through the stack.
TILES = [
    kernel
    for kernel in kernels(MACHINE)
    if kernel.op in ("gemm", *SPARSE_OPERATIONS)
    and kernel.source == "generator"
    and kernel.isa != "amx"
]


@pytest.fixture(scope="module")
def kernel_functions() -> dict[str, Function]:
    """Disassemble the library of the kernels; functions by symbol."""
    return {function.name: function for function in JUDGE.functions(Path(_kernels.__file__))}


def test_every_library_is_looked_at():
    """At least the libraries of the kernels, the loops and the public functions."""
    names = {library.name.split(".")[0] for library in LIBRARIES}
    assert {"_kernels", "base", "conv"} <= names


@pytest.mark.sampled(6)
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: path.name.split(".")[0])
def test_no_instruction_above_its_level(library, tmp_path):
    """Kernels use the features of their instruction set, everything else the baseline's."""
    found = JUDGE.violations(library, FEATURES, tmp_path)
    assert not found, "\n".join(found[:20])


def test_every_kernel_was_found(kernel_functions):
    """All kernels have symbols: a stripped library could not be judged."""
    assert set(FEATURES) <= set(kernel_functions)
    assert all(kernel_functions[symbol].instructions for symbol in FEATURES)


@each("kernel", TILES, lambda kernel: kernel.symbol)
def test_tiles_stay_in_registers(kernel_functions, kernel):
    """There are as many FMA chains as the tile has vectors, and no vector goes to the stack.

    Matrix instructions take rows in pairs, and so do panels of one channel.
    """
    function = kernel_functions[kernel.symbol]
    rows = kernel.mr + kernel.mr % 2 * (kernel.dtype in BY_MATRIX) + in_pairs(kernel)
    assert len(JUDGE.chains(function)) == rows * kernel.vectors
    assert JUDGE.spills(function) == []


# Kernels of all levels that round to bfloat16, and the instruction for it.
ROUNDING = [
    kernel
    for kernel in kernels(MACHINE)
    if (kernel.op, kernel.dtype)
    in (("convert_in", "f32bf16"), ("convert_out", "bf16f32"), ("elementwise", "f32"))
]
ROUNDS = {"aarch64": "bfcvtn", "x86_64": "vcvtne"}


@each("kernel", ROUNDING, lambda kernel: kernel.symbol)
def test_levels_round_by_their_instruction(kernel_functions, kernel):
    """Levels that have an instruction for bfloat16 use it, and no other level does."""
    found = [t for _, t in kernel_functions[kernel.symbol].instructions if rounds(t)]
    assert bool(found) == (kernel.isa in BRAIN_CONVERSIONS)


def rounds(text: str) -> bool:
    """Whether an instruction rounds to bfloat16."""
    return text.startswith(ROUNDS.get(MACHINE, "none"))


@pytest.mark.skipif(MACHINE != "x86_64", reason="only AVX2 has such stores")
def test_no_store_under_a_mask_vector():
    """Such stores are slow on AMD's cores; loads are fine."""
    functions = JUDGE.functions(Path(_kernels.__file__))
    texts = [(function.name, text) for function in functions for _, text in function.instructions]
    masked = [(name, text) for name, text in texts if re.match(r"vp?maskmov", text)]
    assert masked
    assert [(name, text) for name, text in masked if re.match(r"\S+ +%", text)] == []


# Functions by name, and their instructions; the end of a name is the level, if there is one.
BREACHES_X86 = {
    "plain_sse2": "addps xmm0, xmm1; endbr64; rep bsf eax, ecx",
    "plain_sse41": "pmulld xmm0, xmm1",
    "plain_popcnt": "popcnt eax, ecx",
    "plain_xgetbv": "xgetbv",
    "plain_avx": "vaddps xmm0, xmm0, xmm1",
    "plain_bmi2": "shlx eax, ecx, edx",
    "pplconv_xgetbv": "xgetbv",
    "pplconv_good_avx2": "vfmadd231ps ymm0, ymm1, ymm2; bzhi eax, ecx, edx; vzeroupper",
    "pplconv_good_avx2.part.0": "vaddps ymm0, ymm1, ymm2",
    "pplconv_zmm_avx2": "vaddps zmm0, zmm1, zmm2",
    "pplconv_mask_avx2": "kmovw k1, eax",
    "pplconv_encoding_avx2": "{evex} vaddps ymm0, ymm1, ymm2",
    "pplconv_bmi1_avx2": "andn eax, ecx, edx",
    "pplconv_vaes_avx2": "vaesenc ymm0, ymm1, ymm2",
    "pplconv_good_avx512": (
        "vaddps zmm17{k1}{z}, zmm1, [rax]{1to16}; vpaddw zmm0, zmm1, zmm2; kmovq k1, rax"
    ),
    "pplconv_vnni_avx512": "vpdpbusd zmm0, zmm1, zmm2",
    "pplconv_vbmi_avx512": "vpermb zmm0, zmm1, zmm2",
}
BREACHES_AARCH64 = {
    "plain_neon": (
        "fmla v0.4s, v1.4s, v2.s[1]; fmla v0.2d, v1.2d, v2.d[1]; stp d8, d9, [sp, #-16]!; "
        "mrs x0, fpcr; ldaxr w0, [x1]; prfm pldl1keep, [x0, 64]; bti c; paciasp; "
        "ldr x0, literal; b.ne plain_neon; cbz x0, plain_neon; tbnz w0, #3, plain_neon; "
        "adrp x0, literal; bl plain_neon; ret; literal:; .word 0xffffffff"
    ),
    "plain_fp16": "fadd v0.8h, v1.8h, v2.8h",
    "plain_dotprod": "sdot v0.4s, v1.16b, v2.4b[0]",
    "plain_lse": "ldadd w0, w1, [x2]",
    "plain_rcpc": "ldapr w0, [x1]",
    "plain_rdma": "sqrdmlah v0.4s, v1.4s, v2.4s",
    "plain_crc": "crc32w w0, w1, w2",
    "plain_complex": "fcmla v0.4s, v1.4s, v2.4s, #90",
    "plain_unknown": ".inst 0x00ffffff",
    "plain_asks_for_lse": (
        "adrp x16, literal; ldrb w16, [x16]; cbz w16, plain_asks_for_lse; ldadd w0, w1, [x2]"
    ),
    "plain_asks_for_one": (
        "adrp x16, literal; ldrb w16, [x16]; cbz w16, plain_asks_for_one; ldadd w0, w1, [x2]; "
        "ldaddal w0, w1, [x2]"
    ),
    "plain_asks_elsewhere": "ldrb w16, [x2]; cbz w16, plain_asks_elsewhere; ldadd w0, w1, [x2]",
    "pplconv_good_neon": "fmla v0.4s, v1.4s, v2.4s; fcvtl v0.4s, v1.4h",
    "pplconv_half_neon": "fmla v0.8h, v1.8h, v2.h[0]",
    "pplconv_scalar_neon": "fmadd h0, h1, h2, h3",
    "pplconv_good_fp16": "fmla v0.8h, v1.8h, v2.h[0]; fmadd h0, h1, h2, h3",
    "pplconv_good_fp16.part.0": "fadd v0.8h, v1.8h, v2.8h",
    "pplconv_long_fp16": "fmlal v0.4s, v1.4h, v2.4h",
    "pplconv_i8mm_fp16": "smmla v0.4s, v1.16b, v2.16b",
    "pplconv_bf16_fp16": "bfmmla v0.4s, v1.8h, v2.8h",
    "pplconv_sve_fp16": "ptrue p0.s",
    "pplconv_good_dotprod": "sdot v0.4s, v1.16b, v2.4b[0]",
    "pplconv_half_dotprod": "fmla v0.8h, v1.8h, v2.h[0]",
    "pplconv_lse_dotprod": "ldadd w0, w1, [x2]",
    "pplconv_rdma_dotprod": "sqrdmlah v0.4s, v1.4s, v2.4s",
    "pplconv_i8mm_dotprod": "usdot v0.4s, v1.16b, v2.16b",
    "pplconv_good_i8mm": "smmla v0.4s, v1.16b, v2.16b; udot v0.4s, v1.16b, v2.16b",
    "pplconv_bf16_i8mm": "bfdot v0.4s, v1.8h, v2.8h",
    "pplconv_good_bf16": "bfdot v0.4s, v1.8h, v2.2h[0]; bfmmla v0.4s, v1.8h, v2.8h",
    "pplconv_dot_bf16": "sdot v0.4s, v1.16b, v2.16b",
}
BREACHES_ARMV7L = {
    "plain_vfp": (
        "vmla.f64 d0, d1, d15; vcmpe.f32 s0, s1; vmrs APSR_nzcv, fpscr; ite gt; "
        "vmovgt.f32 s0, s1; vnegle.f32 s0, s1; vmov.f64 d7, #-1.0; vldr s0, literal; "
        "vpush {d8-d15}; dmb ish; beq plain_vfp; ldrexd r0, r1, [r2]; bx lr; .p2align 2; "
        "literal:; .word 0xffffffff; .arm"
    ),
    "plain_neon": "vadd.f32 q0, q1, q2",
    "plain_neon_integer": "veor q0, q1, q2",
    "plain_fma": "vfma.f32 s0, s1, s2",
    "plain_upper_half": "vadd.f64 d0, d1, d16",
    "plain_unknown": ".inst 0xffffffff",
    "pplconv_good_neon32": (
        "vfma.f32 q0, q1, q15; vld1.32 {d0[], d1[]}, [r1], r2; vcgt.f32 q1, q0, q2; "
        "vbit q0, q1, q2; vfmseq.f32 s0, s1, s2"
    ),
    "pplconv_good_neon32.part.0": "vpadd.f32 d0, d1, d2",
    "pplconv_half_neon32": "vfma.f16 q0, q1, q2",
    "pplconv_v8_neon32": "vmaxnm.f32 q0, q1, q2",
    "pplconv_select_neon32": "vselge.f32 s0, s1, s2",
    "pplconv_aes_neon32": "aese.8 q0, q1",
    "pplconv_good_half32": "vfma.f16 q0, q1, q2; vcvt.f32.f16 q0, d2; vrinta.f32 q0, q1",
    "pplconv_dot_half32": "vsdot.s8 q0, q1, q2",
}
# Directives before the functions, the type of functions, and the return.
DIRECTIVES = {
    "x86_64": (".intel_syntax noprefix", "@function", "ret"),
    "aarch64": (".arch armv8.6-a+sve2+fp16fml", "%function", "ret"),
    "armv7l": (
        ".syntax unified; .arch armv8.2-a; .fpu crypto-neon-fp-armv8; .arch_extension fp16; "
        ".arch_extension dotprod; .thumb",
        "%function",
        "bx lr",
    ),
}
# The functions, and the features of the levels in their names.
BREACHES = {
    "x86_64": (BREACHES_X86, {name: ISAS[name].features for name in ("avx2", "avx512")}),
    "aarch64": (
        BREACHES_AARCH64,
        {name: ISAS[name].features for name in ("neon", "fp16", "dotprod", "i8mm", "bf16")},
    ),
    "armv7l": (BREACHES_ARMV7L, {name: ISAS[name].features for name in ("neon32", "half32")}),
}
ALLOWED = {
    "x86_64": {"plain_sse2", "pplconv_xgetbv"},
    "aarch64": {"plain_neon", "plain_asks_for_lse"},
    "armv7l": {"plain_vfp"},
}


def assembly(machine: str) -> str:
    """Write down the functions of a machine."""
    directives, kind, back = DIRECTIVES[machine]
    lines = [".text", *directives.split("; ")]
    for name, body in BREACHES[machine][0].items():
        lines += [f".globl {name}", f".type {name}, {kind}", f"{name}:", *body.split("; "), back]
    return "\n".join([*lines, f'.section .note.GNU-stack, "", {kind[0]}progbits', ""])


def test_breaches_are_found(tmp_path):
    """Each function that breaks the rule is named, and no other."""
    names, levels = BREACHES[MACHINE]
    source = tmp_path / "breaches.S"
    source.write_text(assembly(MACHINE))
    compile_library(tmp_path, "breaches", [source])
    features = {
        name: levels[name.rsplit("_", 1)[1]]
        for name in names
        if name.startswith("pplconv_") and name.rsplit("_", 1)[1] in levels
    }
    found = JUDGE.violations(tmp_path / "breaches.so", features, tmp_path)
    guilty = {line.split(":")[0] for line in found}
    assert guilty == set(names) - ALLOWED[MACHINE] - {name for name in names if "_good_" in name}


# A level, the compiler's flag for it, and a type of vectors whose addition needs it.
HELPED = {
    "x86_64": ("avx2", "-mavx2", "typedef float vector __attribute__((vector_size(32)));"),
    "aarch64": (
        "fp16",
        "-march=armv8.2-a+fp16",
        "typedef __fp16 vector __attribute__((vector_size(16)));",
    ),
    "armv7l": (
        "neon32",
        "-mfpu=neon-vfpv4",
        "typedef int vector __attribute__((vector_size(16)));",
    ),
}


def test_helpers_belong_to_their_file(tmp_path):
    """A static function that was not inlined is judged as its file's kernel."""
    level, flag, vector = HELPED[MACHINE]
    name = f"pplconv_whole_{level}"
    kernel, plain = tmp_path / f"{name}.c", tmp_path / "plain.c"
    kernel.write_text(
        f"{vector}\n"
        "static __attribute__((noinline)) vector helper(vector a, vector b) { return a + b; }\n"
        f"void {name}(vector *p) {{ p[0] = helper(p[1], p[2]) + p[3]; }}\n"
    )
    plain.write_text(kernel.read_text().replace(name, "plain"))
    features = {name: BREACHES[MACHINE][1][level]}
    for sources, guilty in (([kernel], []), ([plain, kernel], ["helper", "plain"])):
        library = f"library_of_{len(sources)}"
        compile_library(tmp_path, library, sources, flags=[flag])
        found = JUDGE.violations(tmp_path / f"{library}.so", features, tmp_path)
        assert sorted({line.split(":")[0] for line in found}) == guilty
