"""Products of matrices: `matmul`, and `Linear` with and without an input shape of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, prod
from random import Random
from typing import Any

import numpy as np

import pplconv
from pplconv import planner
from pplconv.arguments.activation import activation_of
from pplconv.arguments.checks import check_precision
from pplconv.memory.dtypes import DTYPES
from pplconv.ops.matrices import linear_problem
from pplconv.planner.describing import plan_of
from pplconv.planner.estimating import Request
from tests.api.problems import CLIPS, CURVES, FOR_POWERS, near_power, width
from tests.fuzz import draws, matrix_refusals
from tests.fuzz.arrays import REPEATED, repeat
from tests.fuzz.case import SHORTER, Case, plainer
from tests.fuzz.exact import Expected, sums_of_product
from tests.fuzz.special import specialize
from tests.fuzz.zeros import draw_zeros

_NAMES = {str(dtype): name for name, dtype in DTYPES.items()}


@dataclass(frozen=True)
class Product:
    """One product: everything but the numbers, which ``seed`` decides.

    Parameters
    ----------
    types : (str, str)
        Of the operands.
    a_batch, b_batch : tuple of int
        Dimensions before the matrices, which broadcast.
    m, n, k : int
        The first operand is (m, k), or (k,) if `m` is None, the second (k, n), or (k,).
    options : dict
        What does not change the result.
    """

    types: tuple[str, str]
    a_batch: tuple[int, ...]
    b_batch: tuple[int, ...]
    m: int | None
    n: int | None
    k: int
    activation: Any = None
    with_bias: bool = False
    with_residual: bool = False
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def dtype(self) -> str:
        """Of the result."""
        return str(np.promote_types(*self.types))

    @property
    def batch(self) -> tuple[int, ...]:
        """Of the result."""
        return np.broadcast_shapes(self.a_batch, self.b_batch)

    @property
    def columns(self) -> int:
        """Of the result; each has an element of the bias."""
        return 1 if self.n is None else self.n

    @property
    def a_shape(self) -> tuple[int, ...]:
        """Of the first operand."""
        return (self.k,) if self.m is None else (*self.a_batch, self.m, self.k)

    @property
    def b_shape(self) -> tuple[int, ...]:
        """Of the second operand."""
        return (self.k,) if self.n is None else (*self.b_batch, self.k, self.n)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Of the result."""
        return (*self.batch, *(size for size in (self.m, self.n) if size is not None))

    @property
    def full_activation(self) -> Any:
        """The argument: ``"prelu"`` stands for one with a slope for each column."""
        if self.activation != "prelu":
            return self.activation
        rng = np.random.default_rng([self.seed, 1])
        return ("prelu", rng.uniform(-1, 1, self.columns))


@dataclass(frozen=True)
class MatrixCase(Case):
    """A product of matrices: ``"matmul"``, ``"Linear"``, or ``"Linear, prepared"``.

    Parameters
    ----------
    problem : Product
        As for all cases.
    forced : bool
        Whether `matmul` has a plan drawn from all that could serve, not the cheapest.
    again : bool
        Whether a call of the same plan, with other numbers, comes before.
    """

    refusals = matrix_refusals

    problem: Product
    forced: bool = False
    again: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The operands, as the call has them."""
        factors = ("a", "b") if self.call == "matmul" else ("input", "weight")
        return (*factors, "bias", "residual")

    @cached_property
    def plain(self) -> dict[str, Any]:
        """As all cases."""
        p = self.problem
        rng = np.random.default_rng(p.seed)

        def drawn(shape: tuple[int, ...], dtype: str) -> np.ndarray:
            return np.asarray(rng.standard_normal(shape), dtype)

        second = p.b_shape if self.call == "matmul" else p.b_shape[::-1]
        operands = (
            drawn(p.a_shape, p.types[0]),
            drawn(second, p.types[1]),
            drawn((p.columns,), p.dtype) if p.with_bias else None,
            drawn(p.output_shape, p.dtype) if p.with_residual else None,
        )
        arrays = dict(zip(self.names, operands, strict=True))
        if self.zeros is not None:
            arrays["weight"] = self.zeros.prune(arrays["weight"], 1, p.seed)
        # Half precision has no room for larger results.
        scale = min(self.scale, 0) if "float16" in p.types else self.scale
        scale = 0 if self.special == "huge" else scale
        operands[0][...] *= operands[0].dtype.type(2.0**scale)
        if self.special is not None:
            specialize(arrays, self.special, p.seed, p.k)
        for name, array in arrays.items():
            if array is not None and self.forms[name] in REPEATED:
                repeat(array, self.forms[name])
        return arrays

    @property
    def arguments(self) -> dict[str, Any]:
        """As all cases."""
        arguments = {"activation": self.activation, **self.problem.options}
        if self.zeros is not None:
            arguments.update(self.zeros.arguments)
        if self.call == "matmul" and not self.keeps_plans:
            # Only calls with Python's own numbers are looked up among the plans that are kept.
            arguments["threads"] = np.int64(arguments["threads"] or 1)
        return arguments

    @property
    def layout(self) -> str:
        """As all cases."""
        p = self.problem
        if p.m is None or p.n is None:
            return "matrices and vectors"
        return "matrices" if prod(p.batch) == 1 else "batches of matrices"

    @property
    def keeps_plans(self) -> bool:
        """As all cases."""
        return self.call == "matmul" and not self.tiny and not self.forced

    def around(self) -> AbstractContextManager[None]:
        """Any plan, for a case that is forced."""
        return _any_plan(self.seed) if self.forced else nullcontext()

    def make(
        self, operands: dict[str, Any], arguments: dict[str, Any], out: Any
    ) -> tuple[np.ndarray, pplconv.Plan | None]:
        """As all cases."""
        again = self.again and self.spoiled is None
        if self.call == "matmul":
            if again:
                pplconv.matmul(**self._others(operands, arguments))
            return pplconv.matmul(**operands, **arguments, out=out), None
        operands = dict(operands)
        x, residual = operands.pop("input"), operands.pop("residual")
        shape = self.problem.a_shape
        if self.call == "Linear, prepared":
            arguments["input_shape"] = shape
        layer = pplconv.Linear(**operands, **arguments)
        if again:
            layer(np.ones(shape, self.problem.dtype))
        y = layer(x, residual, out)
        return y, layer.plan_for(shape)

    def _others(self, operands: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call of the same plan, whose bias and slopes are others."""
        others = {**operands, **arguments, "residual": None}
        if others["bias"] is not None:
            others["bias"] = np.ones(self.problem.columns, self.problem.dtype)
        if self.problem.activation == "prelu":
            others["activation"] = ("prelu", np.full(self.problem.columns, 0.5))
        return others

    def plan(self, **changes: Any) -> pplconv.Plan | None:
        """As all cases; `matmul` shows none."""
        if self.call == "matmul":
            return None
        layer = pplconv.Linear(self.plain["weight"], **{**self.arguments, **changes})
        return layer.plan_for(self.problem.a_shape)

    def request(self) -> Request:
        """As all cases, for `Linear`."""
        p = self.problem
        dtype = _NAMES[p.dtype]
        found = None if self.zeros is None else self.zeros.sparsity(self.plain["weight"], 1)
        problem = linear_problem(
            (prod(p.a_shape[:-1]), p.k), p.b_shape[::-1], dtype,
            check_precision(p.options.get("precision"), dtype), found,
        )  # fmt: skip
        algorithm = "sparse" if self.zeros is not None and self.zeros.sparse is True else "auto"
        return Request(
            problem, algorithm, 0.0, p.options["threads"], p.options.get("max_workspace")
        )

    @property
    def epilogue(self) -> str:
        """As all cases."""
        return activation_of(self.problem.full_activation, self.problem.columns).epilogue

    def expected(self) -> Expected:
        """As all cases, with both dimensions of a matrix."""
        p = self.problem
        a, b, bias, residual = self.plain.values()
        b = b if self.call == "matmul" else b.T
        a = a[np.newaxis] if p.m is None else a
        b = b[:, np.newaxis] if p.n is None else b
        if residual is not None:
            residual = self.in_order(residual)
        addends = tuple(addend for addend in (bias, residual) if addend is not None)
        return Expected(
            *sums_of_product(a, b, addends), self.plain, terms=p.k, dtype=p.dtype,
            activation=p.full_activation, layout="NHWC",
        )  # fmt: skip

    def in_order(self, y: np.ndarray) -> np.ndarray:
        """As all cases, with both dimensions of a matrix."""
        p = self.problem
        return y.reshape(*p.batch, 1 if p.m is None else p.m, p.columns)

    @property
    def text(self) -> str:
        """As all cases."""
        first, second = self.names[:2]
        factors = (
            f"{name} {self.plain[name].shape} {self.plain[name].dtype}" for name in (first, second)
        )
        arguments = (f"{name}={value!r}" for name, value in self.arguments.items())
        forced = (" with any plan" if self.forced else "") + (" again" if self.again else "")
        return f"{self.call} on {', '.join(factors)}{forced}, {', '.join(arguments)}"

    def simpler(self) -> Iterator[Case]:
        """As all cases."""
        yield replace(self, forced=False)
        yield replace(self, again=False)
        yield replace(self, zeros=None)
        yield from super().simpler()

    def smaller_problems(self) -> Iterator[Product]:
        """As all cases."""
        p = self.problem
        yield from plainer(p, "precision", "max_workspace")
        yield replace(p, types=(p.dtype, p.dtype))
        for axis in range(len(p.batch)):
            yield replace(p, a_batch=_without(p.a_batch, axis), b_batch=_without(p.b_batch, axis))
        for shorter in SHORTER:
            for name in ("m", "n", "k"):
                if size := getattr(p, name):
                    yield replace(p, **{name: shorter(size)})
            for axis, size in enumerate(reversed(p.batch)):
                if size:
                    a, b = (_cut(b, axis, shorter(size)) for b in (p.a_batch, p.b_batch))
                    yield replace(p, a_batch=a, b_batch=b)


def _without(batch: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Leave out an axis, counted from the last."""
    at = len(batch) - 1 - axis
    return batch if at < 0 else batch[:at] + batch[at + 1 :]


def _cut(batch: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    """Make an axis, counted from the last, no longer than `size`."""
    at = len(batch) - 1 - axis
    return batch if at < 0 else (*batch[:at], min(batch[at], size), *batch[at + 1 :])


@contextmanager
def _any_plan(seed: int) -> Iterator[None]:
    """Let `matmul` have any of the plans that it could have, each of which has the same bits."""
    real = planner.make_cheapest_plan

    def chosen(
        problems: list[Any], *, threads: int | None = None, epilogue: str = "none"
    ) -> tuple[int, pplconv.Plan, dict[str, Any]]:
        r = Random(f"plan {seed}")
        index = r.randrange(len(problems))
        request = Request(problems[index], tolerance=0.0, threads=threads)
        return index, *plan_of(request, r.choice(request.ranked(slack=inf)), "estimate")

    planner.make_cheapest_plan = chosen
    try:
        yield
    finally:
        planner.make_cheapest_plan = real


def _sizes(r: Random, vectors: bool) -> tuple[int | None, int]:
    """M or n, and k."""
    k = r.choice((width(r), width(r), r.randint(1, 300), r.choice((1, 256, 257, 512))))
    if r.random() < 0.04:
        k = 0
    size: int | None = width(r)
    if (kind := r.random()) < 0.04:
        size = 0
    elif kind < 0.14:
        size = None if vectors else 1
    return size, k


def _near_powers(r: Random, m: int, n: int, k: int) -> tuple[int, int, int]:
    """Let rows of an operand, or their number, be near a large power of two."""
    size = near_power(r, 6, 11)
    other = max(FOR_POWERS // (4 * size), 1)
    kind = r.randrange(3)
    if kind == 0:
        return m, size, min(k, other)
    return (m, min(n, other), size) if kind == 1 else (size, min(n, 32), min(k, 32))


def _batches(r: Random, most: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Batch dimensions of two operands, which broadcast, of no more matrices than `most`."""
    a: list[int] = []
    b: list[int] = []
    for _ in range(r.choice((0, 0, 0, 1, 1, 2, 3))):
        size = 0 if r.random() < 0.04 else min(r.randint(1, 5), max(most, 1))
        most //= max(size, 1)
        kind = r.random()
        a.append(1 if kind < 0.25 else size)
        b.append(1 if 0.25 <= kind < 0.5 else size)
    # Leading dimensions of one may be left out.
    if r.random() < 0.3:
        shorter = r.choice((a, b))
        while shorter and shorter[0] == 1:
            del shorter[0]
    return tuple(a), tuple(b)


def _types(r: Random) -> tuple[str, str]:
    dtype = r.choice(("float32", "float32", "float64", "float16"))
    other = r.choice(("float16", "float32", "float64")) if r.random() < 0.1 else dtype
    return dtype, other


def draw_product(seed: int, r: Random) -> MatrixCase:
    """Give a case."""
    call = r.choice(("matmul", "matmul", "matmul", "Linear", "Linear, prepared"))
    is_matmul = call == "matmul"
    wrong = draws.wrong(r, matrix_refusals.spoiled(call))
    if is_matmul:  # plans that are kept would hide the file
        wrong.pop("wisdom", None)
    (m, k), (n, _) = _sizes(r, vectors=True), _sizes(r, vectors=is_matmul)
    budget = draws.products(r)
    if m and n and k and r.random() < 0.12:
        m, n, k = _near_powers(r, m, n, k)
        budget = max(budget, FOR_POWERS)
    if m and n:
        m = max(min(m, budget // max(n * k, 1)), 1)
    # So many sums of nothing but products are held to the bound that the plan states.
    bare = not is_matmul and r.random() < 0.2
    if bare:
        m, n = r.randint(32, 64), r.randint(32, 64)
    each = max(m or 1, 1) * max(n or 1, 1) * max(k, 1)
    a_batch, b_batch = _batches(r, max(budget // each, 1))
    types = _types(r)
    if not is_matmul:
        a_batch, b_batch = np.broadcast_shapes(a_batch, b_batch), ()
        types = (types[0], types[0])
    a_batch = () if m is None else a_batch
    b_batch = () if n is None else b_batch
    options: dict[str, Any] = {"threads": r.choice((1, 1, 2, 3, 4, None))}
    if not is_matmul and r.random() < 0.1:
        options["max_workspace"] = r.choice((0, 4096, 12288, r.randint(0, 1 << 18)))
    if not is_matmul and r.random() < 0.15:
        options["precision"] = r.choice(("fp32", "fp16"))
    problem = Product(
        types=types,
        a_batch=a_batch,
        b_batch=b_batch,
        m=m,
        n=n,
        k=k,
        activation=None if bare else r.choice((None, *CLIPS, *CURVES)),
        with_bias=r.random() < 0.4 and not bare,
        with_residual=r.random() < 0.4 and not bare,
        seed=seed,
        options=options,
    )
    case = MatrixCase(
        seed=seed,
        problem=problem,
        call=call,
        out=r.choice((None, 0, 1, 3, 16)),
        forced=is_matmul and r.random() < 0.3,
        again=r.random() < 0.3,
        **wrong,
        **draws.surroundings(r),
    )
    forms = draws.forms(r, case.names)
    for name in case.names[:2]:
        forms[name] = draws.form(r, odd=0.7)
    for name in (name for name in case.names if name != "bias"):
        if r.random() < 0.08:
            forms[name] = r.choice(REPEATED)
    zeros = None
    if not is_matmul and n and k:
        # Rows that are all the same would be pruned anew.
        repeated = forms["weight"] in REPEATED
        zeros = draw_zeros(
            r, layer=True, forced=not repeated, special=case.special is not None or repeated
        )
    return replace(case, forms=forms, zeros=zeros)
