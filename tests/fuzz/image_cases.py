"""Filters of images of integers, many of whose sums lie half way between two of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from random import Random
from typing import Any

import numpy as np

import pplconv
from pplconv.imaging import filter2d, sepfilter2d
from tests.api.problems import near_power
from tests.fuzz import draws, image_refusals
from tests.fuzz.byte_cases import ExpectedBytes
from tests.fuzz.case import SHORTER, ExactCase
from tests.fuzz.draws import SPOILED_OUT
from tests.imaging.image_reference import (
    BORDERS,
    HALVES,
    INTEGERS,
    KINDS,
    any_values,
    few_values,
    kernel_of,
    windows_of,
)

SPOILED = ("out overlaps image", *SPOILED_OUT)
# Products of pixels and taps, each of which is one of Python's integers in the reference.
MOST_PRODUCTS = 10_000


@dataclass(frozen=True)
class Filtering:
    """One filter: everything but the pixels, which ``seed`` decides.

    Parameters
    ----------
    dtype, source : str
        Of the result, and of the image.
    image, kernel : (int, int)
        Rows and columns.
    channels : int or None
        None: the image has no such axis.
    kinds : (str, str)
        Of the kernel, or of its column and its row (see `kernel_of`).
    anchor : (int, int)
        Row and column of the tap on the pixel.
    few : bool
        Whether the image has two or three values, so that many sums are equal.
    """

    dtype: str
    source: str
    image: tuple[int, int]
    channels: int | None
    kernel: tuple[int, int]
    kinds: tuple[str, str]
    anchor: tuple[int, int]
    border: str
    flip: bool
    few: bool
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Of image and result."""
        return self.image if self.channels is None else (*self.image, self.channels)

    def pixels(self) -> np.ndarray:
        """Few values, or any of the type, with areas that saturate."""
        draw = few_values if self.few else any_values
        return draw(self.output_shape, self.source, np.random.default_rng(self.seed))

    def vectors(self) -> tuple[np.ndarray, np.ndarray]:
        """Give a column and a row."""
        rng = np.random.default_rng([self.seed, 1])
        column, row = (
            kernel_of(kind, n, rng) for kind, n in zip(self.kinds, self.kernel, strict=True)
        )
        return column, row


def whole(taps: np.ndarray) -> tuple[np.ndarray, int]:
    """Give float64 as integers over two to a power, and the power."""
    ratios = [float(tap).as_integer_ratio() for tap in taps.ravel()]
    power = max(bottom.bit_length() - 1 for _, bottom in ratios)
    numbers = [top << (power + 1 - bottom.bit_length()) for top, bottom in ratios]
    return np.array(numbers, object).reshape(taps.shape), power


@dataclass(frozen=True)
class ImageCase(ExactCase):
    """A call of ``"filter2d"`` or ``"sepfilter2d"``."""

    refusals = image_refusals

    problem: Filtering

    @cached_property
    def plain(self) -> dict[str, Any]:
        """As all cases."""
        column, row = self.problem.vectors()
        if self.call == "sepfilter2d":
            return {"image": self.problem.pixels(), "kernel_x": row, "kernel_y": column}
        return {"image": self.problem.pixels(), "kernel": np.outer(column, row)}

    @property
    def arguments(self) -> dict[str, Any]:
        """As all cases."""
        p = self.problem
        return {
            "border": p.border, "anchor": p.anchor[::-1], "flip": p.flip, "dtype": p.dtype,
            **p.options,
        }  # fmt: skip

    @property
    def layout(self) -> str:
        """As all cases."""
        return "images"

    @property
    def keeps_plans(self) -> bool:
        """As all cases."""
        return True

    def make(
        self, operands: dict[str, Any], arguments: dict[str, Any], out: Any
    ) -> tuple[np.ndarray, pplconv.Plan | None]:
        """As all cases."""
        call: Any = sepfilter2d if self.call == "sepfilter2d" else filter2d
        return call(**operands, **arguments, out=out), None

    def plan(self, **changes: Any) -> pplconv.Plan | None:
        """As all cases; filters show none."""
        return None

    def sums(self) -> tuple[np.ndarray, int]:
        """Give the exact sums as integers over two to a power, and the power."""
        p, plain = self.problem, self.plain
        if self.call == "sepfilter2d":
            (column, down), (row, across) = whole(plain["kernel_y"]), whole(plain["kernel_x"])
            taps, power = np.outer(column, row), down + across
        else:
            taps, power = whole(plain["kernel"])
        at = p.anchor
        if p.flip:
            taps = taps[::-1, ::-1]
            at = p.kernel[0] - 1 - at[0], p.kernel[1] - 1 - at[1]
        image = plain["image"].reshape(*p.image, p.channels or 1).astype(int)
        windows = windows_of(image, p.kernel, at, p.border, 0).reshape(-1, taps.size)
        return windows.astype(object) @ taps.ravel(), power

    def expected(self) -> Any:
        """As all cases: the sums rounded once, half to even, and saturated."""
        sums, power = self.sums()
        limits = np.iinfo(self.problem.dtype)
        rounded = [_half_to_even(total, power) for total in sums]
        exact = np.array([min(max(total, limits.min), limits.max) for total in rounded])
        return ExpectedBytes(exact.reshape(self.output_shape).astype(self.problem.dtype))

    @property
    def text(self) -> str:
        """As all cases."""
        p = self.problem
        taps = ", ".join(f"{n}={a.tolist()}" for n, a in self.plain.items() if n != "image")
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.call} on {p.output_shape} {p.source}, {taps}, {arguments}"

    def smaller_problems(self) -> Iterator[Filtering]:
        """As all cases."""
        p = self.problem
        yield replace(p, channels=None)
        yield replace(p, flip=False)
        yield replace(p, border="constant")
        yield replace(p, few=True)
        yield replace(p, options={**p.options, "threads": 1})
        for shorter in SHORTER:
            for name in ("image", "kernel"):
                rows, columns = getattr(p, name)
                for sizes in ((shorter(rows), columns), (rows, shorter(columns))):
                    kernel = sizes if name == "kernel" else p.kernel
                    at = min(p.anchor[0], kernel[0] - 1), min(p.anchor[1], kernel[1] - 1)
                    yield replace(p, **{name: sizes, "anchor": at})


def _half_to_even(total: int, power: int) -> int:
    if not power:
        return total
    low, rest, half = total >> power, total & ((1 << power) - 1), 1 << (power - 1)
    return low + (rest > half or (rest == half and low % 2 == 1))


def draw_image(seed: int, r: Random) -> ImageCase:
    """Give a case."""
    call = r.choice(("filter2d", "filter2d", "sepfilter2d"))
    kernel = r.choice(((r.randint(1, 6), r.randint(1, 6)), (1, 3), (3, 3), (2, 3), (6, 6), (1, 2)))
    channels = r.choice((None, None, 1, 2, 3, 4))
    budget = max(MOST_PRODUCTS // (prod(kernel) * (channels or 1)), 1)
    first = min(r.choice((r.randint(1, 12), near_power(r, 3, 10))), budget)
    sides = [first, min(r.choice((r.randint(1, 12), near_power(r, 3, 6))), budget // first)]
    r.shuffle(sides)
    source = r.choice(INTEGERS)
    kinds = r.choice(KINDS + 2 * HALVES), r.choice(KINDS + 2 * HALVES)
    wrong = draws.wrong(r, SPOILED)
    wrong.pop("wisdom", None)
    around = draws.surroundings(r)
    return ImageCase(
        seed=seed,
        problem=Filtering(
            dtype=r.choice((source, source, *INTEGERS, "int32")),
            source=source,
            image=(sides[0], sides[1]),
            channels=channels,
            kernel=kernel,
            kinds=kinds if r.random() < 0.5 else (kinds[0], kinds[0]),
            anchor=(r.randrange(kernel[0]), r.randrange(kernel[1])),
            border=r.choice(BORDERS),
            flip=r.random() < 0.3,
            few=r.random() < 0.6,
            seed=seed,
            options={"threads": r.choice((1, 1, 2, 3, None))},
        ),
        call=call,
        forms=draws.forms(r, ("image", "kernel", "kernel_x", "kernel_y")),
        out=r.choice((None, 0, 1, 3, 16)),
        other_team=around["other_team"],
        **wrong,
    )
