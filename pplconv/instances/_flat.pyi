"""Types of ``_flat``."""

from numpy import uint8
from numpy.typing import NDArray

class Flat:
    """Arrays to be written into shared memory; they are held until this is dropped.

    Attributes
    ----------
    at, length : int
        Where what is told of them will lie, behind them, in bytes.
    size : int
        Bytes of it all.
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
        None where `obj` is anything else, and must be pickled: arrays of other types than
        numbers, of a subclass, empty ones, such as do not lie as in C, one that comes twice.
    """

def read_flat(block: NDArray[uint8], at: int, own: bool) -> object:
    """Put arrays together again.

    Parameters
    ----------
    block : ndarray
        What they were written into.
    at : int
        `Flat.at`.
    own : bool
        In memory of their own, which begins on a cache line, unless they are small; otherwise
        where they lie, but for small ones. Who keeps one of these keeps `block`.

    Returns
    -------
    object
        As it was taken apart; what was read-only is.
    """
