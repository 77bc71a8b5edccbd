"""The table of arguments beside signatures, docstrings, stubs, attributes and pickles."""

from __future__ import annotations

import inspect
import pickle
import re

import numpy as np
import pytest

import pplconv
from pplconv.arguments.signatures import ARGUMENTS, REQUIRED, SIGNATURES
from tools import stubs

LAYERS = [name for name, signature in SIGNATURES.items() if signature.kept]
# Written in Python, where annotations stand in the signature.
FUNCTIONS = [
    "conv1d", "conv_transpose1d", "conv3d", "Conv3d", "conv_transpose3d", "qconv2d", "QConv2d",
    "qmatmul", "conv2d_integer", "matmul_integer",
]  # fmt: skip
# Defaults that operators of their own have in another place, or in other words.
OWN_DEFAULTS = {
    **{(name, "layout"): "NCW" for name in ("conv1d", "conv_transpose1d")},
    **{(name, "layout"): "NCDHW" for name in ("conv3d", "Conv3d", "conv_transpose3d")},
}


@pytest.mark.parametrize("name", stubs.STUBS)
def test_stubs_are_made_of_the_table(name):
    """Else run ``python -m tools.stubs``."""
    assert (stubs.FOLDER / name).read_text(encoding="utf-8") == stubs.text(name)


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_are_those_of_the_table(name):
    signature = SIGNATURES[name]
    found = inspect.signature(getattr(pplconv, name)).parameters
    assert list(found) == list(signature.arguments)
    for argument, row in signature.arguments.items():
        empty = inspect.Parameter.empty
        assert found[argument].default == (empty if row.default is REQUIRED else row.default)
        by_name = found[argument].kind is inspect.Parameter.KEYWORD_ONLY
        assert by_name is (argument in signature.keywords.split())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_defaults_are_those_of_the_table(name):
    found = inspect.signature(getattr(pplconv, name)).parameters
    shared = found.keys() & ARGUMENTS.keys()
    assert len(shared) > 2
    for argument in shared:
        default = OWN_DEFAULTS.get((name, argument), ARGUMENTS[argument].default)
        assert found[argument].default in (default, inspect.Parameter.empty), argument


def described(name: str) -> dict[str, str]:
    """What a docstring says of each argument: its type and its text, in one line."""
    text = inspect.getdoc(getattr(pplconv, name))
    section = re.search(r"Parameters\n-+\n(.*?)\n\n(?=\w[\w ]*\n-+\n)", text, re.DOTALL)[1]
    found = {}
    for entry in re.split(r"\n(?=\S)", section):
        head, _, rest = entry.partition("\n")
        names, _, kind = head.partition(" : ")
        for argument in names.split(", "):
            found[argument] = " ".join(f"{kind}: {rest}".split())
    return found


@pytest.mark.parametrize("name", SIGNATURES)
def test_docstrings_have_the_arguments_and_texts_of_the_table(name):
    signature, said = SIGNATURES[name], described(name)
    assert said.keys() == signature.arguments.keys()
    for argument, row in signature.arguments.items():
        if row.text is not None:
            assert (said[argument] == row.text) is (argument not in signature.described), argument


def layer(name: str, rng: np.random.Generator, **given: object) -> object:
    """A layer with small weights."""
    shape = (4, 4) if name == "Linear" else (4, 4, 3, 3)
    weight = rng.standard_normal(shape).astype(np.float32)
    return getattr(pplconv, name)(weight, weight[0].ravel()[:4], **given)


@pytest.mark.parametrize("name", LAYERS)
def test_layers_show_and_pickle_the_arguments_of_the_table(name, rng):
    made = layer(name, rng, activation=("clip", -1, 2), threads=1, search_seconds=0.25)
    kept = SIGNATURES[name].kept.split()
    assert re.findall(r"(\w+)=", repr(made)) == kept[1:]
    again = pickle.loads(pickle.dumps(made))
    assert repr(again) == repr(made) and "clip" in repr(again) and "0.25" in repr(again)
    for argument in kept:
        one, other = (getattr(each, argument) for each in (made, again))
        assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other


@pytest.mark.parametrize("name", LAYERS)
def test_old_pickles_end_before_the_newest_arguments(name, rng):
    rebuild, (base, kind, *values), _ = layer(name, rng).__reduce__()
    assert base is kind is getattr(pplconv, name)
    shorter = rebuild(base, kind, *values[:-1])
    assert repr(shorter) == repr(rebuild(base, kind, *values))
