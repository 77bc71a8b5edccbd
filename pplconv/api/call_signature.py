"""The signature of a prepared convolution's calls; a compiled class cannot give it itself."""

from __future__ import annotations


class CallSignature:
    """The signature that `inspect.signature` finds as ``__signature__`` of an instance.

    ``__call__`` of a compiled class is a slot, which knows only ``*args`` and ``**kwargs``.

    Parameters
    ----------
    *optional : str
        Arguments of a call besides ``input``; ``residual`` and ``out`` by default.
    """

    def __init__(self, *optional: str) -> None:
        self._optional = optional or ("residual", "out")

    def __get__(self, instance: object, owner: type) -> object:
        caller = next(base for base in owner.__mro__ if "__call__" in vars(base))
        # The class itself has the signature of its constructor; a subclass that overrides
        # ``__call__`` has its own.
        if instance is None or vars(caller).get("__signature__") is not self:
            raise AttributeError("__signature__")
        from inspect import Parameter, Signature  # on demand: few programs ask

        either = Parameter.POSITIONAL_OR_KEYWORD
        optional = [Parameter(name, either, default=None) for name in self._optional]
        return Signature([Parameter("input", either), *optional])
