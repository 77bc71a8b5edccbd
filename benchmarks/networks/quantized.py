"""Measure PP-OCR's detector in int8: ``python -m benchmarks.networks.quantized --help``.

pplconv quantizes it; scales are found on the demo's page, at other sizes than the one that is
measured. Each engine runs the quantized file, and pplconv the float32 network as well, in processes
of their own, in turn. All must find the boxes that onnxruntime finds with the float32 network.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import options
from benchmarks.networks import models, run
from benchmarks.networks.boxes import LEAST_OVERLAP, same_boxes
from benchmarks.networks.cases import Bench, Case
from benchmarks.networks.engines import (
    INT8,
    Engine,
    OnnxRuntime,
    OpenVino,
    Plain,
    PlainReference,
    Pplconv,
)
from benchmarks.networks.process import choose_cpus
from benchmarks.networks.tables import remarks, tables
from benchmarks.timing import Settings
from benchmarks.tool import Run, command, new_parser
from examples.models.ppocr import DETECTOR
from examples.models.progress import Progress as Steps
from examples.models.published import ModelError, digest

if TYPE_CHECKING:
    from benchmarks.networks.models import Array32

# Short sides of the pages on which scales are found; the default of ``--side`` is none of them.
_CALIBRATION = (448, 544, 736)


ENGINES: tuple[type[Engine], ...] = (Pplconv, Plain, OnnxRuntime, OpenVino)
REFERENCE: type[Engine] = PlainReference


@dataclass(frozen=True)
class Page(models.Network):
    """The detector on the demo's page.

    Attributes
    ----------
    side : int
        Length that the page's short side is scaled to.
    """

    side: int = 640

    def feed(self, batch: int) -> dict[str, Array32]:
        """Give the page, the same in all places of a batch."""
        (name,) = self.inputs
        return {name: np.repeat(page_of(self.side), batch, axis=0)}


def page_of(side: int) -> Array32:
    """Give the demo's page as the detector reads it."""
    from examples.demo.picture import load, network_input

    page: Array32 = network_input(load(None), side)
    return page


def quantized(path: Path, shapes: dict[str, tuple[int, ...]], folder: Path) -> Path:
    """Write the network and its quantized form, for one shape, into a folder; give the latter."""
    import onnx

    import pplconv

    plain = folder / path.name
    onnx.save(onnx.load(str(models.fixed(path, shapes, folder))), str(plain))
    target = folder / f"{path.stem}{INT8}{path.suffix}"
    samples = [page_of(side) for side in _CALIBRATION]
    onnx.save(pplconv.quant.quantize_model(path, samples), str(target))
    fixed = models.fixed(target, shapes, folder)
    assert fixed == target or fixed.parent == folder
    return fixed


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.networks.quantized", __doc__)
    options.add_threads(parser)
    parser.add_argument("--side", type=options.positive, default=640, help="of the page (640)")
    options.add_timing(parser, rounds=10, min_seconds=0.2)
    options.add_cache(parser)
    options.add_output(parser)
    return parser


@command(_parser)
def main(this: Run) -> int:
    """Measure, and give the exit status: 1 if boxes of pplconv were others."""
    parser, chosen = this.parser, this.chosen
    with this.refusing():
        cpus = {threads: choose_cpus(threads) for threads in chosen.threads}
    present, absent = run.usable(ENGINES)
    run.want(REFERENCE, parser)
    network = Page(DETECTOR, {"x": page_of(chosen.side).shape}, side=chosen.side)
    steps = Steps(sys.stderr)
    settings = Settings(chosen.rounds, chosen.min_ms, settle_seconds=options.SETTLE_SECONDS)
    with tempfile.TemporaryDirectory(prefix="int8-") as folder:
        try:
            (path,) = models.obtain([network], run.cache_folder(chosen.cache), steps)
            steps.step("quantizing")
            path = quantized(path, network.shapes(1), Path(folder))
            steps.close()
        except (ModelError, OSError) as error:
            print(f"{parser.prog}: {error}", file=sys.stderr)
            return 1
        name = f"ppocr_det_{chosen.side}, int8"
        cases = [(Case(name, network, digest(path), 1, n), path) for n in chosen.threads]
        bench = Bench(present, REFERENCE, settings, same_boxes)
        done = run.measure(this, bench, cases, cpus)
    head = this.head(
        f"as of benchmarks.networks.run, {settings.rounds} rounds; as many boxes as "
        f"{REFERENCE.distribution} finds in float32, each overlapping by {LEAST_OVERLAP:g}",
        notes=remarks(done),
        more=run.described(ENGINES, absent),
    )
    ours = [engine.name for engine in present if engine.ours]
    made = tables(done, [engine.name for engine in present], ours)
    status = this.publish(head, made, run.plain(head, done, ENGINES, absent))
    return status or int(
        any(
            case.entries[one].status != "ok" for case in done for one in ours if one in case.entries
        )
    )


if __name__ == "__main__":
    sys.exit(main())
