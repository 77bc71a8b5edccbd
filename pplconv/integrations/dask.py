"""Pictures larger than memory: a model on a dask array, tile by tile.

::

    import dask.array as da
    from pplconv import Conv2d
    from pplconv.integrations.dask import Layer, map_tiles

    def make_model(algorithm):
        weights = np.load("weights.npz")
        first = Conv2d(weights["a"], padding=1, activation="relu", algorithm=algorithm)
        second = Conv2d(weights["b"], stride=2, algorithm=algorithm)
        return lambda tile: second(first(tile))

    x = da.from_zarr("picture.zarr")            # (N, C, H, W)
    y = map_tiles(make_model, x, layers=[Layer(3, padding=1), Layer(3, stride=2, out_channels=64)])
    y.to_zarr("answer.zarr")

A tile includes the pixels around it that the layers see. At the picture's own border it has none,
since the layers' own padding is right there; see docs/large-images.md.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import threading
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from pplconv import Conv2d
from pplconv.integrations import told
from pplconv.integrations.tiles import Axis, Cut, Layer, axes_of, cut

with told("dask", "pplconv[dask]"):
    import cloudpickle
    import dask
    import dask.array as da

__all__ = ["Layer", "map_tiles"]

_LAYOUTS = {"NCHW": (-3, -2, -1), "NHWC": (-1, -3, -2)}  # axes of channels, height, width


def map_tiles(
    make_model: Callable[..., Callable[[Any], Any]],
    x: da.Array,
    *,
    layers: Sequence[Layer | Conv2d],
    algorithm: str = "direct",
    layout: str = "NCHW",
    dtype: DTypeLike | None = None,
) -> da.Array:
    """Run a model on a picture in tiles, lazily, with the values that the whole picture would give.

    Parameters
    ----------
    make_model : callable
        ``make_model(algorithm=algorithm)`` returns the model: a callable that takes a tile and
        returns the output of its layers. `make_model` is called once in each worker process, which
        keeps the model while the answer is computed; the model may be called from many threads at
        once. Objects that `make_model` refers to are sent to each worker once: let it load large
        weights from a file.
    x : dask.array.Array, shape (N, C, H, W) or (C, H, W)
        (N, H, W, C) or (H, W, C) for ``layout="NHWC"``. Its chunks along height and width are the
        tiles, moved to multiples of the layers' strides; those smaller than the halo are joined.
        Chunks of channels are joined.
    layers : sequence of Layer or Conv2d
        The layers in order, as far as they see more than one pixel: kernel, stride, padding and
        dilation. For branches that meet again, give the branch that reaches farthest. Operations
        on single pixels need no entry. Other operations, such as a mean over the picture, cannot be
        computed by tiles.
    algorithm : str, optional
        Passed to `make_model` for its convolutions: with ``"direct"`` and ``"im2col"`` the answer
        has the bits of the whole picture. With ``"auto"`` it may differ in the last ones.
    layout : {"NCHW", "NHWC"}, optional
        Layout of `x` and of the answer.
    dtype : dtype, optional
        Type of the answer; by default the type of `x`.

    Returns
    -------
    dask.array.Array
        Nothing is computed yet.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it. While computing, if the model
        does something else than `layers` say.

    Notes
    -----
    The order of a sum is chosen for each shape, so tiles by the default ``algorithm="auto"`` may
    differ from the whole picture in the last bits, also with ``tolerance=0``, which only rules
    Winograd out. A named direct algorithm has one order for all shapes. The bits also depend on
    the instruction set: workers on different kinds of CPUs may give different bits
    (``PPLCONV_MAX_ISA`` makes them agree).

    A worker that dies loses the tiles in progress and those that only it had; dask computes them
    again elsewhere, and another worker makes the model anew.

    Examples
    --------
    >>> import dask.array as da, numpy as np, pplconv
    >>> from pplconv.integrations.dask import map_tiles
    >>> w = np.ones((4, 1, 3, 3), np.float32)
    >>> conv = pplconv.Conv2d(w, padding=1, algorithm="direct")
    >>> x = da.ones((1, 1, 100, 100), chunks=(1, 1, 40, 40), dtype=np.float32)
    >>> y = map_tiles(lambda algorithm: pplconv.Conv2d(w, padding=1, algorithm=algorithm), x,
    ...               layers=[conv])
    >>> bool((y.compute() == conv(x.compute())).all())
    True
    """
    recipe = _recipe(make_model, algorithm)
    channels, *pixels = _axes(layout)
    x = _picture(x, layout)
    rows, columns = axes_of(layers)
    cuts = _cuts(x, (rows, columns), pixels)
    chunks = [list(sizes) for sizes in x.chunks]
    chunks[channels] = [sum(chunks[channels])]
    for axis, found in zip(pixels, cuts, strict=True):
        chunks[axis] = list(found.inputs)
    x = x.rechunk(tuple(tuple(sizes) for sizes in chunks))
    depth = {x.ndim + axis: (c.before, c.after) for axis, c in zip(pixels, cuts, strict=True)}
    # At the border there is nothing: zeros there would be padded once more by the layers.
    tiles = da.overlap.overlap(x, depth=depth, boundary="none", allow_rechunk=False)
    made = _channels_of(layers, x.shape[channels])
    task = _Task(rows, columns, cuts, layout, made, _dtype(x.dtype if dtype is None else dtype))
    outputs = list(x.chunks)
    outputs[channels] = (made,)
    for axis, found in zip(pixels, cuts, strict=True):
        outputs[axis] = found.outputs
    return da.map_blocks(
        task,
        tiles,
        # A value of the graph of its own: each worker receives it once, not with each tile.
        recipe=dask.delayed(recipe, name=f"model-{recipe.token}", traverse=False),
        chunks=tuple(outputs),
        dtype=task.dtype,
        meta=np.empty((0,) * x.ndim, task.dtype),
        name=f"tiles-{recipe.token}",
    )


def _picture(x: Any, layout: str) -> da.Array:
    if not isinstance(x, da.Array):
        raise TypeError(
            f"x must be a dask array, got {type(x).__name__}: dask.array.from_array(x, chunks=...) "
            "makes one"
        )
    if x.ndim not in (3, 4):
        raise ValueError(f"x has {x.ndim} dimensions: expected {layout}, or the same without N")
    if any(np.isnan(size) for size in x.shape):
        raise ValueError("x has chunks of unknown sizes: x.compute_chunk_sizes() finds them out")
    return x


def _axes(layout: Any) -> tuple[int, int, int]:
    if not isinstance(layout, str) or layout not in _LAYOUTS:
        raise ValueError(f"layout is {layout!r}: expected one of {', '.join(_LAYOUTS)}")
    return _LAYOUTS[layout]


def _dtype(dtype: Any) -> np.dtype[Any]:
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise TypeError(f"dtype must be a dtype, got {dtype!r}") from None
    return found


def _cuts(x: da.Array, axes: Sequence[Axis], pixels: Sequence[int]) -> tuple[Cut, Cut]:
    rows, columns = (cut(axis, x.chunks[at]) for axis, at in zip(axes, pixels, strict=True))
    return rows, columns


def _channels_of(layers: Sequence[Layer | Conv2d], channels: int) -> int:
    for layer in layers:
        channels = layer.out_channels or channels
    return channels


@dataclass(frozen=True)
class _Task:
    """One tile: the model's output, without the outputs that belong to its neighbours."""

    rows: Axis
    columns: Axis
    cuts: tuple[Cut, Cut]
    layout: str
    channels: int
    dtype: np.dtype[Any]

    def __dask_tokenize__(self) -> str:
        return repr(self)

    def __call__(self, tile: Any, *, recipe: _Recipe, block_info: Any) -> Any:
        answer = recipe.model()(tile)
        channels, *pixels = _LAYOUTS[self.layout]
        wanted = list(tile.shape)
        wanted[channels] = self.channels
        for axis, along in zip(pixels, (self.rows, self.columns), strict=True):
            wanted[axis] = along.size(tile.shape[axis])
        if not isinstance(answer, np.ndarray) or answer.shape != tuple(wanted):
            got = getattr(answer, "shape", type(answer).__name__)
            raise ValueError(
                f"layers do not describe the model: of a tile {tile.shape} it makes {got}, where "
                f"layers say {tuple(wanted)}"
            )
        if answer.dtype != self.dtype:
            raise TypeError(
                f"dtype is {self.dtype}, but the model makes {answer.dtype}: pass dtype= that"
            )
        place = block_info[0]["chunk-location"]
        own: list[slice] = [slice(None)] * tile.ndim
        for axis, found in zip(pixels, self.cuts, strict=True):
            at = place[axis]
            begin = found.skip if at else 0
            own[axis] = slice(begin, begin + found.outputs[at])
        part = answer[tuple(own)]
        # A view would keep the halo's outputs in memory, uncounted by dask.
        return answer if part.shape == answer.shape else np.ascontiguousarray(part)


def _recipe(make_model: Callable[..., Any], algorithm: str) -> _Recipe:
    if not isinstance(algorithm, str):
        raise TypeError(f"algorithm must be a name, got {algorithm!r}")
    if not callable(make_model):
        raise TypeError(f"make_model must be callable, got {type(make_model).__name__}")
    try:
        inspect.signature(make_model).bind(algorithm=algorithm)
    except TypeError as error:
        raise TypeError(
            "make_model is called as make_model(algorithm=...) to make the model, which fails for "
            f"this {type(make_model).__name__} ({error}): if it is the model itself, pass "
            "lambda algorithm: model"
        ) from None
    except ValueError:  # some C functions have no readable signature
        pass
    payload = cloudpickle.dumps((make_model, algorithm))
    # Things outside the pickle may change between calls, such as a file of weights.
    token = hashlib.sha256(payload).hexdigest()[:16] + uuid.uuid4().hex[:16]
    return _Recipe(token, payload)


class _Built:
    """A model of this process, made by the thread that wants it first."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.model: Callable[[Any], Any] | None = None


# A model lives as long as a worker holds its recipe. Schedulers that send the recipe with each task
# hold none between two tasks, so that the latest few are kept as well.
_built: weakref.WeakValueDictionary[str, _Built] = weakref.WeakValueDictionary()
_latest: deque[_Built] = deque(maxlen=2)
_lock = threading.Lock()


def _renew_lock() -> None:
    """Give a forked child a lock that no other thread holds."""
    global _lock
    _lock = threading.Lock()
    _built.clear()
    _latest.clear()


os.register_at_fork(after_in_child=_renew_lock)


class _Recipe:
    """Recipe of a model, and access to the model that each process has made of it.

    Parameters
    ----------
    token : str
        Identifies this recipe alone.
    payload : bytes
        Pickle of `make_model` and of the algorithm.
    """

    def __init__(self, token: str, payload: bytes) -> None:
        self.token = token
        self._payload = payload
        self._built: _Built | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return _Recipe, (self.token, self._payload)

    def __dask_tokenize__(self) -> str:
        return self.token

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + len(self._payload)

    def model(self) -> Callable[[Any], Any]:
        """Give the model of this process."""
        built = self._in_process()
        with built.lock:
            if built.model is None:
                make_model, algorithm = cloudpickle.loads(self._payload)
                model = make_model(algorithm=algorithm)
                if not callable(model):
                    raise TypeError(
                        f"make_model must return a callable, got {type(model).__name__}"
                    )
                built.model = model
            return built.model

    def _in_process(self) -> _Built:
        with _lock:
            found = _built.get(self.token)
            if found is None:
                found = _built[self.token] = _Built()
            if found not in _latest:
                _latest.append(found)
            self._built = found
            return found
