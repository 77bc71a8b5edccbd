"""All engines, in the order of the tables: pplconv first, then its peers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.engines.base import Engine
from benchmarks.engines.litert import LiteRt
from benchmarks.engines.mnn import Mnn
from benchmarks.engines.ncnn import Ncnn
from benchmarks.engines.numpy import Numpy
from benchmarks.engines.onednn import OneDnn
from benchmarks.engines.onnxruntime import OnnxRuntime
from benchmarks.engines.openvino import OpenVino
from benchmarks.engines.pplconv import PplconvFunction, PplconvNchw, PplconvNchwc, PplconvNhwc
from benchmarks.engines.torch import Torch, TorchNhwc
from benchmarks.names import pick

ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        PplconvNchw(),
        PplconvNhwc(),
        PplconvNchwc(),
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


def choose(
    names: Iterable[str] = (), searches: Sequence[str] = (), tolerances: Sequence[float] = ()
) -> list[Engine]:
    """Give the named engines in the order of the tables; none means all.

    A prepared pplconv comes once for each of `searches` and each of `tolerances`, named after
    them (``pplconv@measure@1e-4``); where neither is given, as it is.

    Raises
    ------
    ValueError
        If a name is unknown.
    """
    chosen = pick("engine", names, ENGINES).values()
    return [one for engine in chosen for one in engine.variants(searches, tolerances)]
