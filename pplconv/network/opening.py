"""What a session is made of: a network, its interface and its name; `open_model` finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .._literals import Fallback
from ..drawing.progress_bar import Wanted
from .interface import Interface
from .kept.container import begins_as_kept
from .plan_settings import Settings

if TYPE_CHECKING:
    from .kept.network import KeptNetwork
    from .network import Network
    from .overriding import Overrides

__all__ = ["Opened", "open_model"]


class Opened(NamedTuple):
    """The parts of a session.

    Parameters
    ----------
    name : str
        Of the file, or of the graph.
    network : Network or KeptNetwork
        Finds and makes programs.
    interface : Interface
        Its inputs, outputs and texts.
    overrides : Overrides or None
        Networks for other initializers, if there are any that a feed may override.
    """

    name: str
    network: Network | KeptNetwork
    interface: Interface
    overrides: Overrides | None


def open_model(
    model: Any, settings: Settings, fallback: Fallback, progress: Wanted, kept: int
) -> Opened:
    """Open a compiled network, or read and prepare an ONNX model.

    Parameters
    ----------
    model : str, os.PathLike, bytes or onnx.ModelProto
        As of `InferenceSession`.
    settings : Settings
        What plans are made with.
    fallback, progress
        As of `InferenceSession`, checked.
    kept : int
        Number of programs to keep.

    Raises
    ------
    TypeError, ValueError, OSError
        As from `InferenceSession`.
    ImportError
        If it is an ONNX model, and `onnx` is not installed.
    """
    if begins_as_kept(model):
        from .kept.files import open_kept

        return open_kept(model, settings, kept)
    try:
        # Before all that imports `onnx_ir`.
        from . import symbols_later  # noqa: F401
        from .model_sessions import opened
    except ImportError as error:  # pragma: no cover - tests have both
        raise ImportError(
            f"InferenceSession needs {error.name}: pip install 'pplconv[onnx]'", name=error.name
        ) from error
    return opened(model, settings, fallback, progress, kept)
