"""The checker reports each rule that a function breaks."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.kernels.guarded_memory import CANARY, MARGIN, PAGE, Arena, extent_of
from tests.kernels.kernel_checker import NATIVE, NOWHERE, SAVED_REGISTERS, compile_library
from tests.kernels.kernel_table import MACHINE

needs_rules = pytest.mark.skipif(
    MACHINE not in SAVED_REGISTERS, reason="the checker does not know this machine's ABI"
)


@pytest.fixture(scope="module")
def rule(tmp_path_factory):
    """Give the address of a function of ``native/misbehave_*.S`` by name."""
    source = NATIVE / f"misbehave_{MACHINE}.S"
    library = compile_library(tmp_path_factory.mktemp("misbehave"), "misbehave", [source])
    return lambda name: ctypes.cast(getattr(library, f"rule_{name}"), ctypes.c_void_p).value


def problems(checker, address: int, *, pointer: int = NOWHERE, vector_bytes: int = 16) -> list[str]:
    """Call the function with an argument struct whose first member is `pointer`."""
    values = {"src": pointer, "src_rs": 0, "dst_rs": 0, "rows": 0, "columns": 0}
    values |= {"residual_rs": 0, "flags": 0}
    arguments = checker.arguments("store_transposed", values)
    return checker.problems(address, arguments, vector_bytes)


@needs_rules
@pytest.mark.parametrize("name", ["nothing", "clobbers_scratch", "raises_inexact"])
def test_allowed(checker, rule, name):
    assert problems(checker, rule(name)) == []


@pytest.mark.skipif(MACHINE != "aarch64", reason="it alone saves halves of vector registers")
def test_upper_halves_of_saved_vectors_are_free(checker, rule):
    assert problems(checker, rule("clobbers_upper_halves")) == []


X86_RULES = [
    ("sets_direction", "left the direction flag set"),
    ("leaves_mmx", "x87"),
    ("leaves_x87", "x87"),
]


@needs_rules
@pytest.mark.parametrize(
    ("name", "text"),
    [
        *((r, f"did not restore {r}") for r in SAVED_REGISTERS.get(MACHINE, ())),
        ("loses_stack", "did not restore the stack pointer"),
        ("writes_above", "wrote on the stack above its return address"),
        ("changes_rounding", "changed the control bits of MXCSR, FPCR or FPSCR"),
        ("flushes_denormals", "changed the control bits of MXCSR, FPCR or FPSCR"),
        *(X86_RULES if MACHINE == "x86_64" else ()),
    ],
)
def test_breach_is_reported_once(checker, rule, name, text):
    """The breach is the only report, and the next call starts clean."""
    (found,) = problems(checker, rule(name))
    assert found == text or (text == "x87" and text in found)
    assert problems(checker, rule("nothing")) == []


@pytest.mark.unsanitized("such builds optimise nothing, so that the checker lets it pass")
@pytest.mark.parametrize(
    "vector_bytes",
    [
        pytest.param(32, marks=pytest.mark.needs_isa("avx2")),
        pytest.param(64, marks=pytest.mark.needs_isa("avx512")),
    ],
)
def test_dirty_upper_halves(checker, rule, vector_bytes):
    (found,) = problems(checker, rule("leaves_ymm"), vector_bytes=vector_bytes)
    assert "vzeroupper" in found
    # A function that uses no vector register leaves the checker's poison in the upper halves.
    assert problems(checker, rule("nothing"), vector_bytes=vector_bytes) == [found]
    assert problems(checker, rule("cleans_ymm"), vector_bytes=vector_bytes) == []


@needs_rules
@pytest.mark.parametrize(
    ("name", "signal"), [("is_illegal", "SIGILL"), ("reads_first_pointer", "SIGSEGV at 0x8")]
)
def test_signals_are_caught(checker, rule, name, signal):
    found = problems(checker, rule(name))
    assert found[0] == "raised a signal"
    assert signal in found[1]
    assert problems(checker, rule("nothing")) == []


@needs_rules
def test_endless_loop_is_left(checker, rule):
    seconds = ctypes.c_int.in_dll(checker.native, "checked_call_seconds")
    usual, seconds.value = seconds.value, 1
    try:
        assert problems(checker, rule("loops"))[1] == "it did not return"
    finally:
        seconds.value = usual


@needs_rules
@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("place", ["start", "end"])
def test_one_byte_outside(checker, rule, place, writable):
    """The first and the last byte may be read; their neighbours fault."""
    buffer = checker.arena("neighbours", writable=writable).buffer(100, place)
    read = rule("reads_first_pointer")
    for pointer in (buffer.address, buffer.address + 99):
        assert problems(checker, read, pointer=pointer) == []
    outside = buffer.address - 1 if place == "start" else buffer.address + 100
    found = problems(checker, read, pointer=outside)
    where = "1 bytes before" if place == "start" else "0 bytes past the end of"
    assert where in found[1]
    assert "neighbours" in found[1]


@needs_rules
def test_only_outputs_can_be_written(checker, rule):
    write = rule("writes_first_pointer")
    for writable in (False, True):
        buffer = checker.arena("written", writable=writable).buffer(8, "end")
        buffer.fill(CANARY)
        found = problems(checker, write, pointer=buffer.address)
        assert (found == []) is writable
        assert (buffer.surroundings[MARGIN] == CANARY) is not writable
    assert problems(checker, rule("writes_arguments"))[0] == "raised a signal"


def test_buffers_lie_where_they_should():
    arena = Arena("places", 2, writable=True)
    assert arena.base % PAGE == 0
    assert arena.buffer(100, "start").address == arena.base
    assert arena.buffer(100, "end").address == arena.base + 2 * PAGE - 100
    assert arena.buffer(100, "middle", 3).address == arena.base + MARGIN + 3
    assert arena.buffer(0, "end").address == arena.base + 2 * PAGE
    with pytest.raises(ValueError, match="places"):
        arena.buffer(2 * PAGE, "start")


def test_both_mappings_are_the_same_bytes():
    arena = Arena("twice", 1, writable=True)
    buffer = arena.buffer(12, "end")
    buffer.array((3,), np.dtype(np.float32), (4,))[...] = [1, 2, 3]
    assert list((ctypes.c_float * 3).from_address(buffer.address)) == [1, 2, 3]


def test_extent():
    assert extent_of((3, 2), (100, 4), 4) == 208
    assert extent_of((0, 2), (100, 4), 4) == 0
