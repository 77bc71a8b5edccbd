"""Own dataclasses and named tuples do what those of the standard library do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import typing

import pytest

from pplconv import _records
from tests import children


def _made(record, base):
    """Give classes of both kinds, as a module makes them."""

    @record(frozen=True)
    class Frozen:
        a: int
        b: tuple = ()
        c: str = dataclasses.field(default="c", compare=False)
        d: dict = dataclasses.field(default_factory=dict, hash=False, repr=False)

        def __post_init__(self):
            object.__setattr__(self, "b", (*self.b, self.a))

    @record(frozen=True)
    class Derived(Frozen):
        e: float = 2.0

    @record
    class Plain:
        a: int
        b: list = dataclasses.field(default_factory=list)
        c: int = dataclasses.field(init=False, default=3)

    @record(eq=False)
    class Same:
        a: int = 1

    @record(kw_only=True)
    class Named:
        a: int
        b: int = 2

    class Pair(base):
        a: int
        b: str = "b"

        @property
        def both(self):
            return f"{self.a}{self.b}"

    return Frozen, Derived, Plain, Same, Named, Pair


OWN = _made(_records.record, _records.NamedTuple)
STANDARD = _made(dataclasses.dataclass, typing.NamedTuple)
NAMES = [kind.__name__ for kind in OWN]


def _outcome(function):
    """Give what a call returns as a text, or the kind of its error."""
    try:
        return repr(function())
    except (TypeError, AttributeError, ValueError) as error:
        return type(error).__name__


CALLS = [
    lambda kind: kind(),
    lambda kind: kind(1),
    lambda kind: kind(a=1),
    lambda kind: kind(1, 2),
    lambda kind: kind(1, 2, 3, 4, 5, 6),
    lambda kind: kind(a=1, z=2),
    lambda kind: kind(a=1) == kind(a=1),
    lambda kind: kind(a=1) == kind(a=2),
    lambda kind: kind(a=1) == 1,
    lambda kind: hash(kind(a=1)) == hash(kind(a=1)),
    lambda kind: setattr(kind(a=1), "a", 2),
    lambda kind: setattr(kind(a=1), "z", 2),
    lambda kind: delattr(kind(a=1), "a"),
    lambda kind: dataclasses.replace(kind(a=1), a=5),
    lambda kind: [each.name for each in dataclasses.fields(kind)],
    lambda kind: dataclasses.asdict(kind(a=1)),
    lambda kind: copy.deepcopy(kind(a=1)),
    lambda kind: kind.__match_args__,
    lambda kind: kind(a=1)._replace(a=3),
    lambda kind: kind(a=1)._replace(z=3),
    lambda kind: kind(a=1)._asdict(),
    lambda kind: kind._make((1, 2)),
    lambda kind: (kind._fields, kind._field_defaults),
    lambda kind: (kind(a=1).both, tuple(kind(a=1)), kind(a=1)[0], len(kind(a=1))),
]


@pytest.mark.parametrize(("own", "standard"), [*zip(OWN, STANDARD, strict=True)], ids=NAMES)
def test_they_are_alike(own, standard):
    for number, call in enumerate(CALLS):
        assert _outcome(lambda: call(own)) == _outcome(lambda: call(standard)), number  # noqa: B023


def test_each_object_has_a_default_of_its_own():
    plain = OWN[2]
    assert plain(1).b is not plain(1).b


def test_objects_are_pickled():
    from pplconv.machine import current
    from pplconv.sparsity import Sparsity

    for given in (current(), Sparsity(8, 0.5)):
        assert pickle.loads(pickle.dumps(given)) == given


def test_imports_that_stay_leave_the_collector_as_it_was():
    """Modules become old; garbage that a caller had before is still found."""
    done = children.python("-P", "-c", """
import gc, weakref
from pplconv._lazy import imports_that_stay
class Thing: pass
thing = Thing(); thing.self = thing
seen = weakref.ref(thing); del thing
with imports_that_stay():
    assert not gc.isenabled()
    with imports_that_stay():
        import fractions
    assert not gc.isenabled()
assert gc.isenabled() and gc.get_freeze_count() == 0 and seen() is not None
gc.collect()
assert seen() is None
gc.disable()
with imports_that_stay():
    pass
assert not gc.isenabled()
gc.enable(); gc.freeze(); frozen = gc.get_freeze_count()
with imports_that_stay():
    pass
assert gc.isenabled() and gc.get_freeze_count() == frozen > 0
""", env=children.environment())  # fmt: skip
    assert done.returncode == 0, done.stderr
