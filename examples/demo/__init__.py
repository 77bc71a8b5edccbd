"""A page read by three pretrained networks in a NumPy pipeline: ``python examples/demo``.

============  ====================================================================================
module        what it does
============  ====================================================================================
`cli`         arguments, and the two parts in turn
`picture`     reads the picture, makes the detector's input
`regions`     turns the detector's probability map into text regions
`lines`       cuts lines out of the picture, and makes the other networks' input
`decoding`    turns the other networks' probabilities into text
`engines`     runs the networks: `pplconv.InferenceSession`, and onnxruntime where it is installed
`reading`     reads the whole page and times its stages
`comparison`  compares what two engines read
`drawing`     draws boxes and text
`measure`     runs the detector in `onnx.reference`, with the evaluator's own ``Conv`` and with
              `pplconv.conv2d`, and times the convolutions alone
`report`      tables: what was read, how long it took
`errors`      the one exception of the demo
============  ====================================================================================

The models come from `examples.models`. The extra ``demo`` installs the packages that this needs;
importing this package needs none of them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments after ``python examples/demo``; none by default.

    Returns
    -------
    int
        Exit status: 0 if all went well, 1 if a step failed or the two outputs differ, 2 for bad
        arguments or a missing package, 130 if interrupted.
    """
    try:
        from examples.demo import cli

        return cli.main(argv)
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", "examples", "pplconv"):
            raise  # a broken installation; no extra mends that
        print(
            f"demo: the module {missing!r} is missing; what it needs is installed by\n"
            "    pip install pplconv[demo]",
            file=sys.stderr,
        )
        return 2
