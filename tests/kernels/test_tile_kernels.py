"""GEMM kernels on tile registers (AMX): on silicon if there is AMX, interpreted on any machine."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import pplconv
from asm.contract import CONTRACTS
from asm.registry import Kernel, kernels
from asm.x86_64 import release_tiles
from asm.x86_64.gemm_tiles import generate
from tests.kernels.gemm_case import (
    ACCUMULATE,
    B_PADDED,
    C_LAYOUTS,
    flag_combinations,
)
from tests.kernels.gemm_case import Call as FloatCall
from tests.kernels.gemm_case import draw_case as draw_float_case
from tests.kernels.guarded_memory import PLACES
from tests.kernels.interpreter_x86_64 import parse
from tests.kernels.kernel_table import every_row, rows, symbol
from tests.kernels.kernel_values import KINDS
from tests.kernels.test_tile_arithmetic import put
from tests.kernels.tile_case import (
    GROUPS,
    KERNELS,
    Interpreted,
    TileCall,
    configured,
    draw_case,
    row_of,
)

ROWS = [row for row in every_row("gemm") if row["isa"] == "amx"]
every_kernel = pytest.mark.parametrize("row", ROWS, ids=symbol)
# Tiles with rows at the limits, for slow tests.
SOME = [k for k in KERNELS if k.mr in (1, 2, 15, 16, 17, 31, 32)]
# One tile row and two, one column of tiles and two.
SHORT = [k for k in KERNELS if (k.mr, k.nr) in ((3, 16), (16, 32), (17, 16), (32, 32))]
some_kernels = pytest.mark.parametrize("kernel", SOME, ids=lambda k: k.symbol[len("pplconv_") :])


@pytest.fixture
def interpreted(checker) -> Interpreted:
    """Interpreted tile registers."""
    return Interpreted(checker)


def judge(execute, row: dict, rng: np.random.Generator, **fixed: object) -> None:
    """Draw a call, make it, judge it."""
    case = draw_case(rng, row, **fixed)
    with np.errstate(all="ignore"):
        call = TileCall(execute.checker, row, case, rng)
        call.judge(call.run(execute))


@pytest.mark.sampled(46)
@every_kernel
def test_every_tail(silicon, row, rng):
    """Every number of columns, next to one of the guard pages."""
    for n in range(1, row["nr"] + 1):
        judge(silicon, row, rng, n=n, place=str(rng.choice(PLACES)))


@pytest.mark.sampled(42)
@every_kernel
def test_every_depth(silicon, row, rng):
    """Every k around the steps of 16 groups."""
    depths = {max(g * row["kr"] - r, 0) for g in GROUPS for r in range(row["kr"])}
    for k in sorted(depths):
        judge(silicon, row, rng, k=k, place=str(rng.choice(PLACES)))


@pytest.mark.sampled(13)
@every_kernel
def test_every_combination_of_flags(silicon, row, rng):
    """Whole tiles and tails; then C in each layout."""
    for flags in flag_combinations(row):
        for n in (row["nr"], int(rng.integers(1, row["nr"] + 1))):
            judge(silicon, row, rng, n=n, flags=flags)
    for layout, n in product(C_LAYOUTS, (1, 15, 16, row["nr"] - 1, row["nr"])):
        judge(silicon, row, rng, n=n, c_layout=layout)


@pytest.mark.sampled(52)
@every_kernel
def test_every_number_of_segments(silicon, row, rng):
    """Segments anywhere in A and B, in any order, overlapping or not."""
    for count in range(10):
        judge(silicon, row, rng, segment_count=count)


@pytest.mark.sampled(31)
@every_kernel
def test_the_interpreter_gives_the_same_bits(silicon, interpreted, row, rng):
    """Both execute the same call in the same memory."""
    for kind, padded in product(KINDS, (0, B_PADDED)):
        case = draw_case(rng, row, kind=kind)
        case = draw_case(rng, row, kind=kind, flags=case.flags & ~B_PADDED | padded)
        call = TileCall(silicon.checker, row, case, rng)
        got, expected = call.run(silicon), call.run(interpreted)
        nan = np.isnan(got) & np.isnan(expected)
        assert np.array_equal(got.view(np.uint32)[~nan], expected.view(np.uint32)[~nan]), case


@pytest.mark.sampled(8)
@some_kernels
def test_interpreted(interpreted, kernel, rng):
    """On any machine: tails, depths, flags, segments."""
    row = row_of(kernel)
    kr, nr = kernel.kr, kernel.nr
    for n in (1, 15, 16, nr - 1, nr):
        judge(interpreted, row, rng, n=min(n, nr))
    for k in (0, 1, kr, 16 * kr - 1, 16 * kr, 16 * kr + 1, 33 * kr):
        judge(interpreted, row, rng, k=k)
    for flags in rng.choice(flag_combinations(row), 8, replace=len(flag_combinations(row)) < 8):
        judge(interpreted, row, rng, flags=int(flags), n=int(rng.choice([nr, nr - 3])))
    for count in (1, 2, 7):
        judge(interpreted, row, rng, segment_count=count)


@pytest.mark.sampled(82)
@every_kernel
def test_sums_wrap(silicon, row, rng):
    """The largest sums of bytes, and sums of infinities in bfloat16."""
    for flags in (B_PADDED, B_PADDED | ACCUMULATE):
        judge(silicon, row, rng, kind="extreme", flags=flags, k=800, segment_count=0)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("segments", [0, 1, 9])
@pytest.mark.parametrize("kernel", SHORT, ids=lambda k: k.symbol[len("pplconv_") :])
def test_every_short_segment(interpreted, kernel, segments, rng):
    """1 to 15 groups: whole columns, a part of them, and a part that may be read whole."""
    row, nr, kr = row_of(kernel), kernel.nr, kernel.kr
    for groups in range(1, 16):
        k = groups * kr - int(rng.integers(0, kr))
        for n, padded in ((nr, 0), (nr - 3, 0), (nr - 3, B_PADDED)):
            flags = int(rng.choice(flag_combinations(row))) & ~B_PADDED | padded
            place = str(rng.choice(PLACES))
            judge(interpreted, row, rng, k=k, n=n, flags=flags, segment_count=segments, place=place)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kernel", SHORT, ids=lambda k: k.symbol[len("pplconv_") :])
def test_every_depth_interpreted(interpreted, kernel, rng):
    """Integer sums in equal steps or not, to 16 groups behind any number of whole steps."""
    row = row_of(kernel)
    for groups in range(16, 81):
        judge(interpreted, row, rng, k=groups * kernel.kr, segment_count=int(rng.choice([1, 3])))


@pytest.mark.parametrize("dtype", ["bf16t", "u8t"])
def test_what_is_not_copied(interpreted, dtype, rng):
    """Steps from where A and B lie, and steps from the stack: tile loads and copied rows."""
    (kernel,) = (k for k in KERNELS if (k.dtype, k.mr, k.nr) == (dtype, 32, 32))
    row, exact = row_of(kernel), dtype == "u8t"
    # Groups of a segment, steps of it, those that are copied.
    cases = [(g, 1, 0) for g in (1, 4, 8, 15, 16)] + [(32, 2, 0), (48, 3, 0), (17, 2, 1)]
    cases += [(24, 2, 0 if exact else 1), (40, 4 if exact else 3, 0 if exact else 1)]
    for groups, steps, copies in cases:
        judge(interpreted, row, rng, k=32 * kernel.kr, flags=0)  # another configuration
        interpreted.thread.executed.clear()
        judge(interpreted, row, rng, k=groups * kernel.kr, n=32, flags=0, segment_count=3)
        executed = interpreted.thread.executed
        assert executed["tileloadd"] == 3 * steps * 4, groups
        assert executed[kernel_product(dtype)] == 3 * steps * 4
        # One of a constant where it configures; 32 rows of A, and two vectors in each row of B.
        rows = 32 + 2 * (groups % 16)
        assert executed.get("vmovups", 0) == 3 * copies * rows + executed.get("ldtilecfg", 0)
        assert executed["tilestored"] == 4


def kernel_product(dtype: str) -> str:
    """Give the instruction that multiplies tiles."""
    return {"u8t": "tdpbusd", "s8t": "tdpbssd", "bf16t": "tdpbf16ps"}[dtype]


def test_zeros_behind_a_sum_do_not_depend_on_blocks_of_k(interpreted, rng):
    """Sums in two calls have the bits of sums in one, even of a zero that was negative."""
    (kernel,) = (k for k in KERNELS if (k.dtype, k.mr, k.nr) == ("bf16t", 1, 16))
    row, fixed = row_of(kernel), {"n": 16, "segment_count": 0, "kind": "extreme"}
    a, b = np.zeros((1, 36), np.uint16), np.zeros((18, 32), np.uint16)
    small = np.float32(2.0**-70).view(np.uint32) >> 16
    a[0, 34:], b[17] = small, small | 0x8000  # products that are flushed to -0
    a[0, 0], b[0, ::2] = small, small | 0x8000  # so that C is -0 after the first step
    got = []
    for begin, end, flags in (
        (0, 36, B_PADDED),
        (0, 32, B_PADDED),
        (32, 36, ACCUMULATE | B_PADDED),
    ):
        case = draw_case(rng, row, k=end - begin, flags=flags, **fixed)
        call = TileCall(interpreted.checker, row, case, rng)
        put(call, a[:, begin:end], b[begin // 2 : end // 2])
        if flags & ACCUMULATE:
            call.c.write(got[-1])
        got.append(call.run(interpreted))
        call.judge(got[-1])
    assert np.array_equal(got[0].view(np.uint32), got[2].view(np.uint32))


def test_it_configures_once(interpreted, rng):
    """Consecutive kernels of the same MR and step do not load another configuration."""
    for count, (mr, groups) in enumerate(product((3, 16, 17, 32), (5, 32, 12)), 1):
        of_one_mr = [k for k in KERNELS if k.mr == mr]
        assert len(of_one_mr) == 6
        for kernel in of_one_mr:
            judge(interpreted, row_of(kernel), rng, k=groups * kernel.kr, flags=0)
        assert interpreted.thread.configured == count


def test_what_is_configured_is_what_mr_needs():
    """A product takes time for each row of A, so no tile of A or C has unused rows."""
    for kernel in KERNELS:
        thread, rows_of = _configured(kernel), [min(kernel.mr, 16), max(kernel.mr - 16, 0)]
        assert [rows for rows, _ in thread] == [
            *(rows_of[tile // 2] for tile in range(4)),
            rows_of[0],
            16,
            16,
            rows_of[1],
        ]


def _configured(kernel: Kernel) -> list[tuple[int, int]]:
    """Shapes of the tiles in the constants of a kernel's text."""
    block = np.frombuffer(parse(generate(kernel)).rodata, np.uint8)
    return list(zip(block[48:56].tolist(), block[16:32].view(np.uint16).tolist(), strict=True))


@pytest.mark.needs_isa("amx")
def test_the_number_of_the_configuration(silicon, rng):
    """Kernels store it and trust it; the release sets it to zero."""
    chosen = [ROWS[int(i)] for i in rng.choice(len(ROWS), 40)]
    for turn, row in enumerate(chosen):
        judge(silicon, row, rng)
        judge(silicon, row, rng)
        assert configured(silicon.checker)
        if turn % 3 == 0:
            silicon.release()


@pytest.mark.needs_isa("amx")
def test_a_vector_kernel_behind_them_is_right(silicon, checker, rng):
    """Vector kernels work after tile kernels, whether tiles were released or not."""
    floats = [r for r in rows("gemm", "avx512") if r["dtype"] in ("f32", "f64")]
    for turn in range(20):
        judge(silicon, ROWS[int(rng.integers(len(ROWS)))], rng)
        if turn % 2:
            silicon.release()
        row = floats[int(rng.integers(len(floats)))]
        with np.errstate(all="ignore"):
            call = FloatCall(checker, row, draw_float_case(rng, row), rng)
            call.same_bits(call.run(), call.ordered())


@pytest.mark.needs_isa("amx")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_call_leaves_its_thread_without_tiles(checker, rng, threads):
    """Other users of tiles in the thread find no configuration to mistake for theirs."""
    x = rng.integers(0, 256, (2, 32, 24, 24)).astype(np.uint8)
    w = rng.integers(-128, 128, (40, 32, 3, 3)).astype(np.int8)
    scales = {
        "x_scale": 1.0,
        "x_zero_point": np.uint8(0),
        "w_scale": 1.0,
        "w_zero_point": np.int8(0),
    }
    conv = pplconv.QConv2d(
        w, padding=1, threads=threads, y_scale=2.0**11, y_zero_point=np.uint8(128), **scales
    )
    assert conv.plan_for(x.shape).isa == "amx"
    y = conv(x)
    assert not configured(checker)
    sums = np.tensordot(w.astype(int), x[:, :, 4:7, 5:8].astype(int), ((1, 2, 3), (1, 2, 3)))
    assert np.array_equal(y[:, :, 5, 6], np.clip(np.rint(sums.T / 2**11) + 128, 0, 255))


def test_release_interpreted(interpreted, rng):
    """After the release the number is zero and no tiles are configured."""
    judge(interpreted, row_of(KERNELS[0]), rng)
    (kernel,) = (k for k in kernels("x86_64") if k.op == "release_tiles")
    assert interpreted.tiles[0] and interpreted.thread.shapes
    arguments, memory = interpreted.memory("release_tiles", {}, {})
    interpreted.thread.dirty = False
    interpreted.thread.call(release_tiles.generate(kernel), arguments, memory)
    assert not interpreted.tiles[0] and interpreted.thread.shapes is None


def test_every_kernel_opens_with_its_contract_and_its_registers():
    """The kernels of all other levels do so, too."""
    for kernel in KERNELS:
        head = generate(kernel).split(".intel_syntax")[0]
        assert head.startswith(f"# {kernel.symbol}: {CONTRACTS['gemm'].summary}")
        tiles = [
            f"tmm{2 * i + j}" for i in range(-(-kernel.mr // 16)) for j in range(kernel.vectors)
        ]
        assert f"# {', '.join(tiles)} C, row by row" in head
