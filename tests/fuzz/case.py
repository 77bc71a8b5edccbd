"""A case of any kind: its fields, and its answers to the code that makes and judges its call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np

import pplconv
from pplconv.planner.estimating import Request
from tests.fuzz.exact import Expected
from tests.fuzz.zeros import Zeros


class Finding(Exception):
    """Something that should not be; the text says what."""


@dataclass(frozen=True)
class Reason:
    """Why a call is refused.

    Parameters
    ----------
    text : str
        For the figures.
    names : str
        The arguments of which the message must name one, as a pattern.
    error : type
        What is raised.
    """

    text: str
    names: str
    error: Any = ValueError


@dataclass(frozen=True)
class Spoiled(Reason):
    """What is wrong with a call, and the ``out`` that it is made with."""

    out: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class Case(ABC):
    """One call, its surroundings and what is wrong with it.

    Parameters
    ----------
    problem : object
        Sizes and parameters, with ``dtype`` (of the result), ``with_residual`` and so on; its
        ``options`` are those that do not change the result.
    call : str
        What is called, and how.
    forms : dict
        How each operand lies (see ``arrays``); an ``"activation"`` may be a ``"list"``.
    out : int or None
        Elements before ``out`` in guarded memory; None: no ``out``.
    tiny : bool
        Whether caches are so small that the problem is cut as large ones are.
    other_team : int or None
        A team that must give the same bytes.
    spoiled : str or None
        What is wrong; the kind of case knows what it means.
    wisdom : str or None
        What lies in the wisdom file (see ``wisdom_files``).
    scale : int
        The first operand is multiplied by two to this power.
    special : str or None
        Which numbers are special (see ``special``).
    zeros : Zeros or None
        Weights that are zero (see ``zeros``).
    """

    # The module that knows what calls of this kind are refused for.
    refusals: ClassVar[Any]

    seed: int
    problem: Any
    call: str
    forms: dict[str, str] = field(default_factory=dict)
    out: int | None = None
    tiny: bool = False
    other_team: int | None = None
    spoiled: str | None = None
    wisdom: str | None = None
    scale: int = 0
    special: str | None = None
    zeros: Zeros | None = None

    @cached_property
    @abstractmethod
    def plain(self) -> dict[str, Any]:
        """The operands as the reference takes them; those that a call leaves out are None."""

    def operands(self) -> dict[str, Any]:
        """The operands as the call takes them, but for how they lie."""
        return dict(self.plain)

    @property
    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """Arguments of a call besides arrays."""

    @property
    def activation(self) -> Any:
        """As the call takes it."""
        activation = self.problem.full_activation
        if isinstance(activation, tuple) and self.forms.get("activation") == "list":
            return list(activation)
        return activation

    @property
    def output_shape(self) -> tuple[int, ...]:
        """As the call gives it."""
        shape: tuple[int, ...] = self.problem.output_shape
        return shape

    @property
    @abstractmethod
    def layout(self) -> str:
        """For the figures."""

    @property
    @abstractmethod
    def keeps_plans(self) -> bool:
        """Whether plans stay for other calls, and so must be of this machine."""

    def around(self) -> AbstractContextManager[None]:
        """The context in which the call is made."""
        return nullcontext()

    @abstractmethod
    def make(
        self, operands: dict[str, Any], arguments: dict[str, Any], out: Any
    ) -> tuple[np.ndarray, pplconv.Plan | None]:
        """Make the call; give its result, and its plan if it shows one."""

    @abstractmethod
    def plan(self, **changes: Any) -> pplconv.Plan | None:
        """Give the plan of the call with other arguments, if there is a way to ask for one."""

    @abstractmethod
    def request(self) -> Request:
        """The request to the planner."""

    @property
    @abstractmethod
    def epilogue(self) -> str:
        """Class of the epilogue in wisdom."""

    @abstractmethod
    def expected(self) -> Expected:
        """The expected result."""

    @abstractmethod
    def in_order(self, y: np.ndarray) -> np.ndarray:
        """Give a result in the shape of what is expected."""

    def predicted(self) -> Reason | None:
        """Say why the call cannot be served if it is not spoiled; None if it must be.

        Tolerance and workspace are not looked at: what they leave depends on the candidates.
        """
        return self.refusals.predicted(self)

    @property
    def ordinary(self) -> bool:
        """Whether its sums are of numbers for which plans state a bound relative to the largest.

        The sums of float64 are as exact as what they are compared with.
        """
        p = self.problem
        added = p.with_bias or p.with_residual or p.activation is not None or self.special
        repeated = any(form.startswith("repeated") for form in self.forms.values())
        return not added and not repeated and p.dtype != "float64"

    @property
    @abstractmethod
    def text(self) -> str:
        """The call in one line."""

    @abstractmethod
    def smaller_problems(self) -> Iterator[Any]:
        """Problems that are a step simpler, the largest steps first."""

    def simpler(self) -> Iterator[Case]:
        """Cases that are a step simpler, the largest steps first."""
        for changes in (
            {"wisdom": None}, {"spoiled": None}, {"forms": dict.fromkeys(self.forms, "plain")},
            {"out": None}, {"other_team": None}, {"tiny": False}, {"scale": 0}, {"special": None},
            *({"forms": {**self.forms, name: "plain"}} for name in self.forms),
        ):  # fmt: skip
            yield replace(self, **changes)
        for problem in self.smaller_problems():
            yield replace(self, problem=problem)


def plainer(p: Any, *options: str) -> Iterator[Any]:
    """Problems without an epilogue, of one thread, and without some of the options."""
    for name, value in (("activation", None), ("with_bias", False), ("with_residual", False)):
        yield replace(p, **{name: value})
    yield replace(p, options={**p.options, "threads": 1})
    for name in options:
        yield replace(p, options={k: v for k, v in p.options.items() if k != name})


# Sizes that are a step smaller.
SHORTER = (lambda n: max(n // 2, 1), lambda n: max(n - 1, 1))


class ExactCase(Case):
    """A call whose result is exact; wisdom is not drawn: its spoilers look at no types."""

    def request(self) -> NoReturn:
        """Nothing asks for it."""
        raise NotImplementedError

    @property
    def epilogue(self) -> NoReturn:
        """As `request`."""
        raise NotImplementedError

    @property
    def ordinary(self) -> bool:
        """No plan states an error of exact sums."""
        return False

    def in_order(self, y: np.ndarray) -> np.ndarray:
        """As all cases; in the layout of the call."""
        return y
