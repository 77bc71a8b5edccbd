"""The engines that run the networks: pplconv, and onnxruntime if it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pplconv
from examples.demo.reading import Network, Networks

__all__ = ["open_onnxruntime", "open_pplconv"]


def open_pplconv(paths: Sequence[Path], threads: int | None, precision: str = "auto") -> Networks:
    """Open the three models as `pplconv.InferenceSession`.

    Parameters
    ----------
    paths : sequence of Path
        Detector, classifier and recogniser.
    threads : int or None
        Size of the team.
    precision : str, optional
        As for the session.

    Returns
    -------
    Networks

    Raises
    ------
    ModuleNotFoundError
        If a package of the extra ``onnx`` is missing.
    """
    try:
        kind: Any = pplconv.InferenceSession
    except ImportError as error:  # the demo reports it as a missing extra
        raise ModuleNotFoundError(str(error), name=error.name) from error
    sessions = [kind(str(path), threads=threads, precision=precision) for path in paths]
    return Networks(f"pplconv {pplconv.__version__}", *map(_network, sessions))


def open_onnxruntime(paths: Sequence[Path], threads: int | None) -> Networks | None:
    """Open the three models as ``onnxruntime.InferenceSession``.

    Parameters
    ----------
    paths : sequence of Path
        Detector, classifier and recogniser.
    threads : int or None
        Threads of each session; None: as many as it takes by itself.

    Returns
    -------
    Networks or None
        None if onnxruntime is not installed.
    """
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    options.log_severity_level = 3
    sessions = [
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        for path in paths
    ]
    return Networks(f"onnxruntime {onnxruntime.__version__}", *map(_network, sessions))


def _network(session: Any) -> Network:
    name = session.get_inputs()[0].name

    def run(x: np.ndarray) -> np.ndarray:
        result: np.ndarray = session.run(None, {name: x})[0]
        return result

    return run
