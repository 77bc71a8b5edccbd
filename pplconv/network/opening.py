"""`open_model`: finds the parts of a session in a file, in the cache, or in a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import config
from .._lazy import imports_that_stay
from ..drawing.progress_bar import Wanted
from .kept.container import begins_as_kept
from .opened import Opened
from .plan_settings import Settings

if TYPE_CHECKING:
    from .._literals import Fallback
    from .kept.cache_folder import OfCache

__all__ = ["open_model", "require_onnx"]


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
        with imports_that_stay():
            from .kept.files import open_kept

        return open_kept(model, settings, kept)
    if config.network_cache("") is None:
        return _opened(model, settings, fallback, progress, kept, None)
    with imports_that_stay():
        from .kept.cache_folder import source_of
        from .kept.kept_network import KeptNetwork

    source = source_of(model, settings, fallback)
    known = None if source is None else source.interface()
    if source is None or known is None:
        return _opened(model, settings, fallback, progress, kept, source)
    name, interface = known

    def behind() -> Any:
        return _opened(
            source.model(), settings, fallback, progress, kept, None
        ).network.with_model()

    return Opened(name, KeptNetwork(interface, source, settings, kept, behind), interface, None)


def _opened(
    model: Any, settings: Settings, fallback: Fallback, progress: Wanted, kept: int,
    source: OfCache | None,
) -> Opened:  # fmt: skip
    """Read and prepare an ONNX model, whose programs go to a cache if there is one."""
    require_onnx()
    from .model_sessions import opened

    found = opened(model, settings, fallback, progress, kept)
    network = found.network.with_model()
    if source is None or not found.is_whole:
        return found
    from .kept.kept_network import KeptNetwork

    source.keep(found.name, found.interface)
    return found._replace(
        network=KeptNetwork(found.interface, source, settings, kept, network=network)
    )


def require_onnx() -> None:
    """Import what reads ONNX models, in the right order.

    Raises
    ------
    ImportError
        If it is not installed; the message says what to install.
    """
    try:
        with imports_that_stay():
            # Before all that imports `onnx_ir`.
            from . import spared_imports  # noqa: F401

            _import_models()
    except ImportError as error:  # pragma: no cover - tests have both
        raise ImportError(
            f"InferenceSession needs {error.name}: pip install 'pplconv[onnx]'", name=error.name
        ) from error


def _import_models() -> None:
    from . import model_sessions  # noqa: F401
