"""`lazy`: attributes computed at their first use; `on_demand`: names imported then.

`functions_later`: functions imported when they are called. `imports_that_stay`: imports without
collections of garbage.
"""

from __future__ import annotations

import gc
import os
import sys
from _thread import RLock
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    from types import FrameType, ModuleType

_Value = TypeVar("_Value")

# One import on demand at a time. If one thread imports a package, and another thread a module that
# the package imports, importlib may take this for a deadlock, and raise an error. The order is this
# lock, then importlib's locks of modules: a thread that holds a module's lock does not wait here.
_importing = RLock()
_seen_frozen = False

if hasattr(os, "register_at_fork"):
    # A child that was forked in between would find the lock closed, and modules half made.
    os.register_at_fork(
        before=_importing.acquire,
        after_in_parent=_importing.release,
        after_in_child=_importing.release,
    )


def _holds_a_module(root: str) -> bool:
    """Whether this thread imports a module of a package, and so holds importlib's lock of it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "_find_and_load":
            name = str(frame.f_locals.get("name", ""))
            if name == root or name.startswith(f"{root}."):
                return True
        frame = frame.f_back
    return False


def _frozen_by_others() -> bool:
    """Whether there have ever been frozen objects: to count them takes milliseconds if many are."""
    global _seen_frozen
    _seen_frozen = _seen_frozen or gc.get_freeze_count() > 0
    return _seen_frozen


class imports_that_stay:
    """A context that imports modules: the collector does not visit what they make.

    It would visit the functions and classes of some hundred modules again and again. They become
    old at once, as after many collections. A collector that was off stays off. One thread at a time
    is inside, so that no child is forked meanwhile.

    Parameters
    ----------
    root : str
        The package that is imported.
    """

    def __init__(self, root: str = "pplconv") -> None:
        self._root = root

    def __enter__(self) -> None:
        self._waits = not _holds_a_module(self._root)
        if self._waits:
            _importing.acquire()
        self._collects = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._collects:
            # Takes no time: lists are joined. Objects that others have frozen would thaw.
            if not _frozen_by_others():
                gc.freeze()
                gc.unfreeze()
            gc.enable()
        if self._waits:
            _importing.release()


class lazy(Generic[_Value]):
    """`functools.cached_property` without the lock that it has before Python 3.12.

    All instances of a class share that lock; a child forked while another thread plans would find
    it closed for good. Without it two threads may compute a value twice, but it is the same value.

    Parameters
    ----------
    function : callable
        Gives the value for an instance.
    """

    def __init__(self, function: Callable[[Any], _Value]) -> None:
        self.function = function
        self.name = function.__name__
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[_Value]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> _Value: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        """Compute the value, and store it in the instance, where later look-ups find it first."""
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.function(instance)
        return value


def on_demand(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Make a package's ``__getattr__``, which imports names when they are first asked for.

    It puts them into the package, where later look-ups find them without a call.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    names : mapping of str to str
        For each module, relative to the package, the names that it has: ``{"plan": "Plan where"}``;
        ``".algorithms"`` lies beside the package. Those of ``""`` are modules themselves.
    """
    homes = {name: home for home, found in names.items() for name in found.split()}

    def __getattr__(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        place = f".{home or name}"
        with imports_that_stay(package.partition(".")[0]):
            module = import_module(place, package)
        value = getattr(module, name) if home else module
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__


class functions_later:
    """A module whose functions can be named at once, and which is imported when one is called.

    For tables that name functions of many modules, where a program calls few of them. Its
    attributes are functions that call the module's functions of the same names.

    Parameters
    ----------
    package : str
        The ``__package__`` of the module that names them.
    name : str
        The module's, relative to the package; ``".algorithms"`` lies beside the package.
    """

    def __init__(self, package: str, name: str) -> None:
        self._package, self._name = package, name
        self._module: ModuleType | None = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def function(*given: Any, **named: Any) -> Any:
            return getattr(self._module or self._imported(), name)(*given, **named)

        function.__name__ = function.__qualname__ = name
        return function

    def _imported(self) -> ModuleType:
        place = f".{self._name}"
        with imports_that_stay(self._package.partition(".")[0]):
            self._module = import_module(place, self._package)
        return self._module
