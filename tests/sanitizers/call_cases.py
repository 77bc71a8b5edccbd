"""Cases for concurrent calls, each with the bytes that a single thread computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

import pplconv
from pplconv import imaging
from pplconv._trial import Trial
from tests.api.blocks import in_blocks
from tests.api.candidates import TINY, context_of, conv_problem, every_candidate
from tests.api.problems import Problem
from tests.network.small_models import SMALL
from tests.patience import PATIENCE

# batch, groups, ic, oc, image, kernel, stride, padding, dilation: together they use every
# algorithm, and TINY caches cut them into many tasks.
SHAPES = {
    "3x3": (2, 1, 21, 35, (13, 11), (3, 3), 1, 1, 1),
    "5x5": (1, 1, 18, 20, (12, 9), (5, 5), 1, (2, 1), 1),
    "1x1": (3, 1, 37, 70, (7, 9), (1, 1), 1, 0, 1),
    "stem": (1, 1, 3, 32, (23, 21), (7, 7), (2, 3), 3, 1),
    "groups of blocks": (1, 2, 64, 32, (9, 8), (3, 3), 1, 1, 1),
    "depthwise": (2, 37, 37, 37, (12, 13), (3, 3), 1, 1, 1),
}
LAYOUTS = {"NCHW": 0, "NHWC": 0, "NCHW16c": 16}
TEAMS = (1, 2, 3)
# Instances, threads of each team, and whether they are bound to cores if there are enough.
POOLS = ((2, 1, True), (1, 2, True), (2, 3, False))


@dataclass(frozen=True)
class Case:
    """A function to call repeatedly, and the bytes that it must return."""

    kind: str
    algorithm: str
    layout: str
    dtype: str
    team: int
    call: Callable[[], bytes]
    expected: bytes


def numbers(problem: Problem, block: int) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Give input and weight, and the shape of the output."""
    arrays = problem.arrays()
    shape = problem.output_shape
    if block:
        blocks = -(-problem.out_channels // block)
        return in_blocks(arrays["input"], block), arrays["weight"], (
            shape[0], blocks, *shape[2:], block
        )  # fmt: skip
    return arrays["input"], arrays["weight"], shape


def candidate_cases(problem: Problem, layout: str, block: int, isa: str) -> Iterator[Case]:
    """Yield the first and the last candidate of each way to compute it, with teams that differ."""
    described = conv_problem(problem, block)
    x, weight, shape = numbers(problem, block)
    ways: dict[tuple[str, str, str], list[Any]] = {}
    around = context_of(described.numerics[0], max(TEAMS), isa, **TINY)
    for candidate in every_candidate(described, around):
        orientation = str(candidate.blocks.get("orientation"))
        ways.setdefault((candidate.algorithm, candidate.bits, orientation), []).append(candidate)

    def runner(trial: Trial) -> Callable[[], bytes]:
        def run() -> bytes:
            y = np.full(shape, np.nan, x.dtype)
            trial.seconds(x, y)
            return y.tobytes()

        return run

    for found in ways.values():
        for candidate, team in zip((found[0], found[-1]), TEAMS[:0:-1], strict=True):
            alone = Trial(candidate.fields(1), around.isa, weight)
            together = Trial(candidate.fields(team) | {"threads": team}, around.isa, weight)
            yield Case(
                "candidate", candidate.algorithm, layout, problem.dtype, team,
                runner(together), runner(alone)(),
            )  # fmt: skip


def prepared_cases(dtype: str, layout: str, rng: np.random.Generator) -> Iterator[Case]:
    """Yield calls of a few `Conv2d` that all callers share, with several shapes each."""
    weight = rng.standard_normal((32, 24, 3, 3)).astype(dtype)
    bias = rng.standard_normal(32).astype(dtype)
    options: dict[str, Any] = {"padding": 1, "activation": "silu", "layout": layout}
    for team in TEAMS:
        conv = pplconv.Conv2d(weight, bias, threads=team, **options)
        for side in range(6, 42, 3):
            shape = (24, side, side + 1) if layout == "NCHW" else (side, side + 1, 24)
            x = rng.standard_normal((1, *shape)).astype(dtype)
            plan = pplconv.Conv2d(weight, bias, threads=team, **options).plan_for(x.shape)
            expected = pplconv.Conv2d(weight, bias, threads=1, **options)(x).tobytes()
            yield Case(
                "Conv2d", plan.algorithm, layout, dtype, plan.threads,
                lambda conv=conv, x=x: conv(x).tobytes(), expected,
            )  # fmt: skip
            yield Case(
                "conv2d", plan.algorithm, layout, dtype, plan.threads,
                lambda x=x, team=team: pplconv.conv2d(
                    x, weight, bias, threads=team, **options
                ).tobytes(), expected,
            )  # fmt: skip


def relayout_cases(dtype: str, rng: np.random.Generator) -> Iterator[Case]:
    """Yield changes of layout that are large enough for a team."""
    x = rng.standard_normal((1, 72, 96, 96)).astype(dtype)
    blocked = in_blocks(x, 16)
    there = (lambda: pplconv.to_blocked(x, 16).tobytes(), blocked.tobytes())
    back = (lambda: pplconv.from_blocked(blocked, channels=72).tobytes(), x.tobytes())
    for call, expected in (there, back):
        yield Case("relayout", "none", "NCHW16c", dtype, max(TEAMS), call, expected)


def filter_cases(rng: np.random.Generator) -> Iterator[Case]:
    """Yield filters of images with several bands; some integers are computed again exactly.

    Their sums of thirds are whole numbers, or nearly.
    """
    kernels = np.full((3, 3), 1 / 3), np.full(5, 1 / 3)
    for dtype in ("uint8", "int16", "float32", "float64"):
        image = rng.integers(0, 40, (257, 301, 3)).astype(dtype)

        def call(team: int, image: np.ndarray = image) -> bytes:
            return b"".join(
                imaging.filter2d(image, each, border="wrap", threads=team).tobytes()
                if each.ndim == 2
                else imaging.sepfilter2d(image, each, each, threads=team).tobytes()
                for each in kernels
            )

        for team in TEAMS:
            yield Case(
                "filter", "bands", "NHWC", dtype, team,
                lambda call=call, team=team: call(team), call(1),
            )  # fmt: skip


def pool_cases(dtype: str, rng: np.random.Generator, pools: ExitStack) -> Iterator[Case]:
    """Yield requests to pools in thread mode: each has one convolution for all its instances."""
    weight = rng.standard_normal((32, 24, 3, 3)).astype(dtype)
    images = [rng.standard_normal((1, 24, n, n + 1)).astype(dtype) for n in range(6, 42, 9)]
    alone = pplconv.Conv2d(weight, padding=1, threads=1)
    expected = [alone(x).tobytes() for x in images]
    for instances, team, pin in POOLS:
        plan = pplconv.Conv2d(weight, padding=1, threads=team).plan_for(images[-1].shape)

        def make(instances: int = instances, team: int = team, pin: bool = pin) -> Any:
            return pplconv.InstancePool(
                lambda: pplconv.Conv2d(weight, padding=1),
                instances=instances, threads=team, pin=pin, queue_size=2,
            )  # fmt: skip

        def several(pool: Any) -> bytes:
            return b"".join(y.tobytes() for y in pool.map(images, timeout=PATIENCE))

        def short_lived(make: Callable[[], Any] = make) -> bytes:
            with make() as pool:
                return several(pool)

        pool = pools.enter_context(make())
        calls = [
            (lambda pool=pool, x=x: pool.submit(x).result(PATIENCE).tobytes(), answer)
            for x, answer in zip(images, expected, strict=True)
        ]
        calls += [(lambda pool=pool: several(pool), b"".join(expected))]
        for call, answer in calls:
            yield Case("request", plan.algorithm, "NCHW", dtype, plan.threads, call, answer)
        yield Case(
            "pool", plan.algorithm, "NCHW", dtype, plan.threads, short_lived, b"".join(expected)
        )


def network_cases() -> Iterator[Case]:
    """Yield networks: one session for each team, shared by all callers; two shapes if sizes vary.

    Steps of a network wait for one another without a lock, through shared memory.
    """
    for make in SMALL.values():
        model, feed = make()
        feeds = [feed]
        if any(dim.dim_param for v in model.graph.input for dim in v.type.tensor_type.shape.dim):
            feeds.append({name: np.concatenate([x, -x, x[:1]]) for name, x in feed.items()})
        sessions = {team: pplconv.InferenceSession(model, threads=team) for team in TEAMS}
        alone = sessions[1]
        for x in feeds:
            expected = b"".join(y.tobytes() for y in alone.run(None, x))
            for team, session in sessions.items():
                yield Case(
                    "network", "several", "NCHW", "float32", team,
                    lambda session=session, x=x: b"".join(
                        y.tobytes() for y in session.run(None, x)
                    ), expected,
                )  # fmt: skip


def every_case(seed: int, isa: str, pools: ExitStack, *, networks_only: bool = False) -> list[Case]:
    """Make all cases; their numbers depend on the seed only.

    Parameters
    ----------
    seed : int
        Seed of the numbers.
    isa : str
        Instruction set of the kernels.
    pools : ExitStack
        Closes the instance pools of the cases.
    networks_only : bool, optional
        Whether to make cases of whole networks only, which are a small part of all.
    """
    if networks_only:
        return list(network_cases())
    rng = np.random.default_rng(seed)
    cases: list[Case] = []
    for dtype in ("float32", "float64"):
        for layout, block in LAYOUTS.items():
            for number, shape in enumerate(SHAPES.values()):
                name = "NCHW" if block else layout
                problem = Problem(dtype, name, *shape, seed=seed + number)
                cases += candidate_cases(problem, layout, block, isa)
            if not block:
                cases += prepared_cases(dtype, layout, rng)
        cases += relayout_cases(dtype, rng)
        cases += pool_cases(dtype, rng, pools)
    return [*cases, *filter_cases(rng), *network_cases()]
