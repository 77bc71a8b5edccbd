"""Types of ``_flat``."""

from numpy import uint8
from numpy.typing import NDArray

class Flat:
    """Arrays to be written into shared memory; they are held until this is dropped.

    Attributes
    ----------
    at, length : int
        Place and size of their description, which is written behind them, in bytes.
    size : int
        Bytes of arrays and description.
    """

    at: int
    length: int
    size: int

    def write(self, room: NDArray[uint8]) -> None:
        """Write everything into memory of at least `size` bytes.

        Raises
        ------
        ValueError
            If `room` has fewer.
        """

def flatten(obj: object) -> Flat | None:
    """Take arrays apart.

    Parameters
    ----------
    obj : object
        An array, a scalar of NumPy's, a tuple or list of arrays, or a request: a tuple of arrays
        and an empty dict.

    Returns
    -------
    Flat or None
        None if `obj` is anything else, and must be pickled: so must arrays that hold no numbers,
        are of a subclass, are empty, are not C-contiguous, or come twice.
    """

def read_flat(block: NDArray[uint8], at: int, own: bool) -> object:
    """Put arrays together again.

    Parameters
    ----------
    block : ndarray
        The memory that they were written into.
    at : int
        `Flat.at`.
    own : bool
        True: arrays get memory of their own, which begins on a cache line unless they are small.
        False: all but small ones stay where they lie; whoever keeps one keeps `block`.

    Returns
    -------
    object
        Like the object that was taken apart; read-only arrays are read-only again.
    """
