"""The Winograd transform of the weights: panels of any width, whole or in parts, tails zero."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.kernel_table import every_row, symbol
from tests.kernels.packing_case import PackingCall
from tests.kernels.winograd_case import EPSILON, both_sides, drawn, is_exact, transforms

every_kernel = pytest.mark.parametrize("row", every_row("winograd_weights"), ids=symbol)


@pytest.mark.sampled(210)
@every_kernel
@pytest.mark.parametrize("panel_width", [1, 2, 5, 6, 8, 14, 16, 48])
def test_panels(checker, row, panel_width, rng):
    for oc in (1, panel_width, panel_width + 1, 3 * panel_width - 1, int(rng.integers(1, 60))):
        # Three wide panels of many channels in double precision would outgrow the arena.
        ic = int(rng.choice([1, 2, 5, 15, 16, 17, 33] if panel_width < 40 else [1, 2, 5, 8]))
        padding = int(rng.integers(0, 20) * rng.integers(0, 2))
        check(checker, row, rng, oc, ic, ic + padding, panel_width)


def check(checker, row, rng, oc, ic, ic_padded, panel_width):
    """Transform a random part of the panels; the others must stay as they are.

    Integer kernels store neighbouring channels in pairs.
    """
    n, r = row["mr"], row["nr"]
    kr = 2 if is_exact(row) else 1
    ic_padded = -(-ic_padded // kr) * kr
    t = n + r - 1
    call = PackingCall(checker, row, rng)
    size, panels = call.dtype.itemsize, -(-oc // panel_width)
    begin = int(rng.integers(0, panels))
    end = int(rng.integers(begin, panels)) + 1
    src = call.place_input(
        "src", (oc, ic, r, r), tuple(size * x for x in (ic * r * r, r * r, r, 1))
    )
    src[...] = drawn(rng, row["dtype"], src.shape)
    panel = (panel_width * ic_padded * size, panel_width * kr * size, kr * size, size)
    dst_ps = panels * panel[0] + int(rng.integers(0, 9)) * size
    groups = ic_padded // kr
    call.place_output("dst", (t * t, end - begin, groups, panel_width, kr), (dst_ps, *panel))
    # The kernel counts panels from the first, wherever it begins.
    call.values["dst"] -= begin * panel[0]
    call.values |= {
        "dst_ps": dst_ps,
        "oc_begin": begin * panel_width,
        "oc_end": min(end * panel_width, oc),
        "ic": ic,
        "ic_padded": ic_padded,
        "panel_width": panel_width,
    }
    context = (f"{oc=}", call.values)
    got = call.run(context)
    g = transforms((n, r), is_exact(row))[1]
    u = np.zeros((panels * panel_width, ic_padded, t, t))
    magnitude = np.zeros_like(u)
    u[:oc, :ic] = both_sides(g, src.astype(np.float64))
    magnitude[:oc, :ic] = both_sides(np.abs(g), np.abs(src.astype(np.float64)))
    u, magnitude = (
        x.reshape(panels, panel_width, groups, kr, t * t).transpose(4, 0, 2, 1, 3)[:, begin:end]
        for x in (u, magnitude)
    )
    if is_exact(row):
        np.testing.assert_array_equal(got, u, str(context))
        return
    # Computed in double precision, and rounded once.
    allowed = EPSILON[row["dtype"]] * np.abs(u) + 16 * EPSILON["f64"] * magnitude
    assert (np.abs(got - u) <= allowed).all(), context
