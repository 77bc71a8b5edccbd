"""`Conv3d`: a convolution of volumes with its weights packed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex

import numpy as np
import numpy.typing as npt

from ..arguments import checks, input_shapes
from ..arguments.activation import activation_text
from ..arguments.argument_names import named
from ..memory.array_like import array_of, renewed
from ..memory.namespaces import as_given
from ..ops import slabs, volume_images
from ..ops.folds import fold_of, folded_shape
from ..ops.plan_of_parts import as_run_here
from ..runtime import ForkableLock
from .conv import Conv2d
from .given_arrays import native_dtype
from .quantized_keeping import array_text

if TYPE_CHECKING:
    from .._literals import PaddingWord, VolumeLayout
    from .layer import (
        _Activation,
        _Algorithm,
        _ArrayLike,
        _Block,
        _PaddingMode,
        _Precision,
        _Search,
        _SearchContext,
        _Sides,
        _Sparse,
        _Triple,
    )

__all__ = ["Conv3d"]

Array = npt.NDArray[Any]

# Arguments that the layers of images take as they are.
_SHARED = (
    "algorithm", "tolerance", "search", "threads", "search_seconds", "max_workspace", "precision",
    "search_context", "sparse", "block", "padding_mode",
)  # fmt: skip
# All arguments, as `repr` shows them.
_KEPT = ("bias", "stride", "padding", "dilation", "groups", "activation", "layout", *_SHARED)


def _of_images(name: str, text: str) -> property:
    """Return a read-only property that the layer of images has."""
    return property(attrgetter(f"_whole.{name}"), doc=text)


class Conv3d:
    """A convolution of volumes with its weights packed once.

    Safe to call from many threads at once; the GIL is released while it computes. Picklable
    (the weights travel, plans are made again).

    Parameters
    ----------
    weight : array_like, shape (oc, ic / groups, kd, kh, kw)
        float16, bfloat16 (of the package ml_dtypes), float32 or float64. Copied: later changes to
        the array have no effect.
    bias : array_like, shape (oc,), optional
        Same dtype as `weight`. Copied.
    stride, dilation : int or (int, int, int), optional
        In depth, vertical and horizontal.
    padding : int, (int, int, int), ((int, int), (int, int), (int, int)) or str, optional
        Around the input, as in `conv3d`.
    groups : int, optional
        Groups of channels that do not see one another.
    activation : optional
        Applied last, as in `conv2d`.
    layout : {"NCDHW", "NDHWC"}, optional
        Of input, residual and output. Weights have the same shape in both.
    algorithm : {"auto", "depthwise", "pointwise", "winograd", "direct", "im2col", "sparse"}, \
optional
        For the convolutions of images that it is divided into, as in `conv3d`.
    tolerance : float, optional
        Largest error that the planner may spend on speed, as in `conv2d`.
    precision : {None, "auto", "fp32", "fp16", "bf16", "low", "low_bf16"}, optional
        Precision of the computation, as in `conv2d`.
    input_shape : tuple of int, optional
        Prepare for inputs of this shape now rather than at the first call.
    search, search_seconds, search_context : optional
        How the convolutions of images are planned, as in `Conv2d`; `search_seconds` is for each of
        them.
    max_workspace : int, optional
        Bytes of scratch memory that these may use; copies of images do not count.
    threads : int, optional
        Size of the team, as in `Conv2d`. The result's bits do not depend on it.
    sparse, block : optional
        Whether weights that are zero may be left out, as in `Conv2d`.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}, optional
        Values of the padding, as in `conv3d`.

    Attributes
    ----------
    weight, bias : ndarray
        The copies, read-only; `bias` is None if there is none.
    weight_shape, in_channels, out_channels, kernel_size
        Taken from the shape of the weights; named as in ``torch.nn.Conv3d``.
    dtype : numpy.dtype
        That of the weights.
    stride, padding, dilation, groups, activation, layout, algorithm, tolerance, precision, \
search, search_seconds, search_context, max_workspace, threads, sparse, block, padding_mode
        The parameters after the checks: a number has become three. All are read-only.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it.
    MemoryError
        If memory for the weights cannot be had.

    See Also
    --------
    conv3d : the same as a function; its notes say how it is computed.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> conv = pplconv.Conv3d(np.ones((8, 3, 3, 3, 3), np.float32), padding=1, activation="relu")
    >>> conv(np.ones((1, 3, 16, 32, 32), np.float32)).shape
    (1, 8, 16, 32, 32)
    """

    def __init__(
        self,
        weight: _ArrayLike,
        bias: _ArrayLike | None = None,
        stride: _Triple = 1,
        padding: _Sides | PaddingWord = 0,
        dilation: _Triple = 1,
        groups: SupportsIndex = 1,
        *,
        activation: _Activation = None,
        layout: VolumeLayout = "NCDHW",
        algorithm: _Algorithm = "auto",
        tolerance: SupportsFloat | None = None,
        precision: _Precision = None,
        input_shape: Sequence[SupportsIndex] | None = None,
        search: _Search = "estimate",
        search_seconds: SupportsFloat = 0.5,
        max_workspace: SupportsIndex | None = None,
        threads: SupportsIndex | None = None,
        search_context: _SearchContext = "hot",
        sparse: _Sparse = "auto",
        block: _Block = None,
        padding_mode: _PaddingMode = "zeros",
    ) -> None:
        input_shapes.check_weight_is_no_size(
            weight, f"(oc, ic / groups, {volume_images.TAPS})", "Conv3d", "numbers of channels"
        )
        array = np.array(array_of(weight, "weight"), order="C", copy=True)
        self._groups = checks.integer("groups", groups, 1)
        checks.check_weight_shape(array.shape, self._groups, taps=volume_images.TAPS)
        self._stride = checks.sizes("stride", stride, 1, 3)
        self._dilation = checks.sizes("dilation", dilation, 1, 3)
        self._padding = volume_images.kept_padding(padding, self._stride)
        self._layout = volume_images.check_layout(layout)
        self._kernel = array.shape[2:]
        self._fold = fold_of(self._kernel, self._stride, self._padding)
        folded = array.reshape(folded_shape(self._fold, array.shape))
        self._taps = folded.shape[2]
        # It checks and keeps the other arguments.
        self._whole = Conv2d(
            slabs.kernel(folded, range(self._taps), self._groups), bias, activation=activation,
            algorithm=algorithm, tolerance=tolerance, precision=precision, search=search,
            search_seconds=search_seconds, max_workspace=max_workspace, threads=threads,
            search_context=search_context, sparse=sparse, block=block, padding_mode=padding_mode,
            **self._geometry(),
        )  # fmt: skip
        self._make()
        if input_shape is not None:
            self.plan_for(input_shape)

    def _geometry(self) -> dict[str, Any]:
        """Give the arguments of layers of images that follow from those of volumes."""
        return {
            **volume_images.image_geometry(
                self._fold, self._stride, self._padding, self._dilation
            ),
            "groups": self._groups, "layout": volume_images.IMAGES[self._layout],
        }  # fmt: skip

    def _make(self) -> None:
        self._lock = ForkableLock()
        self._layers: dict[tuple[tuple[int, ...], bool, bool], Conv2d] = {
            (tuple(range(self._taps)), True, True): self._whole
        }

    def _of_taps(self, taps: tuple[int, ...], first: bool, last: bool) -> Callable[..., Array]:
        """Find or make the layer of some taps: a `volume_images.Operator`."""
        key = taps, first, last
        layer = self._layers.get(key)
        if layer is None:
            with self._lock:
                layer = self._layers.get(key)
                if layer is None:
                    layer = Conv2d(
                        slabs.kernel(self._folded, taps, self._groups),
                        self.bias if first else None,
                        activation=self.activation if last else None, **self._geometry(),
                        **{name: getattr(self, name) for name in _SHARED},
                    )  # fmt: skip
                    self._layers[key] = layer
        return layer

    def _problem(self, shape: tuple[int, ...]) -> volume_images.Volumes:
        return volume_images.convolution(
            shape, self.weight.shape, self.dtype, stride=self._stride, padding=self._padding,
            dilation=self._dilation, groups=self._groups, layout=self._layout,
            padding_mode=self.padding_mode,
        )  # fmt: skip

    def __call__(
        self, input: _ArrayLike, residual: _ArrayLike | None = None, out: Array | None = None
    ) -> Array:
        """Convolve.

        Parameters
        ----------
        input : array_like, shape (N, C, D, H, W) or (C, D, H, W)
            Same dtype as the weights, of any strides; (N, D, H, W, C) or (D, H, W, C) for
            ``layout="NDHWC"``.
        residual : array_like, optional
            Of the output's shape; added before the activation.
        out : ndarray, optional
            Written and returned; C-contiguous, native, and apart from every operand.

        Returns
        -------
        ndarray
            Shape (N, oc, od, oh, ow) or (oc, od, oh, ow); (N, od, oh, ow, oc) or (od, oh, ow, oc)
            for ``layout="NDHWC"``. Of the library of `input`, as in `conv2d`.

        Raises
        ------
        TypeError, ValueError
            If an argument does not fit; `out` is untouched then.
        MemoryError
            If memory for the output or the scratch cannot be had.
        """
        x = array_of(input, "input", self.dtype)
        added = None if residual is None else array_of(residual, "residual", self.dtype)
        # Reading the arguments may have run code that changed arrays.
        x = renewed(input, x)
        if native_dtype(x, "input") != self.dtype:
            raise TypeError(f"input must be {self.dtype} like weight, got {x.dtype}")
        added = None if added is None else renewed(residual, added)
        problem = self._problem(x.shape)
        refusable = self.algorithm != "auto" or self.max_workspace is not None
        result = problem.compute(self._of_taps, x, added, out, refusable=refusable)
        return as_given(input, result, out)

    def plan_for(self, input_shape: Sequence[SupportsIndex]) -> volume_images.VolumePlan:
        """Show how inputs of one shape are computed.

        Parameters
        ----------
        input_shape : tuple of int
            (N, C, D, H, W) or (C, D, H, W); (N, D, H, W, C) or (D, H, W, C) for
            ``layout="NDHWC"``.

        Returns
        -------
        VolumePlan
            Its `parts` are the plans of convolutions of images. `threads` as of `Conv2d.plan_for`.

        Raises
        ------
        TypeError, ValueError
            If an input of this shape could not be computed.
        """
        shape = input_shapes.dimensions_of(input_shape)
        with named(input="input_shape"):
            return as_run_here(self._problem(shape).plan(self._of_taps))

    stride = property(attrgetter("_stride"), doc="In depth, vertical and horizontal.")
    padding = property(attrgetter("_padding"), doc="Three pairs, or a word.")
    dilation = property(attrgetter("_dilation"), doc="In depth, vertical and horizontal.")
    groups = property(attrgetter("_groups"), doc="Groups of channels.")
    layout = property(attrgetter("_layout"), doc="Of input and output.")
    bias = _of_images("bias", "The copy of the bias, read-only, or None.")
    dtype = _of_images("dtype", "Type of the weights.")
    activation = _of_images("activation", "As it was asked for.")
    algorithm = _of_images("algorithm", "The requested algorithm; `plan_for` tells which ones run.")
    tolerance = _of_images("tolerance", "As it was asked for.")
    precision = _of_images("precision", "As it was asked for.")
    search = _of_images("search", "As it was asked for.")
    search_seconds = _of_images("search_seconds", "As it was asked for.")
    search_context = _of_images("search_context", "As it was asked for.")
    max_workspace = _of_images("max_workspace", "As it was asked for.")
    threads = _of_images("threads", "The requested team; `plan_for` tells how many threads run.")
    sparse = _of_images("sparse", "As it was asked for.")
    block = _of_images("block", "As it was asked for.")
    padding_mode = _of_images("padding_mode", "As it was asked for.")
    out_channels = _of_images("out_channels", "Channels of outputs, over all groups.")

    @property
    def weight(self) -> Array:
        """The copy of the weights, read-only."""
        folded = self._folded
        return folded.reshape(*folded.shape[:2], *self._kernel)

    @property
    def _folded(self) -> Array:
        """The weights with the axes that are computed."""
        oc, _, kh, kw = self._whole.weight_shape
        return self._whole.weight.reshape(oc, self._taps, -1, kh, kw).transpose(0, 2, 1, 3, 4)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """Shape of the weights."""
        return self.weight.shape

    @property
    def in_channels(self) -> int:
        """Channels of inputs, over all groups."""
        return self.weight_shape[1] * self._groups

    @property
    def kernel_size(self) -> tuple[int, ...]:
        """Depth, height and width of the kernel."""
        return self.weight_shape[2:]

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_lock"], state["_layers"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        kept = dict(state)
        layers = kept.pop("_layers", {})
        self.__dict__.update(kept)
        self._make()
        self._layers.update(layers)

    def __reduce_prepared__(self, threads: int) -> tuple[Any, ...]:
        """Reduce for a process of this machine that shares memory with this one.

        The layers of images, which know how to travel with plans and packed weights, go along.
        """
        reduced: Any = self.__reduce_ex__(5)
        # A subclass with its own way of pickling is pickled that way.
        if type(self).__reduce__ is not object.__reduce__:
            return tuple(reduced)
        make, arguments, state, *rest = reduced
        return (make, arguments, {**state, "_layers": dict(self._layers)}, *rest)

    def __repr__(self) -> str:
        shown = {name: repr(getattr(self, name)) for name in _KEPT}
        shown["activation"] = activation_text(self.activation)
        if self.bias is not None:
            shown["bias"] = array_text(self.bias)
        kept = "".join(f", {name}={text}" for name, text in shown.items())
        return f"{type(self).__name__}({array_text(self.weight)}{kept})"
