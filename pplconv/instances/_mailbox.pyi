"""Types of ``_mailbox``."""

from typing import Literal

from numpy import uint8
from numpy.typing import NDArray

NOTHING: Literal[0]
ANNOUNCED: Literal[1]
THERE: Literal[2]
BYTES: int

class Outbox:
    """The writer's end of a mailbox.

    Parameters
    ----------
    memory : ndarray
        `BYTES` bytes that begin on a cache line, all zero before the first end is made.
    """

    def __new__(cls, memory: NDArray[uint8]) -> Outbox: ...
    def announce(self) -> None:
        """Tell the reader that a message is being prepared; it need not be sent."""

    def post(self, first: int, second: int, third: int, fourth: int, fifth: int) -> None:
        """Leave a message; the one before must have been taken."""

    def sleeper(self) -> int:
        """Give the number of the reader's sleep if it must be woken; 0 if not."""

    def rang(self, nap: int) -> None:
        """Note that the reader was woken from that sleep."""

class Inbox:
    """The reader's end of a mailbox.

    Parameters
    ----------
    memory : ndarray
        See `Outbox`.
    """

    def __new__(cls, memory: NDArray[uint8]) -> Inbox: ...
    def look(self, first: float = 0.0, then: float = 0.0) -> int:
        """Look for a message, without the interpreter's lock.

        Parameters
        ----------
        first : float
            Seconds to watch for a sign of one.
        then : float
            Seconds to watch for the message itself, from its announcement on.

        Returns
        -------
        int
            `NOTHING`, `ANNOUNCED` or `THERE`.
        """

    def nap(self) -> bool:
        """Announce that this end goes to sleep; True if it may, as there is no message."""

    def wake(self) -> None:
        """Announce that this end is awake."""

    def take(self) -> tuple[int, int, int, int, int, float]:
        """Take the message out.

        Returns
        -------
        tuple
            The numbers, and the time at which the message was announced, or left if it was not
            announced, in seconds of `time.monotonic`.

        Raises
        ------
        ValueError
            If there is none.
        """
