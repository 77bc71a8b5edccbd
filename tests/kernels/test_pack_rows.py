"""im2col from channels-last images: groups, windows of k, taps apart, several images."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.kernel_table import every_row, lanes_of, symbol
from tests.kernels.packing_case import Geometry, PackingCall, draw_geometry, im2col

ROWS = every_row("pack_rows")
NARROW = [row for row in ROWS if row["dtype"] in ("u8", "s16")]
every_kernel = pytest.mark.parametrize("row", ROWS, ids=symbol)
every_narrow_kernel = pytest.mark.parametrize("row", NARROW, ids=symbol)


def check(
    checker,
    row: dict,
    rng: np.random.Generator,
    channels: int,
    groups: int,
    window: bool,
    apart: int,
    g: Geometry | None = None,
):
    """Pack one random segment; `window` restricts k, `apart` elements lie between taps."""
    call = PackingCall(checker, row, rng)
    size = call.dtype.itemsize
    g = g or draw_geometry(rng)
    # Kernels of floats ignore `fill` and pad with zeros.
    narrow = call.dtype.kind in "iu"
    bounds = np.iinfo(call.dtype if narrow else np.int64)
    fill = int(rng.integers(bounds.min, bounds.max, endpoint=True))
    images = int(rng.integers(1, 4))
    first = int(rng.integers(0, images * g.pixels))
    pixels = int(rng.integers(1, min(images * g.pixels - first, 40) + 1))
    k = g.taps * channels
    k_begin, k_end = (sorted(int(x) for x in rng.integers(0, k + 1, 2))) if window else (0, k)

    src_ps = channels * groups * size
    src_ns = src_ps * g.ih * g.iw + size * int(rng.integers(0, 9))
    src = call.place_input(
        "src", (images, g.ih, g.iw, channels), (src_ns, src_ps * g.iw, src_ps, size)
    )
    # Place of each k in dst, relative to k_begin's.
    places = np.arange(k_begin, k_end)
    places = places + places // channels * apart - (k_begin + k_begin // channels * apart)
    extent = int(places[-1]) + 1 if places.size else 0
    dst_rs = (extent + int(rng.integers(0, 9))) * size
    dst = call.place_output("dst", (pixels, extent), (dst_rs, size))
    call.place_bytes("geometry", np.array(g.as_tuple(), np.int64).tobytes())
    call.values |= {
        "src_ns": src_ns,
        "src_ps": src_ps,
        "dst_rs": dst_rs,
        "dst_ts": (channels + apart) * size,
        "first": first,
        "pixels": pixels,
        "channels": channels,
        "k_begin": k_begin,
        "k_end": k_end,
        "fill": fill,
    }
    # (image, pixel) down, (kh, kw, channel) across
    padding = fill if narrow else 0
    packed = [im2col(image.transpose(2, 0, 1), g, padding) for image in src]
    expected = np.concatenate([p.transpose(3, 1, 2, 0).reshape(g.pixels, k) for p in packed])
    wanted = dst.copy()
    wanted[:, places] = expected[first : first + pixels, k_begin:k_end]
    context = (g, f"{images=} {groups=} {apart=}", call.values)
    call.same_bits(call.run(context), wanted, context)


@every_kernel
@pytest.mark.parametrize("window", [False, True], ids=["whole", "window"])
def test_segments(checker, row, window, rng):
    """Every number of channels around the vector's lanes, in one group and in several."""
    lanes = lanes_of(row)
    for channels in (*range(1, lanes + 2), 2 * lanes, 2 * lanes + 3):
        for groups in (1, 3):
            for apart in (0, 0, int(rng.integers(1, 20))):
                check(checker, row, rng, channels, groups, window, apart)


@pytest.mark.sampled(9)
@every_narrow_kernel
@pytest.mark.parametrize("window", [False, True], ids=["whole", "window"])
@pytest.mark.parametrize("apart", [0, 3])
def test_stems(checker, row, window, apart, rng):
    """Strided lines of few channels, cut by padding on one side or on both."""
    for channels in (1, 2, 3, 4):
        for kernel in (3, 5, 7):
            for iw in (*range(1, 9), 31):
                stride, pad = int(rng.integers(1, 4)), int(rng.integers(0, kernel + 2))
                side = (iw + 2 * pad - kernel) // stride + 1
                if side > 0:
                    ends = kernel, kernel, stride, stride, 1, 1, pad, pad
                    g = Geometry(iw, iw, side, side, *ends)
                    check(checker, row, rng, channels, 1, window, apart, g)


@every_narrow_kernel
def test_long_lines(checker, row, rng):
    """Runs of several vectors and a remainder, with and without padding."""
    for channels in (33, 64, 65, 128, 200, 511):
        for pad in (0, 1, 2):
            ends = 3, 3, 1, 1, 1, 1, pad, pad
            g = Geometry(5, 6, 3 + 2 * pad, 4 + 2 * pad, *ends)
            check(checker, row, rng, channels, 1, bool(rng.integers(0, 2)), 0, g)
            check(checker, row, rng, channels, 2, bool(rng.integers(0, 2)), 0, g)
