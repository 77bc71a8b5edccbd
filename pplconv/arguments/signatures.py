"""The table of arguments: what layers and functions take, show, pickle and say in their stubs.

A row describes an argument for all layers and functions: its default, its type for checkers, the
type of a layer's attribute, its check, and its description. `SIGNATURES` has the order of the
arguments of each compiled layer and function, and the few rows that differ there. Stubs
(``python -m tools.stubs``), `repr` and pickles of layers, and checks of settings derive from both;
tests compare signatures and docstrings with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .. import planner
from .._records import NamedTuple
from . import checks

__all__ = ["ARGUMENTS", "REQUIRED", "SIGNATURES", "Argument", "Signature"]


class _Required:
    """Stands for the default of arguments that have none."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()


class Argument(NamedTuple):
    """A row of the table: one argument of layers and functions.

    Parameters
    ----------
    default : object
        `REQUIRED` where there is none.
    annotation : str
        Its type, in the words of ``api/layer.pyi``.
    kept : str or None
        Type of the layers' attribute of that name; None: they have none.
    check : callable or None
        Returns the checked value, or raises an error that names the argument; None if the check
        needs other arguments.
    text : str or None
        Its description in docstrings; None if each docstring has its own.
    """

    default: object
    annotation: str
    kept: str | None = None
    check: Callable[[Any], Any] | None = None
    text: str | None = None


class Signature(NamedTuple):
    """The arguments of a layer or a function.

    Parameters
    ----------
    positional, keywords : str
        Names of arguments in their order, with spaces between them; `keywords` by name only.
    kept : str
        For a layer, the arguments in `repr` and pickles, in an order that old pickles share.
    own : dict
        Fields that differ from the rows, by argument.
    described : frozenset of str
        Arguments whose descriptions differ from those of the rows.
    """

    positional: str
    keywords: str
    kept: str = ""
    own: Mapping[str, Mapping[str, Any]] = {}
    described: frozenset[str] = frozenset()

    @property
    def arguments(self) -> dict[str, Argument]:
        """Rows of all arguments, in their order."""
        names = (*self.positional.split(), *self.keywords.split())
        return {name: ARGUMENTS[name]._replace(**self.own.get(name, {})) for name in names}


_NUMBER = "SupportsIndex | None"
_SHAPE = "Sequence[SupportsIndex] | None"
_SIZES = "tuple[int, int]"

ARGUMENTS: Mapping[str, Argument] = {
    "input": Argument(default=REQUIRED, annotation="_ImagesLike[_Scalar]"),
    "a": Argument(default=REQUIRED, annotation="_ImagesLike[_Scalar]"),
    "b": Argument(default=REQUIRED, annotation="_ImagesLike[_Scalar]"),
    "weight": Argument(default=REQUIRED, annotation="_ArrayLike", kept="NDArray[Any]"),
    "bias": Argument(default=None, annotation="_ArrayLike | None", kept="NDArray[Any] | None"),
    "stride": Argument(default=1, annotation="_IntOrPair", kept=_SIZES),
    "padding": Argument(
        default=0, annotation="_Padding", kept="tuple[tuple[int, int], tuple[int, int]] | str"
    ),
    "output_padding": Argument(default=0, annotation="_IntOrPair", kept=_SIZES),
    "dilation": Argument(default=1, annotation="_IntOrPair", kept=_SIZES),
    "groups": Argument(
        default=1, annotation="SupportsIndex", kept="int",
        text="int, optional: Groups of channels that do not see one another.",
    ),
    "output_size": Argument(default=None, annotation="_IntOrPair | None"),
    "activation": Argument(
        default=None, annotation="_Activation", kept="_Activation",
        text="optional: Applied last, as in `conv2d`.",
    ),
    "residual": Argument(
        default=None, annotation="_ArrayLike | None",
        text="array_like, optional: Of the output's shape and dtype; added before the activation.",
    ),
    "layout": Argument(
        default="NCHW", annotation="_Layout", kept="_Layout", check=checks.check_layout
    ),
    "algorithm": Argument(
        default="auto", annotation="_Algorithm", kept="_Algorithm", check=planner.check_algorithm
    ),
    "tolerance": Argument(
        default=None, annotation="SupportsFloat | None", kept="float",
        check=checks.check_tolerance,
        text="float, optional: Largest error that the planner may spend on speed, as in `conv2d`.",
    ),
    "precision": Argument(
        default=None, annotation="_Precision", kept="_Precision",
        text='{None, "auto", "fp32", "fp16", "bf16", "low", "low_bf16"}, optional: '
        "Precision of the computation, as in `conv2d`.",
    ),
    "input_shape": Argument(
        default=None, annotation=_SHAPE,
        text="tuple of int, optional: Prepare for inputs of this shape now rather than at the "
        "first call; for NCHWc it says how large a block is.",
    ),
    "search": Argument(
        default="estimate", annotation="_Search", kept="_Search", check=planner.check_search
    ),
    "search_seconds": Argument(
        default=0.5, annotation="SupportsFloat", kept="float", check=checks.check_search_seconds
    ),
    "search_context": Argument(
        default="hot", annotation="_SearchContext", kept="_SearchContext",
        check=planner.check_search_context,
    ),
    "max_workspace": Argument(
        default=None, annotation=_NUMBER, kept="int | None", check=checks.check_max_workspace
    ),
    "threads": Argument(
        default=None, annotation=_NUMBER, kept="int | None", check=checks.check_threads
    ),
    "sparse": Argument(default="auto", annotation="_Sparse", kept="_Sparse"),
    "block": Argument(default=None, annotation="_Block", kept="tuple[int, int] | None"),
    "weight_shape": Argument(
        default=None, annotation=_SHAPE, kept="tuple[int, int, int, int]"
    ),
    "padding_mode": Argument(default="zeros", annotation="_PaddingMode", kept="_PaddingMode"),
    "out": Argument(
        default=None, annotation="NDArray[_Scalar] | None",
        text="ndarray, optional: Written and returned; C-contiguous, native, and apart from every "
        "operand.",
    ),
}  # fmt: skip

_OR_SPARSE = {"weight": {"annotation": "_ArrayLike | _SparseMatrix"}}
_OF_TRANSPOSED = {"padding": {"annotation": "_TransposedPadding"}}
# Settings in the order of version 0.1.0, whose pickles end with the fourth.
_SETTINGS = "algorithm tolerance search threads search_seconds max_workspace"

SIGNATURES: Mapping[str, Signature] = {
    "conv2d": Signature(
        "input weight bias stride padding dilation groups",
        "activation residual layout algorithm tolerance precision threads max_workspace "
        "padding_mode out",
        described=frozenset({"activation", "tolerance", "precision"}),
    ),
    "Conv2d": Signature(
        "weight bias stride padding dilation groups",
        "activation layout algorithm tolerance precision input_shape search search_seconds "
        "max_workspace threads search_context sparse block weight_shape padding_mode",
        f"weight bias stride padding dilation groups activation layout {_SETTINGS} precision "
        "search_context sparse block padding_mode",
        own=_OR_SPARSE,
        described=frozenset({"tolerance", "precision"}),
    ),
    "conv_transpose2d": Signature(
        "input weight bias stride padding output_padding groups dilation",
        "output_size activation residual layout algorithm tolerance precision threads "
        "max_workspace out",
        own=_OF_TRANSPOSED,
    ),
    "ConvTranspose2d": Signature(
        "weight bias stride padding output_padding groups dilation",
        "activation layout algorithm tolerance precision input_shape search search_seconds "
        "max_workspace threads search_context",
        f"weight bias stride padding output_padding groups dilation activation layout {_SETTINGS} "
        "precision search_context",
        own=_OF_TRANSPOSED,
        described=frozenset({"groups"}),
    ),
    "Linear": Signature(
        "weight bias",
        "activation precision input_shape search search_seconds max_workspace threads "
        "search_context sparse block",
        "weight bias activation precision search search_seconds max_workspace threads "
        "search_context sparse block",
        own={**_OR_SPARSE, "weight_shape": {"kept": _SIZES}},
        described=frozenset({"activation", "precision", "input_shape"}),
    ),
    "matmul": Signature(
        "a b", "bias residual activation out threads",
        described=frozenset({"activation", "residual"}),
    ),
}  # fmt: skip
"""Of compiled layers and functions, by name."""
