"""`Compose`: the values of filters one after another, in bands, and what ends them."""

from __future__ import annotations

import pickle
from functools import partial
from unittest import mock

import numpy as np
import pytest
from scipy import ndimage

from pplconv.imaging import (
    Compose,
    ComposedPart,
    box,
    filter2d,
    gaussian,
    laplace,
    sepfilter2d,
    sobel,
    unsharp,
)
from pplconv.imaging import filter_chains as chains
from pplconv.ops.program import Program
from tests.imaging.image_reference import exactly


@pytest.fixture
def forced(monkeypatch):
    """Have everything pay, in bands whose rows take so many bytes."""

    def force(room):
        monkeypatch.setattr(chains.planner, "band_bytes", lambda: [room])
        monkeypatch.setattr(chains, "_CALL_CYCLES", 1e15)

    return force


def drawn_filter(rng, dtype):
    border = str(rng.choice(["reflect101", "reflect", "replicate", "constant"]))
    more = {"border": border, "mode": str(rng.choice(["same", "same", "valid"]))}
    kind = rng.integers(3)
    if kind == 0:
        return partial(gaussian, sigma=float(rng.uniform(0.3, 2)), **more)
    if kind == 1:
        return partial(sobel, axis=int(rng.integers(2)), **more)
    kh, kw = rng.integers(1, 8, 2)
    anchor = int(rng.integers(kw)), int(rng.integers(kh))
    kernel = rng.standard_normal((kh, kw)) / 5
    return partial(filter2d, kernel=kernel, anchor=anchor, flip=bool(rng.integers(2)), **more)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "float16", "float32", "float64"])
@pytest.mark.parametrize("threads", [1, 2])
def test_bands_have_the_bits_of_filters_one_after_another(dtype, threads, forced, rng):
    """Whatever the borders, anchors and heights; the filters alone are compared with others."""
    banded = 0
    for _ in range(12):
        shape = (int(rng.integers(60, 300)), int(rng.integers(9, 90)), int(rng.integers(1, 4)))
        image = (rng.standard_normal(shape) * 60 + 100).clip(0, 250).astype(dtype)
        filters = [drawn_filter(rng, dtype) for _ in range(rng.integers(2, 5))]
        expected = image
        try:
            for one in filters:
                expected = one(expected)
        except (TypeError, ValueError):  # derivatives of derivatives have no type
            continue
        forced(int(rng.integers(8_000, 200_000)))
        compose = Compose(filters)
        out = np.full(expected.shape, 7, expected.dtype)
        assert compose(image, out=out, threads=threads) is out
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(compose(image), expected)
        banded += any(part.bands > 1 for part in compose.plan_for(image, threads=threads))
    # Halves are stored from sums of float32, a whole image at a time.
    assert bool(banded) == (dtype != "float16")


def test_integers_are_rounded_after_each_filter(forced, rng):
    """As sums of fractions have them, one filter after another."""
    forced(1500)
    image = rng.integers(0, 256, (90, 6, 1), dtype=np.uint8)
    kernels = rng.integers(-20, 60, (3, 3)) / 100, np.full((5, 3), 1 / 15)
    expected = image
    for kernel in kernels:
        anchor = kernel.shape[0] // 2, kernel.shape[1] // 2
        expected = exactly(expected, kernel, anchor, "reflect101", 0, np.uint8)
    compose = Compose([partial(filter2d, kernel=kernel) for kernel in kernels])
    assert compose.plan_for(image)[0].bands > 2
    np.testing.assert_array_equal(compose(image), expected)


def test_values_are_those_of_scipy(forced, rng):
    forced(150_000)
    image = rng.standard_normal((160, 70))
    compose = Compose([partial(gaussian, sigma=1.5), partial(sobel, axis=0), laplace])
    (part,) = compose.plan_for(image)
    assert part == ComposedPart(0, 3, part.bands, part.rows)
    assert part.bands > 2
    expected = ndimage.gaussian_filter(image, 1.5, mode="mirror")
    expected = ndimage.laplace(ndimage.sobel(expected, 0, mode="mirror"), mode="mirror")
    np.testing.assert_allclose(compose(image), expected, atol=1e-12)


def test_bands_pay_where_images_are_large():
    """And the choice is the planner's: what stays in a cache, and calls that are saved."""
    compose = Compose([partial(gaussian, sigma=1), partial(box, size=5)])
    (part,) = compose.plan_for(np.zeros((3000, 4000), np.float32))
    assert part.bands > 2
    assert (part.bands - 2) * part.rows <= 3000
    # Too low for three bands.
    parts = compose.plan_for(np.zeros((20, 30), np.float32))
    assert parts == (ComposedPart(0, 1, 1, 0), ComposedPart(1, 2, 1, 0))


def test_a_bank_ends_a_chain(forced, rng):
    forced(20_000)
    image = rng.standard_normal((100, 40)).astype(np.float32)
    bank = rng.standard_normal((3, 3, 5))
    compose = Compose([partial(box, size=3), partial(filter2d, kernel=bank)])
    (part,) = compose.plan_for(image)
    assert part.bands > 2
    blurred = ndimage.uniform_filter(image.astype(float), 3, mode="mirror")
    expected = [ndimage.correlate(blurred, one, mode="mirror") for one in bank]
    np.testing.assert_allclose(compose(image), expected, atol=1e-4)


OTHERS = {
    "magnitude": sobel,
    "of floats in two steps": partial(unsharp, sigma=1),
    "function of others": lambda image: np.sqrt(np.abs(image)),
    "wrap": partial(sepfilter2d, kernel_x=[1, 2, 1], kernel_y=[1.0], border="wrap"),
    "missing pixels": partial(gaussian, sigma=1, normalize=True),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_other_filters_run_on_whole_images(other, forced, rng):
    forced(20_000)
    image = rng.standard_normal((100, 40))
    small = partial(box, size=3)
    compose = Compose([small, small, other, small, small])
    parts = compose.plan_for(image)
    assert [(part.first, part.end) for part in parts] == [(0, 2), (2, 3), (3, 5)]
    assert [part.bands > 1 for part in parts] == [True, False, True]
    means = ndimage.uniform_filter(
        ndimage.uniform_filter(image, 3, mode="mirror"), 3, mode="mirror"
    )
    expected = other(means)
    for _ in range(2):
        expected = ndimage.uniform_filter(expected, 3, mode="mirror")
    np.testing.assert_allclose(compose(image), expected, atol=1e-10)


def test_images_that_do_not_lie_together_run_whole(forced, rng):
    forced(20_000)
    image = rng.standard_normal((100, 80)).astype(np.float32)[:, ::2]
    compose = Compose([partial(box, size=3)] * 2)
    expected = ndimage.uniform_filter(image.astype(float), 3, mode="mirror")
    expected = ndimage.uniform_filter(expected, 3, mode="mirror")
    np.testing.assert_allclose(compose(image), expected, atol=1e-5)


def test_kernels_are_kept_as_they_were(forced, rng):
    forced(20_000)
    image = rng.standard_normal((100, 40))
    kernel = np.ones((3, 3))
    compose = Compose([partial(filter2d, kernel=kernel)] * 2)
    expected = 81 * ndimage.uniform_filter(
        ndimage.uniform_filter(image, 3, mode="mirror"), 3, mode="mirror"
    )
    kernel[:] = 5
    np.testing.assert_allclose(compose(image), expected, atol=1e-10)
    copied = pickle.loads(pickle.dumps(compose))
    np.testing.assert_array_equal(copied(image), compose(image))


def test_forms_of_images_have_chains_of_their_own(forced, rng):
    """More forms than are kept."""
    forced(20_000)
    compose = Compose([partial(box, size=3)] * 2)
    for height in [*range(80, 100), 80]:
        image = rng.standard_normal((height, 30))
        expected = ndimage.uniform_filter(image, 3, mode="mirror")
        expected = ndimage.uniform_filter(expected, 3, mode="mirror")
        np.testing.assert_allclose(compose(image), expected, atol=1e-12)


def test_bad_arguments_are_named(forced, rng):
    forced(20_000)
    with pytest.raises(ValueError, match="filters must not be empty"):
        Compose([])
    with pytest.raises(TypeError, match=r"filters\[1\] must be callable, got int"):
        Compose([box, 3])
    with pytest.raises(TypeError, match="filters must be callables, got int"):
        Compose(3)
    image = rng.standard_normal((100, 40))
    compose = Compose([partial(box, size=3)] * 2)
    with pytest.raises(TypeError, match="image must be"):
        compose(np.zeros((4, 4), complex))
    with pytest.raises(ValueError, match="out"):
        compose(image, out=np.zeros((99, 40)))
    kept = image.copy()
    for one in (compose, Compose([lambda image: image * 2, partial(box, size=3)])):
        with pytest.raises(ValueError, match="out"):
            one(image, out=image)
    np.testing.assert_array_equal(image, kept)
    with pytest.raises(ValueError, match="threads"):
        compose(image, threads=0)
    with pytest.raises(ValueError, match=r"filters\[1\]: .*border"):
        Compose([box, partial(box, border="mirror")])(image)
    with pytest.raises(ValueError, match=r"filters\[0\]: image must have shape"):
        Compose([lambda image: 1.0, box])(image)


def test_a_noted_call_reads_no_pixels_and_leaves_no_trace(forced, rng):
    """The first call finds out what the filters do without running them."""
    forced(60_000)
    image = rng.standard_normal((100, 40))
    compose = Compose([partial(box, size=3), partial(gaussian, sigma=1)])
    with mock.patch("pplconv.imaging.filtering.prepared", side_effect=AssertionError):
        found = compose(image)
    expected = ndimage.gaussian_filter(
        ndimage.uniform_filter(image, 3, mode="mirror"), 1, mode="mirror"
    )
    np.testing.assert_allclose(found, expected, atol=1e-12)
    once = gaussian(image, 1)
    once += 1  # results of calls that run can be written
    np.testing.assert_allclose(once - 1, ndimage.gaussian_filter(image, 1, mode="mirror"))


def test_steps_of_bands_stay_in_the_arrays(forced, rng):
    """A program refuses loops that would read or write beyond what it was given."""
    forced(20_000)
    image = rng.standard_normal((100, 40))
    compose = Compose([partial(box, size=3)] * 2)
    compose(image)
    (part,) = compose._parts.values()
    steps, arena = part.chain._steps, part.chain._program.arena_bytes
    repeats = [(3, 6, part.chain.bands.turns)]
    Program(steps, arena, [image.nbytes] * 2, 1, 1, None, repeats)
    for arena_bytes, sizes in (
        (arena - 64, [image.nbytes] * 2),
        (arena, [image.nbytes - 8, image.nbytes]),
        (arena, [image.nbytes, image.nbytes - 8]),
    ):
        with pytest.raises(ValueError, match="reaches beyond"):
            Program(steps, arena_bytes, sizes, 1, 1, None, repeats)
