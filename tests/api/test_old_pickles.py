"""Names that pickles of released versions ask for."""

from __future__ import annotations

import importlib
import pickle

import pytest

# What pickles of 0.1.0 and 0.2.0 name: of layers, plans and sessions, as `pickletools.dis` shows.
NAMED = [
    ("pplconv._conv", "_unpickle"),
    ("pplconv.api.layer", "rebuild"),
    ("pplconv.api.conv", "Conv2d"),
    ("pplconv.api.linear", "Linear"),
    ("pplconv.api.quantized_layer", "QConv2d"),
    ("pplconv.api.transposed_layer", "ConvTranspose2d"),
    ("pplconv.api.transposed_plan", "TransposedPlan"),
    ("pplconv.network.builder", "Settings"),
    ("pplconv.network.session", "_rebuild"),
    ("pplconv.network.travelling", "Sent"),
    ("pplconv.planner.plan", "Plan"),
]


@pytest.mark.parametrize(("module", "name"), NAMED)
def test_a_pickle_finds_its_names(module, name):
    found = pickle.loads(f"c{module}\n{name}\n.".encode())
    # Where it is defined today, pickles find it too.
    home = importlib.import_module(found.__module__)
    assert getattr(home, found.__name__) is found
