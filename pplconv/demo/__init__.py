"""A page read by three pretrained networks in a NumPy pipeline: ``python -m pplconv demo``.

=============  ===================================================================================
module         what it does
=============  ===================================================================================
`model`        gets the PP-OCRv4 models (`published`), checks them
`picture`      reads the picture, makes the detector's input
`regions`      turns the detector's probability map into text regions
`lines`        cuts lines out of the picture, and makes the other networks' input
`decoding`     turns the other networks' probabilities into text
`engines`      runs the networks: `pplconv.InferenceSession`, and onnxruntime where it is installed
`reading`      the whole page, its stages timed
`comparison`   whether two engines read the same
`drawing`      draws boxes and text
`measure`      runs the detector in `onnx.reference`, with the evaluator's own ``Conv`` and with
               `pplconv.conv2d`, and times the convolutions alone
`demo_report`  tables: what was read, how long it took
=============  ===================================================================================

The packages that this needs come with the extra ``demo``; importing this package needs none of
them.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments after ``python -m pplconv demo``; none by default.

    Returns
    -------
    int
        Exit status: 0 if all went well, 1 if a step failed or the two outputs differ, 2 for bad
        arguments, 130 if interrupted.

    Raises
    ------
    ModuleNotFoundError
        If a package of the extra ``demo`` is missing.
    """
    from pplconv.demo import cli

    return cli.main(argv)
