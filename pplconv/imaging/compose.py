"""`Compose`: several filters one after another as one, band by band where that is faster."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import planner
from .._records import NamedTuple
from ..memory.array_like import renewed
from ..memory.arrays import check_out, empty_aligned, refuse_overlap
from ..memory.namespaces import as_given
from ..runtime import ForkableLock, team
from .filter_arguments import check_image, check_threads
from .filter_chains import FilterChain, chained, joins
from .filtering import filter2d, sepfilter2d
from .named import box, gaussian, laplace, scharr, sobel, unsharp
from .noted import Noted, noted

__all__ = ["Compose", "ComposedPart"]

Array = npt.NDArray[Any]

# Calls that may be one direct filter, and do nothing else.
_OWN = box, filter2d, gaussian, laplace, scharr, sepfilter2d, sobel, unsharp
# Arguments that a filter of a chain cannot have: its image and its result are the chain's.
_APART = frozenset(("image", "out"))
# Forms of images whose chains are kept.
_MOST_FORMS = 16


class ComposedPart(NamedTuple):
    """Neighbouring filters as they run on images of one form.

    Parameters
    ----------
    first, end : int
        Numbers of the first filter, and behind the last one.
    bands : int
        Bands that they run in; 1: one filter after another, each on the whole image.
    rows : int
        Rows of the last filter's result in each band but the last one; 0 if there are no bands.
    """

    first: int
    end: int
    bands: int
    rows: int


class _Part(NamedTuple):
    end: int
    chain: FilterChain | None


class Compose:
    """Filters one after another, in one call.

    Where that is estimated to pay, neighbouring filters run band by band: some rows of the first
    filter, the rows of the next one that follow from them, and so on. Images between filters then
    stay in a core's cache, and take the memory of a few rows. Results have the bits of the filters
    called one after another.

    Safe to call from many threads at once. Picklable if the filters are.

    Parameters
    ----------
    filters : iterable of callable
        Each takes an image and gives one: functions of `pplconv.imaging`, with arguments bound by
        `functools.partial`, or any others.

    Attributes
    ----------
    filters : tuple of callable
        The filters.

    Raises
    ------
    TypeError, ValueError
        If `filters` is empty, or one of them cannot be called; the message says which.

    See Also
    --------
    pplconv.Chain : layers of networks one after another.

    Notes
    -----
    `filter2d` and `sepfilter2d` can be cut, and so can all functions that are one of them: blurs,
    one derivative, `laplace`, and `unsharp` of integers. A magnitude of two derivatives, a mask,
    ``normalize=True``, ``per_channel=True``, ``border="wrap"``, transforms, images of bool, int32
    or int64 and functions of others run on whole images, and end the bands before them. So do
    images that are not C-contiguous.

    Examples
    --------
    >>> from functools import partial
    >>> import numpy as np
    >>> from pplconv.imaging import Compose, gaussian, sobel
    >>> edges = Compose([partial(gaussian, sigma=1), partial(sobel, axis=1)])
    >>> edges(np.eye(4, dtype=np.uint8) * 200)[1]
    array([  0, -51, -83,   0], dtype=int16)
    """

    def __init__(self, filters: Iterable[Callable[..., Any]]) -> None:
        try:
            self.filters = tuple(filters)
        except TypeError as error:
            raise TypeError(f"filters must be callables, got {type(filters).__name__}") from error
        if not self.filters:
            raise ValueError("filters must not be empty")
        each: tuple[object, ...] = self.filters
        for number, one in enumerate(each):
            if not callable(one):
                kind = type(one).__name__
                raise TypeError(f"filters[{number}] must be callable, got {kind}")
        # Kernels are kept as they are now.
        self.filters = tuple(_own_copy(one) if _is_own(one) else one for one in self.filters)
        self._forget()

    def _forget(self) -> None:
        self._lock = ForkableLock()
        self._parts: OrderedDict[Any, _Part] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {"filters": self.filters}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def __repr__(self) -> str:
        return f"Compose({list(self.filters)!r})"

    def __call__(
        self, image: npt.ArrayLike, *, out: Array | None = None, threads: int | None = None
    ) -> Array:
        """Filter an image.

        Parameters
        ----------
        image : array_like, shape (H, W) or (H, W, C)
            Of a type that the first filter takes.
        out : ndarray, optional
            Written and returned; C-contiguous, native, and apart from the image.
        threads : int, optional
            Most threads that compute; None: as in `filter2d`. Filters that have a ``threads=`` of
            their own keep it where they run by themselves.

        Returns
        -------
        ndarray
            What the last filter gives; of the image's library, as in `filter2d`.

        Raises
        ------
        TypeError, ValueError
            If an argument is not as described, or a filter refuses its image; `out` is untouched
            then.
        """
        given = check_image(image)
        number = check_threads(threads)
        if isinstance(out, np.ndarray):
            refuse_overlap(out, image=given)
        with nullcontext() if number is None else team(number):
            found = self._run(renewed(image, given), out)
        return as_given(image, found, out)

    def plan_for(
        self, image: npt.ArrayLike, *, threads: int | None = None
    ) -> tuple[ComposedPart, ...]:
        """Tell which filters run band by band.

        Parameters
        ----------
        image : array_like
            As in a call. Filters that need their pixels run.
        threads : int, optional
            As in a call.

        Returns
        -------
        tuple of ComposedPart
            In the order in which they run.
        """
        pixels, number = check_image(image), check_threads(threads)
        parts: list[ComposedPart] = []
        with nullcontext() if number is None else team(number):
            at = 0
            while at < len(self.filters):
                part = self._part(at, pixels)
                bands, rows = 1, 0
                if part.chain is not None:
                    bands, rows = part.chain.bands.turns + 2, part.chain.bands.rows
                parts.append(ComposedPart(at, part.end, bands, rows))
                if part.end < len(self.filters):
                    pixels = self._run_part(at, part, pixels, None, pixels)
                at = part.end
        return tuple(parts)

    def _run(self, image: Array, out: Array | None) -> Array:
        pixels, at = image, 0
        while at < len(self.filters):
            part = self._part(at, pixels)
            last = part.end == len(self.filters)
            pixels = self._run_part(at, part, pixels, out if last else None, image)
            at = part.end
        return pixels

    def _run_part(
        self, at: int, part: _Part, pixels: Array, out: Array | None, image: Array
    ) -> Array:
        """Run the filters of a part; `image` is the caller's, from which `out` lies apart."""
        if part.chain is not None:
            shape, dtype = part.chain.shape, part.chain.dtype
            result = (
                empty_aligned(shape, dtype)
                if out is None
                else check_out(out, shape, dtype, image=image)
            )
            part.chain(pixels, result)
            return result
        one = self.filters[at]
        if out is not None and _is_own(one):
            return one(pixels, out=out)  # type: ignore[no-any-return]
        try:
            found = check_image(one(pixels))
        except (TypeError, ValueError) as error:
            raise type(error)(f"filters[{at}]: {error}") from error
        if out is None:
            return found
        checked: Array = check_out(out, found.shape, found.dtype, image=image)
        np.copyto(checked, found)
        return checked

    def _part(self, at: int, pixels: Array) -> _Part:
        """Find or make the chain that begins at a filter, for images of a form."""
        form = pixels.shape, pixels.strides, pixels.dtype, pixels.flags.aligned
        key = at, form, planner.team_and_settings(None)
        with self._lock:
            found = self._parts.get(key)
            if found is not None:
                self._parts.move_to_end(key)
                return found
        made = self._made(at, pixels)
        with self._lock:
            self._parts[key] = made
            while len(self._parts) > _MOST_FORMS:
                self._parts.popitem(last=False)
        return made

    def _made(self, at: int, pixels: Array) -> _Part:
        filters: list[Noted] = []
        for one in self.filters[at:]:
            filter = noted(one, pixels) if _is_own(one) else None
            if filter is None or (filters and not joins(filters[-1], filter)):
                break
            filters.append(filter)
            pixels = filter.result
        # The longest run of filters that pays.
        for count in range(len(filters), 1, -1):
            chain = chained(filters[:count], planner.team_size(None))
            if chain is not None:
                return _Part(at + count, chain)
        return _Part(at + 1, None)


def _is_own(call: Callable[..., Any]) -> bool:
    """Whether a call may be noted: functions of others may do anything."""
    if isinstance(call, partial):
        bound = not call.args and _APART.isdisjoint(call.keywords)
        return bound and _is_own(call.func)
    return any(call is one for one in _OWN)


def _own_copy(call: Callable[..., Any]) -> Callable[..., Any]:
    """Copy the arguments that are bound."""
    if isinstance(call, partial):
        return partial(call.func, **copy.deepcopy(call.keywords))
    return call
