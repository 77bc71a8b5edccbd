"""The one interface of all engines."""

from __future__ import annotations

import importlib
import importlib.metadata
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems import Problem
from pplconv import machine

Array32 = NDArray[np.float32]


class Unsupported(RuntimeError):
    """An engine cannot run this problem at all; the text says why."""


@dataclass(frozen=True)
class Availability:
    """Whether an engine is installed: ``version`` if so, else ``reason``."""

    ok: bool
    version: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Identity:
    """Properties of an engine that figures need, also when only its record is left.

    Attributes
    ----------
    name : str
    ours : bool
    layout : str
        What it takes and gives: ``"NCHW"``, ``"NHWC"``, ``"NCHWc"`` or ``"blocked"`` (its own).
    search : str
        How pplconv's plan was chosen; empty for peers, and where nothing is prepared.
    asked : float or None
        The tolerance that pplconv was given; None for peers.
    algorithm : str
        The algorithm that pplconv was forced to take; empty where it chose.
    """

    name: str
    ours: bool
    layout: str
    search: str = ""
    asked: float | None = None
    algorithm: str = ""


@dataclass(frozen=True)
class Prepared:
    """An engine ready to be timed.

    Attributes
    ----------
    call : callable
        Takes nothing, computes the convolution once. Only this is timed.
    to_nchw : callable
        Takes what `call` returned and gives the result as an (N, oc, oh, ow) ndarray. Not timed.
    isa : str
        Instruction set that its plan names; empty where it names none.
    """

    call: Callable[[], Any]
    to_nchw: Callable[[Any], NDArray[np.generic]]
    isa: str = ""

    def result(self) -> NDArray[np.generic]:
        """Run once and give the result as an (N, oc, oh, ow) ndarray."""
        return self.to_nchw(self.call())


class Engine(ABC):
    """Something that convolves, at its best settings.

    Attributes
    ----------
    name : str
        How options and tables call it.
    ours : bool
        Whether it is pplconv; all others are its peers.
    tolerance : float
        Largest error it may have (see `benchmarks.reference.error_of`) to count as right.
    layout : str
        What it takes and gives: ``"NCHW"``, ``"NHWC"``, ``"NCHWc"`` or ``"blocked"`` (its own).
    search : str
        How its plan was chosen, where it is a prepared pplconv.
    asked : float or None
        The tolerance that pplconv is given.
    algorithm : str
        The algorithm that pplconv is forced to take.
    modules : tuple of str
        What must be importable.
    levels : tuple of str
        Instruction sets of which the CPU must have one, as `pplconv` names them; none if the engine
        computes what it is asked on every CPU.
    distribution : str
        Whose version is reported.
    note : str
        Settings, for the head of a report.
    """

    name: str
    ours: bool = False
    tolerance: float = 2e-5
    layout: str = "NCHW"
    search: str = ""
    asked: float | None = None
    algorithm: str = ""
    modules: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    distribution: str = ""
    note: str = ""

    @property
    def identity(self) -> Identity:
        """The properties that figures need."""
        return Identity(self.name, self.ours, self.layout, self.search, self.asked, self.algorithm)

    def variants(self, searches: Sequence[str], tolerances: Sequence[float]) -> list[Engine]:
        """Give the engine once for each setting that it can have; a peer has none."""
        return [self]

    def available(self) -> Availability:
        """Tell whether the engine can be used, and which version it is."""
        if self.levels and not set(self.levels) & set(machine.current().usable_isas()):
            return Availability(ok=False, reason=f"it needs {' or '.join(self.levels)}")
        for module in self.modules:
            try:
                importlib.import_module(module)
            except ImportError as error:
                return Availability(ok=False, reason=f"{module} cannot be imported: {error}")
        try:
            version = importlib.metadata.version(self.distribution)
        except importlib.metadata.PackageNotFoundError:
            version = "unknown"
        return Availability(ok=True, version=version)

    @abstractmethod
    def prepare(self, problem: Problem, x: Array32, w: Array32, threads: int) -> Prepared:
        """Do, untimed, all that a user of the engine does once.

        Parameters
        ----------
        problem : Problem
        x : ndarray, float32, (N, C, H, W), C-contiguous
        w : ndarray, float32, (oc, ic/groups, kh, kw), C-contiguous
        threads : int
            Threads that the engine may use.

        Raises
        ------
        Unsupported
            If the engine cannot run such a problem.
        """

    def prepare_second(self, problem: Problem, x: Array32, w: Array32, threads: int) -> Prepared:
        """Prepare a second instance on other arrays, right after the first one.

        It computes as the first one does, so the plan of the first one may be used again.
        """
        return self.prepare(problem, x, w, threads)
