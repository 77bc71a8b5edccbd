"""How much of a core's L1 and L2 the blocks take that the planner's estimate chooses for it.

Bytes of a plan that lie in each cache, by its cost model:

L1
    the panel of weights or of pixels, as long as a block of K, that serves all of the other
    operand; what is read ahead of the other operand; and the tile of C;
L2
    the whole of a task's share of the other operand, which is read once for each such panel. For
    Winograd it is the scratch instead: transformed inputs and products of a block of tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from asm.registry import kernels
from benchmarks.analysis.cores import Core
from pplconv.algorithms import Candidate
from pplconv.planner import Request, Target
from pplconv.problem import ConvProblem

# A layer of each kind, of ResNet-50 and VGG-19.
LAYERS = {
    "1x1, 64 to 256, 56x56": "mb1ic64ih56oc256kh1",
    "1x1, 1024 to 256, 14x14": "mb1ic1024ih14oc256kh1",
    "3x3, 128 to 128, 28x28": "mb1ic128ih28oc128kh3ph1",
    "3x3, 512 to 512, 28x28": "mb1ic512ih28oc512kh3ph1",
    "3x3 stride 2, 256 to 256, 28x28": "mb1ic256ih28oc256kh3sh2ph1",
    "7x7 stride 2, 3 to 64, 224x224": "mb1ic3ih224oc64kh7sh2ph3",
}
LAYOUTS = ("NCHW", "NHWC")
AHEAD = 24  # steps of K that an operand is read ahead


@dataclass(frozen=True)
class Footprint:
    """The memory that a plan keeps in near caches.

    Parameters
    ----------
    layer, layout : str
        The convolution.
    algorithm : str
        Of the plan.
    tile : str
        The tile.
    l1, l2 : int
        Bytes.
    """

    layer: str
    layout: str
    algorithm: str
    tile: str
    l1: int
    l2: int


def target_of(core: Core) -> Target:
    """Kernels as they would be on the core."""
    rows: list[dict[str, Any]] = [
        {
            name: getattr(kernel, name)
            for name in ("symbol", "op", "dtype", "isa", "tuning", "mr", "nr", "kr", "lanes")
        }
        for kernel in kernels(core.arch)
    ]
    return Target.of(core.machine, rows)


def sizes(candidate: Candidate) -> tuple[int, int]:
    """Bytes that a candidate keeps in L1 and in L2.

    Parameters
    ----------
    candidate : Candidate
        Of the loops ``gemm``, ``winograd`` or ``direct``.

    Raises
    ------
    ValueError
        If it is of others, which have no tile.
    """
    p, blocks = candidate.problem, candidate.blocks
    e, ic, oc = candidate.numerics.operand_bytes, p.ic // p.groups, p.oc // p.groups
    if candidate.loops not in ("gemm", "winograd", "direct"):
        raise ValueError(f"candidate is of {candidate.loops}: it has no tile")
    mr, nr = int(blocks["mr"]), int(blocks["nr"])
    if candidate.loops == "winograd":
        return _near(nr, mr, int(blocks["ic_segment"]), e), candidate.scratch_bytes
    if candidate.loops == "gemm":
        k = int(blocks["k_block"])
        pixels = min(int(blocks["hw_segment"]), p.output_pixels * p.batch) * k
    else:
        k, g = p.matrix.k, p.geometry
        rows = (int(blocks["row_segment"]) - 1) * g.stride_h + g.kh
        pixels = min(rows, g.ih) * g.iw * ic
    weights = min(int(blocks["oc_segment"]), oc) * k
    of_weights, of_pixels = (mr, nr) if blocks.get("orientation") == "pixels" else (nr, mr)
    if blocks["innermost"] == "pixels":
        return _near(of_weights, of_pixels, k, e), pixels * e
    return _near(of_pixels, of_weights, k, e), weights * e


def _near(staying: int, passing: int, k: int, element: int) -> int:
    return (staying * k + passing * min(k, AHEAD) + staying * passing) * element


def footprints(core: Core, dtype: str = "f32") -> Iterator[Footprint]:
    """Plan each layer for one thread of the core, by estimate."""
    target = target_of(core)
    for layer, text in LAYERS.items():
        for layout in LAYOUTS:
            problem = ConvProblem.parse(text, dtype=dtype, layout=layout)
            asked = Request(problem, threads=1, target=target)
            best = asked.ranked()[0].candidate
            l1, l2 = sizes(best)
            tile = f"{best.blocks['mr']}x{best.blocks['nr']}"
            yield Footprint(layer, layout, best.algorithm, tile, l1, l2)
