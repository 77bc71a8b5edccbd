"""`GraphBuilder`: the nodes and constants that replace others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .onnx_later import ir

__all__ = ["GraphBuilder"]


class GraphBuilder:
    """Builds the nodes of a replacement: ``op.Relu(x)``."""

    def __init__(self) -> None:
        self._tape = ir.tape.Tape()

    def __getattr__(self, operator: str) -> Callable[..., Any]:
        return lambda *operands, **more: self.op(operator, *operands, **more)

    @property
    def nodes(self) -> Sequence[ir.Node]:
        """The new nodes."""
        return tuple(self._tape.nodes)

    @property
    def initializers(self) -> Sequence[ir.Value]:
        """The new constants."""
        return tuple(self._tape.initializers)

    def op(
        self, operator: str, /, *operands: ir.Value | None, _domain: str = "", _outputs: int = 1,
        **attributes: Any,
    ) -> Any:  # fmt: skip
        """Build a node.

        Parameters
        ----------
        operator : str
            Its operator.
        *operands : ir.Value or None
            Its operands.
        _domain : str
            Domain of the operator; by default ONNX's.
        _outputs : int
            How many results it has.
        **attributes : dict
            Numbers, text, lists of them, or ``ir.Attr``.

        Returns
        -------
        ir.Value or sequence of ir.Value
            The results.
        """
        values = self._tape.op_multi_out(
            operator, operands, attributes, num_outputs=_outputs, domain=_domain
        )
        return values[0] if _outputs == 1 else values

    def initializer(self, tensor: ir.TensorProtocol, name: str | None = None) -> ir.Value:
        """Give a new constant."""
        return self._tape.initializer(tensor, name)
