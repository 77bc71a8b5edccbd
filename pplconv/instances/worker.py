"""The part of an instance that runs requests, one at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod


class WorkerDied(RuntimeError):
    """The worker that ran the request has ended without an answer.

    The pool makes another worker and runs the request again, once by default and never with
    ``retries=0``, before the future holds this.  A worker raises it only while no answer has come
    back from it: an answered request is never run again.
    """


class Worker(ABC):
    """Runs requests, one after another.

    All but `abandon` and the properties is called by one thread, the dispatcher of its instance,
    which has also made it.
    """

    @abstractmethod
    def run(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Call the model, and wait for its result.

        Parameters
        ----------
        args, kwargs : tuple, dict
            Submitted arguments.

        Raises
        ------
        WorkerDied
            If the worker ended before it answered; afterwards only `close` is called.
        BaseException
            Any exception of the model.
        """

    @abstractmethod
    def close(self, timeout: float) -> None:
        """Let go of everything, within `timeout` seconds; a dead worker is closed as well."""

    def abandon(self) -> None:
        """End `run`, if there is a way to, since nobody waits for it any longer.

        Called at most once, by the thread that closes the pool, when the time limit is over while
        `run` goes on.  `run` then raises `WorkerDied`, and `close` follows; where nothing can end
        it, as here, it goes on.  Returns at once, and raises nothing.
        """
        return

    @property
    def ended(self) -> bool:
        """Whether it has already ended, so that it cannot begin a request."""
        return False

    @property
    @abstractmethod
    def node(self) -> int | None:
        """The NUMA node it runs on, None if that is not known."""

    @property
    @abstractmethod
    def cores(self) -> tuple[int, ...]:
        """The logical CPUs it is bound to, empty if it is not bound."""
