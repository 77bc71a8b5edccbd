"""`QConv2d`: a quantized convolution with its weights packed once."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex

import numpy as np

from ..arguments import checks, input_shapes
from ..arguments.activation import activation_text, kept_activation
from ..arguments.settings import checked
from ..memory.namespaces import as_given
from ..ops.quantized.quantization import DTYPES, Array
from ..ops.quantized.quantized_description import QuantizedConv, Scales, check_conv_layout
from ..ops.quantized.quantized_run import QuantizedKernel
from ..ops.sparse.sparse_matrices import weight_array
from ..ops.sparse.sparse_weights import checked_sparse
from ..planner import Plan
from .quantized_keeping import (
    array_text,
    kept_scale,
    kept_zeros,
    number_text,
    plain_copy,
    read_only,
)

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from .layer import (
        _Algorithm,
        _ArrayLike,
        _Block,
        _Clamp,
        _IntOrPair,
        _Padding,
        _PlainLayout,
        _Search,
        _SearchContext,
        _Sparse,
        _SparseMatrix,
    )

_SCALES = ("x_scale", "x_zero_point", "w_scale", "w_zero_point", "y_scale", "y_zero_point")
_RESIDUAL = ("residual_scale", "residual_zero_point")
_GEOMETRY = ("stride", "padding", "dilation", "groups")
_SETTINGS = ("algorithm", "search", "search_seconds", "max_workspace", "threads", "search_context")
# Arguments that pickles of earlier versions lack.
_ZEROS: dict[str, Any] = {"sparse": "auto", "block": None}


def _kept(name: str, text: str) -> property:
    """Return a read-only property for one of the checked arguments."""
    return property(attrgetter(f"_arguments.{name}"), doc=text)


class QConv2d:
    """A quantized 2-D convolution with its weights packed once.

    Numbers q of its arrays stand for ``scale * (q - zero_point)``. The sums are exact, and results
    are the same bit for bit on every CPU and for every team; docs/quantization.md has the contract.
    Safe to call from many threads at once. Picklable (the weights travel, plans are made again).

    Parameters
    ----------
    weight : array_like, shape (oc, ic / groups, kh, kw)
        uint8 or int8. Copied: later changes to the array have no effect. Or a sparse matrix, as in
        `Conv2d`; elements that it does not store are the integer 0.
    bias : array_like, shape (oc,), optional
        int32, in units of ``x_scale * w_scale`` as ONNX has it. Or float32, in real units: it is
        divided by them and rounded to int32, ties to even.
    stride, padding, dilation, groups : optional
        As in `Conv2d`. Padding has the value of `x_zero_point`, which stands for zero.
    x_scale, y_scale : float
        Scales of input and output, float32 (other numbers are rounded to it), more than 0 and
        finite. Leave out `y_scale` for int32 and float32 outputs; for int32 outputs `x_scale` and
        `w_scale` may be left out too.
    w_scale : float or array_like, shape (oc,)
        Scale of the weights, one for all or one for each output channel.
    x_zero_point, y_zero_point : int, optional
        Of the type of input and output.
    w_zero_point : int or array_like, shape (oc,), optional
        One for all or one for each output channel, independent of `w_scale`.
    residual_scale : float, optional
        Scale of residuals; without it calls take no residual. float32 outputs take float32
        residuals, which need no scale.
    residual_zero_point : int, optional
        Of the type of the output.
    activation : optional
        None, ``"relu"``, ``"relu6"`` or ``("clip", low, high)``, in real units. It is a clamp
        before results are rounded.
    x_dtype : {uint8, int8}, optional
        Of inputs. None: the type of `x_zero_point` if it is a NumPy scalar, else uint8.
    out_dtype : {uint8, int8, int32, float32}, optional
        Of outputs. int32: the sums with the bias. float32: real units. None: the type of
        `y_zero_point` if it is a NumPy scalar, else that of inputs.
    layout : {"NCHW", "NHWC"}, optional
        Of input, residual and output. Weights are OIHW in both.
    algorithm, input_shape, search, search_seconds, max_workspace, threads, search_context, \
sparse, block, weight_shape
        As in `Conv2d`. Weights that equal `w_zero_point` may be left out; results are the same.

    Attributes
    ----------
    weight : ndarray
        The copy, read-only.
    bias : ndarray of int32 or None
        As it is added to the sums, read-only.
    multiplier : ndarray of float32 or None
        ``x_scale * w_scale / y_scale`` of each channel, as used for the results.
    signal_to_noise : float or None
        In dB, if `Conv2d.quantize` made this object.
    weight_shape, in_channels, out_channels, kernel_size
        As in `Conv2d`.
    x_dtype, out_dtype : numpy.dtype
        Of inputs and outputs.
    stride, padding, dilation, groups, activation, layout, x_scale, x_zero_point, w_scale, \
w_zero_point, y_scale, y_zero_point, residual_scale, residual_zero_point, algorithm, search, \
search_seconds, max_workspace, threads, search_context, sparse, block
        The parameters after the checks. All are read-only.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described, a scale is not more than 0 and finite, a zero point is
        out of range, or a sum could leave int32 for some input; the message names the argument.
    MemoryError
        If memory for the weights cannot be had.

    See Also
    --------
    qconv2d : the same as a function, with ONNX's order of arguments.
    Conv2d.quantize : makes one from a `Conv2d` and samples of its input.
    pplconv.quant : scales and zero points of arrays.

    Notes
    -----
    It computes ONNX's QLinearConv [1]_, and ConvInteger [2]_ where outputs are int32, and
    adds a residual and an activation. A table in docs/quantization.md lists where results differ
    from onnxruntime's and ``onnx.reference``'s.

    References
    ----------
    .. [1] https://onnx.ai/onnx/operators/onnx__QLinearConv.html
    .. [2] https://onnx.ai/onnx/operators/onnx__ConvInteger.html

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> weight = np.ones((8, 3, 3, 3), np.int8)
    >>> conv = pplconv.QConv2d(weight, padding=1, x_scale=0.5, w_scale=0.25, y_scale=0.5)
    >>> conv(np.full((1, 3, 32, 32), 4, np.uint8))[0, 0, :2, :3]
    array([[12, 18, 18],
           [18, 27, 27]], dtype=uint8)
    """

    def __init__(
        self,
        weight: _ArrayLike | _SparseMatrix,
        bias: _ArrayLike | None = None,
        stride: _IntOrPair = 1,
        padding: _Padding = 0,
        dilation: _IntOrPair = 1,
        groups: SupportsIndex = 1,
        *,
        x_scale: _ArrayLike | None = None,
        x_zero_point: _ArrayLike | None = None,
        w_scale: _ArrayLike | None = None,
        w_zero_point: _ArrayLike | None = None,
        y_scale: _ArrayLike | None = None,
        y_zero_point: _ArrayLike | None = None,
        residual_scale: _ArrayLike | None = None,
        residual_zero_point: _ArrayLike | None = None,
        activation: _Clamp = None,
        x_dtype: DTypeLike | None = None,
        out_dtype: DTypeLike | None = None,
        layout: _PlainLayout = "NCHW",
        algorithm: _Algorithm = "auto",
        input_shape: Sequence[SupportsIndex] | None = None,
        search: _Search = "estimate",
        search_seconds: SupportsFloat = 0.5,
        max_workspace: SupportsIndex | None = None,
        threads: SupportsIndex | None = None,
        search_context: _SearchContext = "hot",
        sparse: _Sparse = "auto",
        block: _Block = None,
        weight_shape: Sequence[SupportsIndex] | None = None,
    ) -> None:
        array = plain_copy(weight_array(weight, weight_shape))
        groups = checks.integer("groups", groups, 1)
        stride, dilation = (
            checks.pair("stride", stride, 1),
            checks.pair("dilation", dilation, 1),
        )
        explicit = checks.explicit_padding(padding, (1, 1), (1, 1), stride, dilation)
        scales = Scales(
            x_scale, x_zero_point, w_scale, w_zero_point, y_scale, y_zero_point, residual_scale,
            residual_zero_point, x_dtype, out_dtype, activation,
        )  # fmt: skip
        described = QuantizedConv.of(array, bias, groups, scales)
        kept_sparse, kept_block, kept_algorithm = checked_sparse(sparse, block, algorithm)
        settings = checked(
            {
                "algorithm": kept_algorithm,
                "search": search,
                "search_seconds": search_seconds,
                "max_workspace": max_workspace,
                "threads": threads,
                "search_context": search_context,
            }
        )
        self._keep(
            SimpleNamespace(
                weight=array,
                bias=None if bias is None else read_only(described.offset),
                stride=stride,
                padding=padding if isinstance(padding, str) else explicit,
                dilation=dilation,
                groups=groups,
                layout=check_conv_layout(layout),
                x_dtype=DTYPES[described.x_kind],
                out_dtype=DTYPES[described.output.dtype],
                activation=kept_activation(activation, array.shape[0]),
                x_scale=kept_scale("x_scale", x_scale),
                x_zero_point=described.x_zero,
                w_scale=kept_scale("w_scale", w_scale, array.shape[:1]),
                w_zero_point=kept_zeros(w_zero_point, array),
                y_scale=kept_scale("y_scale", y_scale),
                y_zero_point=described.output.zero,
                residual_scale=kept_scale("residual_scale", residual_scale),
                residual_zero_point=described.output.residual_zero,
                sparse=kept_sparse,
                block=kept_block,
                **settings,
            ),
            described,
        )
        self._signal_to_noise: float | None = None
        if input_shape is not None:
            self.plan_for(input_shape)

    def _keep(self, kept: SimpleNamespace, described: QuantizedConv) -> None:
        """Keep the arguments, and make the kernel."""
        self._arguments, self._description = kept, described
        names = (*_GEOMETRY, "layout", *_SETTINGS, *_ZEROS)
        self._run = QuantizedKernel(
            **described.keywords(), **{name: getattr(kept, name) for name in names}
        )
        self._takes_residual = (
            described.output.residual_scale is not None or described.output.dtype == "f32"
        )
        self._multiplier = described.output.multiplier
        if self._multiplier is not None:
            self._multiplier = read_only(self._multiplier)

    def __call__(
        self, input: _ArrayLike, residual: _ArrayLike | None = None, out: Array | None = None
    ) -> Array:
        """Convolve.

        Parameters
        ----------
        input : array_like, shape (N, C, H, W) or (C, H, W)
            Of type `x_dtype`; (N, H, W, C) or (H, W, C) for ``layout="NHWC"``.
        residual : array_like, optional
            Of the output's shape and type; added before the activation, with a scale and zero
            point of its own.
        out : ndarray, optional
            Written and returned; C-contiguous, native, and apart from every operand.

        Returns
        -------
        ndarray
            Of type `out_dtype`, shape (N, oc, oh, ow) or (oc, oh, ow); (N, oh, ow, oc) for
            ``layout="NHWC"``. Of the library of `input`, as in `conv2d`.

        Raises
        ------
        TypeError, ValueError
            If an argument does not fit; `out` is untouched then.
        MemoryError
            If memory for the output or the scratch cannot be had.
        """
        if residual is not None and not self._takes_residual:
            refuse_residual(self._arguments.out_dtype)
        return as_given(input, self._run(input, residual, out), out)

    def plan_for(self, input_shape: Sequence[SupportsIndex]) -> Plan:
        """Show how inputs of one shape are computed.

        Parameters
        ----------
        input_shape : tuple of int
            (N, C, H, W) or (C, H, W); (N, H, W, C) or (H, W, C) for ``layout="NHWC"``.

        Returns
        -------
        Plan

        Raises
        ------
        TypeError, ValueError
            If an input of this shape could not be computed.
        """
        full = input_shapes.full_shape(input_shape, self._arguments.layout, self.in_channels)
        plan: Plan = self._run.plan_for(full)
        return plan

    weight = _kept("weight", "The copy of the weights, read-only.")
    bias = _kept("bias", "The bias as int32, read-only, or None.")
    stride = _kept("stride", "Vertical and horizontal.")
    padding = _kept("padding", "((top, bottom), (left, right)), or a word.")
    dilation = _kept("dilation", "Vertical and horizontal.")
    groups = _kept("groups", "Groups of channels.")
    activation = _kept("activation", "As it was asked for.")
    layout = _kept("layout", "Of input and output.")
    x_dtype = _kept("x_dtype", "Type of inputs.")
    out_dtype = _kept("out_dtype", "Type of outputs.")
    x_scale = _kept("x_scale", "Scale of inputs, float32.")
    x_zero_point = _kept("x_zero_point", "Zero point of inputs.")
    w_scale = _kept("w_scale", "Scale of weights, or one for each output channel.")
    w_zero_point = _kept("w_zero_point", "Zero point of weights, or one for each output channel.")
    y_scale = _kept("y_scale", "Scale of outputs, float32.")
    y_zero_point = _kept("y_zero_point", "Zero point of outputs.")
    residual_scale = _kept("residual_scale", "Scale of residuals, float32.")
    residual_zero_point = _kept("residual_zero_point", "Zero point of residuals.")
    algorithm = _kept("algorithm", "The requested algorithm; `plan_for` tells which one runs.")
    search = _kept("search", "As it was asked for.")
    search_seconds = _kept("search_seconds", "As it was asked for.")
    search_context = _kept("search_context", "As it was asked for.")
    max_workspace = _kept("max_workspace", "As it was asked for.")
    threads = _kept("threads", "The requested team; `plan_for` tells how many threads run.")
    sparse = _kept("sparse", "As it was asked for; `plan_for` tells whether zeros are left out.")
    block = _kept("block", "As it was asked for.")

    @property
    def multiplier(self) -> Array | None:
        """``x_scale * w_scale / y_scale`` of each output channel; None for int32 outputs."""
        return self._multiplier

    @property
    def signal_to_noise(self) -> float | None:
        """In dB, on the samples that `Conv2d.quantize` was given; None for other objects."""
        return self._signal_to_noise

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """Shape of the weights."""
        return tuple(self.weight.shape)

    @property
    def in_channels(self) -> int:
        """Channels of inputs, over all groups."""
        return int(self.weight.shape[1]) * int(self.groups)

    @property
    def out_channels(self) -> int:
        """Channels of outputs, over all groups."""
        return int(self.weight.shape[0])

    @property
    def kernel_size(self) -> tuple[int, ...]:
        """Height and width of the kernel."""
        return tuple(self.weight.shape[2:])

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for made in ("_run", "_description", "_takes_residual", "_multiplier"):
            del state[made]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        kept = self._arguments
        vars(kept).update({name: vars(kept).get(name, value) for name, value in _ZEROS.items()})
        for name, value in vars(kept).items():
            if isinstance(value, np.ndarray):
                setattr(kept, name, read_only(value))
        names = (*_SCALES, *_RESIDUAL, "x_dtype", "out_dtype", "activation")
        scales = Scales(**{name: getattr(kept, name) for name in names})
        self._keep(kept, QuantizedConv.of(kept.weight, kept.bias, kept.groups, scales))

    def __repr__(self) -> str:
        kept = self._arguments
        bias = None if kept.bias is None else array_text(kept.bias)
        names = (*_SCALES, *_RESIDUAL)
        numbers = ", ".join(f"{name}={number_text(getattr(kept, name))}" for name in names)
        settings = ", ".join(f"{name}={getattr(kept, name)!r}" for name in (*_SETTINGS, *_ZEROS))
        return (
            f"{type(self).__name__}({array_text(kept.weight)}, bias={bias}, "
            f"stride={kept.stride}, padding={kept.padding!r}, dilation={kept.dilation}, "
            f"groups={kept.groups}, {numbers}, activation={activation_text(kept.activation)}, "
            f"x_dtype='{kept.x_dtype}', out_dtype='{kept.out_dtype}', layout={kept.layout!r}, "
            f"{settings})"
        )


def description_of(layer: QConv2d) -> QuantizedConv:
    """Give the convolution that a layer computes, without its memory layout."""
    return layer._description


def refuse_residual(out_dtype: np.dtype[Any]) -> None:
    """Say why there can be no residual.

    Raises
    ------
    ValueError
        Always.
    """
    if out_dtype == np.int32:
        raise ValueError("residual must be None for int32 outputs")
    raise ValueError("residual needs residual_scale, which was not given")
