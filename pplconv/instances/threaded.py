"""Workers of thread mode: the model of their node, called in the dispatcher's thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from ..runtime import scoped_tolerance, team, tolerance
from .pool_arguments import make_model
from .worker import Worker
from .worker_pinning import bound, bound_cores
from .worker_placement import Placement

Model = Callable[..., Any]


def make_thread_workers(
    factory: Callable[[], Model],
    placements: Sequence[Placement],
    threads: int,
    check: Callable[[object], None] | None = None,
) -> Callable[[int], Worker]:
    """Prepare workers that share one model on each node.

    Parameters
    ----------
    factory : callable
        Makes a model; called once for each node, in a thread that is bound to the node, as pages
        lie on the node that first writes them.
    placements : sequence of Placement
        Placement of each worker.
    threads : int
        Size of each worker's team.
    check : callable, optional
        Raises if the model is unsuitable.

    Returns
    -------
    callable
        Makes the worker of an index, for the calling thread.
    """
    models = {placement.node: _Shared(factory, check) for placement in placements}
    # The tolerance of the code that makes the pool: the instances' threads have another context.
    spent = scoped_tolerance()

    def make_worker(index: int) -> Worker:
        placement = placements[index]
        return ThreadWorker(models[placement.node].get, placement, threads, spent)

    return make_worker


class ThreadWorker(Worker):
    """Calls a model in the thread that made the worker.

    Parameters
    ----------
    model : callable
        Gives the model; called once the thread is bound.
    placement, threads
        As for `make_thread_workers`.
    spent : float or None
        Tolerance of calls without ``tolerance=``; None for the environment's.
    """

    def __init__(
        self,
        model: Callable[[], Model],
        placement: Placement,
        threads: int,
        spent: float | None = None,
    ) -> None:
        with ExitStack() as stack:
            stack.enter_context(bound(placement))
            stack.enter_context(team(threads))
            if spent is not None:
                stack.enter_context(tolerance(spent))
            self._cores = bound_cores(placement)
            self._model = model()
            self._stack = stack.pop_all()
        self._node = placement.node

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the model."""
        return self._model(*args, **kwargs)

    def close(self, timeout: float) -> None:
        """Put the thread's own binding and team back."""
        self._stack.close()

    @property
    def node(self) -> int | None:
        """As the placement says."""
        return self._node

    @property
    def cores(self) -> tuple[int, ...]:
        """Logical CPUs that the thread was bound to when it began."""
        return self._cores


class _Shared:
    """A model that is made at the first request for it, or the failure to make it."""

    def __init__(
        self, factory: Callable[[], Model], check: Callable[[object], None] | None
    ) -> None:
        self._factory = factory
        self._check = check
        self._lock = threading.Lock()
        self._model: Model | None = None
        self._error: BaseException | None = None

    def get(self) -> Model:
        with self._lock:
            if self._error is not None:
                raise self._error
            if self._model is None:
                try:
                    self._model = make_model(self._factory, self._check)
                except BaseException as error:
                    self._error = error
                    raise
            return self._model
