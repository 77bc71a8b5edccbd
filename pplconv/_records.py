"""`record` and `NamedTuple`: those of the standard library, compiled when they are first used.

`dataclasses.dataclass` compiles up to six functions for each class, which takes 0.4 ms;
`typing.NamedTuple` compiles one, and each annotation, in 0.2 ms. A process that opens a network
imports some two hundred such classes, and makes objects of half of them. Here only the function
that makes an object is compiled, for the first object; the other methods are shared.
"""

from __future__ import annotations

from _collections import _tuplegetter  # type: ignore[import-not-found]
from collections.abc import Callable, Iterable
from dataclasses import MISSING, FrozenInstanceError, dataclass, fields
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["NamedTuple", "record"]


def _record(
    kind: type | None = None, /, *, frozen: bool = False, eq: bool = True, kw_only: bool = False
) -> Any:
    """Make a class a dataclass.

    Parameters
    ----------
    kind : type
        The class, with annotated fields. Its bases with fields are such classes, too.
    frozen, eq, kw_only : bool, optional
        As of `dataclasses.dataclass`.
    """

    def made(kind: type) -> type:
        dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(kind)
        methods: list[Callable[..., Any]] = [_first_init(kind, frozen), _repr_of(kind)]
        listed = fields(kind)
        if eq:
            compared = _getter([field.name for field in listed if field.compare])
            methods.append(_eq_of(compared))
            hashed = [
                field.name for field in listed
                if (field.compare if field.hash is None else field.hash)
            ]  # fmt: skip
            if "__hash__" not in vars(kind):
                kind.__hash__ = _hash_of(_getter(hashed)) if frozen else None  # type: ignore[assignment]
        if frozen:
            methods += _refusals(kind, frozenset(field.name for field in listed))
        for method in methods:
            if method.__name__ not in vars(kind):
                method.__qualname__ = f"{kind.__qualname__}.{method.__name__}"
                setattr(kind, method.__name__, method)
        return kind

    return made if kind is None else made(kind)


def _getter(names: list[str]) -> Callable[[Any], Any]:
    return attrgetter(*names) if names else lambda _: ()


def _first_init(kind: type, frozen: bool) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        # Another thread may do the same: then both functions are equal.
        init = _init_of(kind, frozen)
        kind.__init__ = init  # type: ignore[misc]
        init(self, *args, **kwargs)

    return __init__


def _init_of(kind: type, frozen: bool) -> Callable[..., None]:
    """Compile ``__init__``."""
    known: dict[str, Any] = {"_unset": MISSING, "_of": vars}
    usual, named, values = ["self"], list[str](), dict[str, str]()
    for field in fields(kind):
        name, value = field.name, field.name
        known[f"_default_{name}"] = field.default
        if field.default_factory is not MISSING:
            known[f"_make_{name}"] = field.default_factory
            value = f"_make_{name}()"
            if field.init:
                value += f" if {name} is _unset else {name}"
        elif not field.init:
            # It is set later; a default is an attribute of the class.
            continue
        values[name] = value
        if field.init:
            has_default = (field.default, field.default_factory) != (MISSING, MISSING)
            default = f"=_default_{name}" if has_default else ""
            (named if field.kw_only else usual).append(name + default)
    body = [f"self.{name} = {value}" for name, value in values.items()]
    if frozen and values:
        # One call: Python compiles it in half the time of a call for each field, and runs it so.
        given = ", ".join(f"{name}={value}" for name, value in values.items())
        body = [f"_of(self).update({given})"]
    if hasattr(kind, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join([*usual, "*", *named] if named else usual)
    text = f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"])
    made: dict[str, Callable[..., None]] = {}
    exec(text, known, made)
    (found,) = made.values()
    found.__qualname__ = f"{kind.__qualname__}.{found.__name__}"
    return found


def _repr_of(kind: type) -> Callable[..., str]:
    shown = [field.name for field in fields(kind) if field.repr]

    @recursive_repr()
    def __repr__(self: Any) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__qualname__}({values})"

    return __repr__


def _eq_of(compared: Callable[[Any], Any]) -> Callable[..., Any]:
    def __eq__(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return compared(self) == compared(other)

    return __eq__


def _hash_of(hashed: Callable[[Any], Any]) -> Callable[..., int]:
    def __hash__(self: Any) -> int:
        return hash(hashed(self))

    return __hash__


def _refusals(kind: type, names: frozenset[str]) -> list[Callable[..., None]]:
    """Make the methods of a class whose objects stay as they are."""

    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is kind or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is kind or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)

    return [__setattr__, __delattr__]


class _Tuples(type):
    """Makes the classes of named tuples."""

    def __new__(cls, name: str, bases: tuple[type, ...], own: dict[str, Any]) -> Any:
        """Make a class that a ``class`` statement describes; with no bases, `_Tuple` itself."""
        if not bases:
            return super().__new__(cls, name, bases, own)
        names = tuple(own.get("__annotations__", {}))
        defaults = {each: own[each] for each in names if each in own}

        def __new__(cls: type, *args: Any, **kwargs: Any) -> Any:
            found = eval(f"lambda cls, {', '.join(names)}: new(cls, ({', '.join(names)},))", known)
            found.__name__, found.__qualname__ = "__new__", f"{made.__qualname__}.__new__"
            found.__defaults__ = tuple(defaults.values())
            made.__new__ = staticmethod(found)  # type: ignore[method-assign]
            return found(cls, *args, **kwargs)

        known = {"new": tuple.__new__}
        fields = {each: _tuplegetter(number, "") for number, each in enumerate(names)}
        constants = {
            "__slots__": (), "__match_args__": names, "_fields": names, "_field_defaults": defaults,
            "__new__": __new__,
        }  # fmt: skip
        made = type(name, (tuple,), {**_METHODS, **own, **fields, **constants})
        return made


class _Tuple(metaclass=_Tuples):
    """`typing.NamedTuple`, whose ``__new__`` is compiled when the first tuple is made."""


def _made_of(cls: type, values: Iterable[Any]) -> Any:
    """Make a tuple of its items."""
    return tuple.__new__(cls, values)


def _replace(self: Any, /, **values: Any) -> Any:
    """Make a tuple with some items replaced."""
    made = self._make(map(values.pop, self._fields, self))
    if values:
        raise ValueError(f"Got unexpected field names: {list(values)!r}")
    return made


def _asdict(self: Any) -> dict[str, Any]:
    """Give the items by their names."""
    return dict(zip(self._fields, self, strict=True))


def _arguments(self: Any) -> tuple[Any, ...]:
    """Give the items: pickles and copies make the tuple again with them."""
    return tuple(self)


def _shown(self: Any) -> str:
    items = ", ".join(f"{name}={item!r}" for name, item in _asdict(self).items())
    return f"{type(self).__name__}({items})"


_METHODS: dict[str, Any] = {
    "_make": classmethod(_made_of), "_replace": _replace, "__replace__": _replace,
    "_asdict": _asdict, "__getnewargs__": _arguments, "__repr__": _shown,
}  # fmt: skip

if TYPE_CHECKING:
    from dataclasses import dataclass as record
    from typing import NamedTuple
else:
    record = _record
    NamedTuple = _Tuple
