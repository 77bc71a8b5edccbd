"""im2col from channel planes, and the table of runs that it follows."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv import _kernels
from tests.kernels.kernel_table import every_row, lanes_of, symbol
from tests.kernels.packing_case import Geometry, PackingCall, draw_geometry, im2col

every_kernel = pytest.mark.parametrize("row", every_row("pack_pixels"), ids=symbol)
# struct pplconv_run
RUN = np.dtype(
    [(name, "<i4") for name in ("src", "dst")]
    + [(name, "<u2") for name in ("load_mask", "store_mask", "vectors")]
    + [(name, "u1") for name in ("lanes", "room")]
)


def make_runs(
    g: Geometry, first: int, pixels: int, lanes: int, width: int, panel_elements: int
) -> bytes:
    """Make the table, with room for a run per vector, per image row, and two per panel."""
    per_tap = -(-pixels // lanes) + (pixels + g.ow - 2) // g.ow + 1 + 2 * -(-pixels // width)
    room = g.taps * per_tap
    table = bytes(
        _kernels.pixel_runs(g.as_tuple(), first, pixels, lanes, width, panel_elements, room)
    )
    assert len(table) <= room * RUN.itemsize
    return table


def draw_segment(
    rng: np.random.Generator, lanes: int, stride_w: int | None = None, tail: int | None = None
) -> tuple[Geometry, int, int]:
    """Draw a geometry, the first pixel and the number of pixels.

    `tail` is the number of pixels in the last vector.
    """
    while True:
        g = draw_geometry(rng, stride_w)
        first = int(rng.integers(0, g.pixels))
        room = g.pixels - first
        if tail is None:
            return g, first, int(rng.integers(1, room + 1))
        if room >= tail:
            return g, first, tail + lanes * int(rng.integers(0, (room - tail) // lanes + 1))


def check(checker, row: dict, rng: np.random.Generator, stride_w: int, tail: int | None = None):
    """Pack one random segment of a random geometry."""
    call = PackingCall(checker, row, rng)
    size = call.dtype.itemsize
    lanes = row["vector_bytes"] // size
    g, first, pixels = draw_segment(rng, lanes, stride_w, tail)
    width = lanes * int(rng.integers(1, 5))
    panels, channels = -(-pixels // width), int(rng.integers(1, 4))
    # All channels of a panel lie together, or all panels of a channel; with or without a gap.
    gap = int(rng.integers(0, 9))
    panel_elements, channel_elements = g.taps * width, g.taps * width
    if rng.integers(0, 2):
        panel_elements = channels * g.taps * width + gap
    else:
        channel_elements = panels * g.taps * width + gap
    table = make_runs(g, first, pixels, lanes, width, panel_elements)
    call.place_bytes("runs", table)

    src_cs = (g.ih * g.iw + int(rng.integers(0, 9))) * size
    src = call.place_input("src", (channels, g.ih, g.iw), (src_cs, g.iw * size, size))
    dst = call.place_output(
        "dst",
        (panels, channels, g.taps, width),
        (panel_elements * size, channel_elements * size, width * size, size),
    )
    call.values |= {
        "src_cs": src_cs,
        "dst_cs": channel_elements * size,
        "channels": channels,
        "run_count": len(table) // RUN.itemsize,
        "stride": g.stride_w,
    }
    # The last panel is filled up with zeros to whole vectors; the vectors after it stay.
    vectors_end = -(-pixels // lanes) * lanes
    expected = np.zeros((channels, g.taps, panels * width), call.dtype)
    columns = im2col(src, g).reshape(channels, g.taps, g.pixels)
    expected[..., :pixels] = columns[..., first : first + pixels]
    expected[..., vectors_end:] = dst[-1, 0, 0, -1] if vectors_end < panels * width else 0
    expected = expected.reshape(channels, g.taps, panels, width).transpose(2, 0, 1, 3)
    context = (g, f"{first=} {pixels=} {width=}", call.values)
    call.same_bits(call.run(context), expected, context)


@every_kernel
@pytest.mark.parametrize("stride_w", [1, 2, 3])
def test_segments(checker, row, stride_w, rng):
    for _ in range(60):
        check(checker, row, rng, stride_w)


@every_kernel
def test_every_tail(checker, row, rng):
    lanes = lanes_of(row)
    for tail in range(1, lanes + 1):
        for stride_w in (1, 2, 3):
            for _ in range(3):
                check(checker, row, rng, stride_w, tail)


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_runs_cover_each_packed_pixel_once(lanes, rng):
    """Runs read only the image, masks agree with lanes, and `room` is written by later runs."""
    for _ in range(60):
        g, first, pixels = draw_segment(rng, lanes)
        width = lanes * int(rng.integers(1, 4))
        panels = -(-pixels // width)
        table = make_runs(g, first, pixels, lanes, width, g.taps * width)
        written = np.zeros((panels, g.taps, width), int)
        for run in reversed(np.frombuffer(table, RUN)):
            count, vectors, mask = (int(run[name]) for name in ("lanes", "vectors", "load_mask"))
            seen = [lane for lane in range(16) if mask >> lane & 1]
            assert seen == list(range(seen[0], seen[-1] + 1)) if seen else True
            assert mask < 1 << count <= 1 << lanes
            assert int(run["store_mask"]) == (1 << count) - 1
            # In runs of several vectors, these are whole and come from the image.
            assert vectors == 1 or (vectors > 1 and mask == (1 << lanes) - 1)
            many = (vectors - 1) * lanes
            elements = np.array([*range(many), *(many + lane for lane in seen)], int)
            elements = int(run["src"]) + elements * g.stride_w
            assert np.all((elements >= 0) & (elements < g.ih * g.iw))
            place, room = int(run["dst"]) + many, int(run["room"])
            assert count <= room <= lanes
            flat = written.reshape(-1)
            assert np.all(flat[place + count : place + room] == 1)
            # A whole vector, unless the runs behind leave a gap.
            assert room == lanes or np.all(flat[place + room : place + room + 1] == 0)
            flat[int(run["dst"]) : place + count] += 1
        expected = np.arange(panels * width) < -(-pixels // lanes) * lanes
        expected = expected.reshape(panels, 1, width)
        np.testing.assert_array_equal(written, np.broadcast_to(expected, written.shape))


def test_a_row_longer_than_a_run_can_be():
    """A run counts its vectors in 16 bits."""
    g = Geometry(1, 300001, 1, 300001, 1, 1, 1, 1, 1, 1, 0, 0)
    table = np.frombuffer(make_runs(g, 0, g.pixels, 2, g.pixels + 1, g.pixels + 1), RUN)
    assert [int(run["vectors"]) for run in table] == [65535, 65535, 18930, 1, 1]
    assert [int(run["dst"]) for run in table] == [0, 131070, 262140, 300000, 300001]
    assert [int(run["lanes"]) for run in table] == [2, 2, 2, 1, 1]
