"""All engines, in the order of the tables: pplconv first, then its peers."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.engines.base import Engine
from benchmarks.engines.litert import LiteRt
from benchmarks.engines.mnn import Mnn
from benchmarks.engines.ncnn import Ncnn
from benchmarks.engines.numpy import Numpy
from benchmarks.engines.onednn import OneDnn
from benchmarks.engines.onnxruntime import OnnxRuntime
from benchmarks.engines.openvino import OpenVino
from benchmarks.engines.pplconv import PplconvFunction, PplconvNchw, PplconvNhwc
from benchmarks.engines.torch import Torch, TorchNhwc

ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        PplconvNchw(),
        PplconvNhwc(),
        PplconvFunction(),
        Torch(),
        TorchNhwc(),
        OneDnn(),
        OnnxRuntime(),
        OpenVino(),
        Ncnn(),
        Mnn(),
        LiteRt(),
        Numpy(),
    )
}


def choose(names: Iterable[str] = ()) -> list[Engine]:
    """Give the named engines in the order of the tables; none means all.

    Raises
    ------
    ValueError
        If a name is unknown.
    """
    wanted = list(names) or list(ENGINES)
    unknown = [name for name in wanted if name not in ENGINES]
    if unknown:
        raise ValueError(
            f"unknown engine {', '.join(unknown)}: expected some of {', '.join(ENGINES)}"
        )
    return [engine for name, engine in ENGINES.items() if name in wanted]
