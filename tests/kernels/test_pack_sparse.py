"""Weights into terms: zeros, every order of k, parts of K, groups, panels without terms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tests.kernels.guarded_memory import CANARY, Buffer
from tests.kernels.kernel_table import BITS, every_row, symbol
from tests.kernels.packing_case import PackingCall

every_kernel = pytest.mark.parametrize("row", every_row("pack_sparse"), ids=symbol)
STEP, COUNT = np.dtype(np.int32), np.dtype(np.int64)
# Members of the contract for rows and for columns of taps: the dilation; then the stride in the
# input, the places from one line to the next a stride apart, and the places between phases.
LINES = "dilation", "stride", "step", "phase"
DENSITIES = (0.0, 0.05, 0.5, 1.0)


@dataclass
class Panel:
    """A panel to pack. `block` is the contract's channel_block; `across`: channels are neighbours.

    `begin` and `end` limit k; None means the end of K. There is room for `spare` more groups than
    the panel has: if it is negative, some do not fit; if None, terms are only counted.
    """

    rows: int
    ic: int
    taps: int
    block: int
    width: int
    kr: int = 1
    across: bool = False
    begin: int = 0
    end: int | None = None
    spare: int | None = 0
    density: float = 0.3
    # Taps in a row, places from channel to channel of the input, and `LINES` of rows and columns.
    kw: int = 1
    channel: int | None = None
    row_line: tuple[int, int, int, int] | None = None
    column_line: tuple[int, int, int, int] = (1, 1, 1, 0)

    @property
    def depth(self) -> int:
        """K, with the last block of channels filled up."""
        return -(-self.ic // self.block) * self.block * self.taps


def in_order(src: np.ndarray, panel: Panel) -> np.ndarray:
    """Weights as (width, k), zero where the panel has none."""
    blocks = -(-panel.ic // panel.block)
    padded = np.zeros((panel.width, blocks * panel.block, panel.taps), src.dtype)
    padded[: panel.rows, : panel.ic] = src
    padded = padded.reshape(panel.width, blocks, panel.block, panel.taps)
    return padded.transpose(0, 1, 3, 2).reshape(panel.width, -1)


def places(panel: Panel) -> np.ndarray:
    """Place of each k in the input."""
    k = np.arange(panel.depth + 1)
    size = panel.block * panel.taps
    channel, tap = k // size * panel.block + k % panel.block, k // panel.block % panel.taps
    to_channel, row, column = steps_of(panel)
    found = channel * to_channel
    for index, (dilation, stride, step, phase) in (
        (tap // panel.kw, row),
        (tap % panel.kw, column),
    ):
        line, behind = np.divmod(index * dilation, stride)
        found += line * step + behind * phase
    return found


def steps_of(panel: Panel) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Give channel step, row line and column line; by default, places are in order (ic, tap)."""
    channel = panel.taps if panel.channel is None else panel.channel
    return channel, panel.row_line or (1, 1, panel.kw, 0), panel.column_line


def terms(weights: np.ndarray, panel: Panel) -> tuple[np.ndarray, np.ndarray]:
    """Steps, and values (groups, width, kr), of a panel."""
    end = panel.depth if panel.end is None else panel.end
    found = [k for k in range(panel.begin, end) if (weights[:, k] != 0).any()]
    steps = np.diff(places(panel)[[panel.begin, *found]])
    groups = -(-len(found) // panel.kr)
    values = np.zeros((groups * panel.kr, panel.width), weights.dtype)
    values[: len(found)] = weights[:, found].T
    values = values.reshape(groups, panel.kr, panel.width).transpose(0, 2, 1)
    return np.pad(steps, (0, groups * panel.kr - len(steps))).astype(STEP), values


def steps_by_name(panel: Panel) -> dict[str, int]:
    """Give the steps by their names in the contract."""
    channel, row, column = steps_of(panel)
    names = [f"{line}_{what}" for line in ("row", "column") for what in LINES]
    return {"channel_step": channel, **dict(zip(names, (*row, *column), strict=True))}


class Call(PackingCall):
    """A panel laid out in memory, with three outputs whose surroundings are watched."""

    def __init__(self, checker, row, rng, panel: Panel) -> None:
        super().__init__(checker, row, rng)
        self.panel, size = panel, self.dtype.itemsize
        gap = int(rng.integers(0, 4))
        across = (size, (panel.rows + gap) * size)
        src_os, src_ks = across if panel.across else ((panel.ic * panel.taps + gap) * size, size)
        shape, strides = (panel.rows, panel.ic, panel.taps), (src_os, panel.taps * src_ks, src_ks)
        self.src = self.place_input("src", shape, strides)
        self.src[rng.random(shape) >= panel.density] = 0
        self.values |= {
            "src_os": src_os,
            "src_ks": src_ks,
            "ic": panel.ic,
            "taps": panel.taps,
            "channel_block": panel.block,
            "kw": panel.kw,
            **steps_by_name(panel),
            "rows": panel.rows,
            "width": panel.width,
            "kr": panel.kr,
            "k_begin": panel.begin,
            "k_end": panel.depth if panel.end is None else panel.end,
        }

    def judge(self, *, flushing: bool = False) -> None:
        """Pack the panel and compare with plain NumPy."""
        panel = self.panel
        steps, values = terms(in_order(self.src, panel), panel)
        groups = max(len(values) + (panel.spare or 0), 0)
        room = groups * panel.kr
        outputs = {"count": (COUNT, np.array([len(steps)], COUNT))}
        if panel.spare is not None:
            outputs["steps"] = STEP, steps[:room]
            outputs["values"] = self.dtype, values[:groups]
        sizes = {"count": 8, "steps": room * STEP.itemsize}
        sizes["values"] = room * panel.width * self.dtype.itemsize
        placed: dict[str, tuple[Buffer, np.ndarray]] = {}
        for name, (dtype, expected) in outputs.items():
            buffer = self._buffer(name, sizes[name], writable=True, unit=dtype.itemsize)
            # Canaries stay where nothing may be written.
            wanted = buffer.surroundings.copy()
            first = buffer.address - buffer.arena.base - buffer._low
            bits = np.ascontiguousarray(expected).view(np.uint8).ravel()
            wanted[first : first + len(bits)] = bits
            placed[name] = buffer, wanted
        self.values["room"] = room
        if panel.spare is None:
            self.values |= {"steps": 0, "room": 10**6}
        with self.checker.flushing(flushing):
            self.checker.call(self.row, self.values, panel)
        for name, (buffer, wanted) in placed.items():
            same = np.array_equal(buffer.surroundings, wanted)
            assert same, f"{self.row['symbol']}: {name} differ\n{panel}"


def check(checker, row, rng, **shape) -> None:
    Call(checker, row, rng, Panel(**shape)).judge()


@every_kernel
@pytest.mark.parametrize("width", [1, 4, 8, 16])
def test_panels(checker, row, width, rng):
    """Each number of channels of a panel, density and order of k."""
    for rows in range(1, width + 1):
        for density in DENSITIES:
            ic, taps = int(rng.integers(1, 40)), int(rng.choice([1, 4, 9]))
            for block in {1, ic, 4, 16}:
                shape = {"ic": ic, "taps": taps, "block": block, "across": taps == 1 and block > 1}
                check(checker, row, rng, rows=rows, width=width, density=density, **shape)


@every_kernel
@pytest.mark.parametrize("kr", [1, 2, 4])
def test_groups_of_terms(checker, row, kr, rng):
    """Every remainder of the terms by kr: zeros at the last k fill the last group."""
    for ic in range(1, 4 * kr + 2):
        for density in (0.3, 1.0):
            for rows in (1, 3, 4):
                check(
                    checker, row, rng, rows=rows, ic=ic, taps=1, block=ic, width=4, kr=kr,
                    density=density,
                )  # fmt: skip


@every_kernel
def test_parts_of_k(checker, row, rng):
    """Steps count from the first k of a part, which may have no terms or no k at all."""
    for _ in range(60):
        ic, taps = int(rng.integers(1, 40)), int(rng.choice([1, 9]))
        block, kr = int(rng.choice([1, ic, 8])), int(rng.choice([1, 2, 4]))
        depth = -(-ic // block) * block * taps
        begin = int(rng.integers(0, depth + 1))
        end = int(rng.integers(begin, depth + 1))
        shape = {"ic": ic, "taps": taps, "block": block, "kr": kr, "begin": begin, "end": end}
        check(checker, row, rng, rows=3, width=4, density=float(rng.choice(DENSITIES)), **shape)


@every_kernel
def test_places_of_the_input(checker, row, rng):
    """Taps in rows, steps of any size and sign, each order of k, strides with phases."""
    for channel, down, across in (
        (1, (1, 1, 40, 0), (1, 1, 4, 0)),
        (400, (2, 1, 10, 0), (1, 1, 2, 0)),
        (9, (1, 1, 3, 0), (1, 1, 1, 0)),
        (-7, (1, 1, 1000, 7), (1, 1, -3, 0)),
        (10**6, (1, 1, 10**3, 0), (1, 1, 1, 0)),
        (400, (1, 2, 10, 100), (1, 2, 1, 50)),
        (900, (2, 3, 10, 300), (3, 2, 1, -90)),
    ):
        for kh, kw in ((1, 1), (3, 3), (2, 5), (5, 1), (1, 7)):
            ic = int(rng.integers(1, 20))
            for block in {1, ic, 8}:
                depth = -(-ic // block) * block * kh * kw
                begin = int(rng.integers(0, depth))
                shape = {"ic": ic, "taps": kh * kw, "kw": kw, "block": block, "begin": begin}
                kr = int(rng.choice([1, 2, 4]))
                shape |= {"channel": channel, "row_line": down, "column_line": across}
                check(checker, row, rng, rows=3, width=4, kr=kr, **shape)


@every_kernel
@pytest.mark.parametrize("kr", [1, 2, 4])
def test_room(checker, row, kr, rng):
    """Nothing is written beyond the room; the count is that of all terms."""
    for spare in (-100, -3, -1, 0, 1, 5, None):
        for density in DENSITIES:
            shape = {"ic": 23, "taps": 3, "block": 23, "kr": kr, "spare": spare}
            check(checker, row, rng, rows=4, width=4, density=density, **shape)


@every_kernel
def test_one_weight(checker, row, rng):
    """A single weight, anywhere in the panel."""
    for channel in range(4):
        for k in range(18):
            call = Call(checker, row, rng, Panel(4, 6, 3, 6, 4))
            call.src[...] = 0
            call.src[channel, k // 3, k % 3] = 1
            call.judge()


@every_kernel
@pytest.mark.parametrize("flushing", [False, True])
def test_what_is_zero(checker, row, flushing, rng):
    """Zeros of either sign are left out; subnormal numbers stay, flush-to-zero or not."""
    call = Call(checker, row, rng, Panel(1, 68, 1, 68, 1))
    bits = BITS[row["dtype"]]
    one_bit = np.left_shift(bits.type(1), np.arange(8 * bits.itemsize, dtype=bits))
    call.src.view(bits)[...] = 0
    call.src.view(bits)[0, : len(one_bit), 0] = one_bit
    weights = len(one_bit)
    if call.dtype.kind == "f":
        assert call.src[0, len(one_bit) - 1, 0] == 0  # the sign alone
        call.src[0, -4:, 0] = np.nan, -np.inf, np.finfo(call.dtype).smallest_subnormal, -0.0
        weights += 2
    steps, _ = terms(in_order(call.src, call.panel), call.panel)
    assert len(steps) == weights
    call.judge(flushing=flushing)


@every_kernel
def test_a_long_panel(checker, row, rng):
    """More terms than 16 bits can count."""
    shape = {"ic": 70_000, "taps": 1, "block": 70_000, "kr": 1}
    check(checker, row, rng, rows=1, width=1, density=0.97, **shape)


def test_the_canary_is_no_step():
    """Canaries differ from all steps, so that a missing write shows."""
    assert np.full(4, CANARY, np.uint8).view(STEP)[0] > 10**6
