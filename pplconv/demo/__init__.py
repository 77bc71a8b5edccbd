"""Text detection with a pretrained network in a NumPy pipeline: ``python -m pplconv demo``.

A picture goes through five steps, of which only one is pplconv's:

=============  ===================================================================================
module         what it does
=============  ===================================================================================
`model`        gets the PP-OCRv4 text detector, checks it, brings it to opset 17
`picture`      reads the picture, makes the network's input, draws the result
`measure`      runs the network in `onnx.reference`, with the evaluator's own ``Conv`` and with
               `pplconv.conv2d`, and times the convolutions alone
`regions`      turns the network's probability map into text regions
`report`       says what ran, how long it took and how far the two outputs are apart
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
