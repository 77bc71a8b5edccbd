"""Helpers for tests of benchmarks: arguments, child processes, layers of known times."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pplconv
from benchmarks.candidates import OK
from benchmarks.engines.base import Engine
from benchmarks.problems import parse
from benchmarks.results import Entry, LayerResult
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
FAST = ["--rounds", "1", "--min-ms", "0.1"]
# Layers of MobileNetV1 that take next to no time.
TINY = ["--nets", "mobilenet", "--layers", "conv11|conv6/dw"]
# Small problems for engines; the groups of RAGGED fill no blocks of channels.
RAGGED = "mb1g4ic16ih10oc24kh3ph2dh1"
SMALL = [
    "mb1ic8ih8oc8kh3ph1",
    "mb1ic3ih21oc16kh7sh2ph3",
    "mb1ic32ih14oc48kh1sh2",
    "mb2ic16ih9iw11oc8kh3kw1ph1pw0dh1",
    RAGGED,
    "mb1ic64ih1oc5kh1",
]


def child(*command, **settings):
    """Run a command in the root of the sources; it must succeed, if `check` is not False."""
    settings = {"check": True, "timeout": PATIENCE, **settings}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, **settings)


def python(code, **settings):
    """Run some code in an interpreter of its own."""
    return child(sys.executable, "-c", code, **settings)


def without(monkeypatch, name):
    """Make pplconv one that lacks a public name; it would import the name again."""
    found = pplconv.__getattr__

    def lacking(asked):
        if asked == name:
            raise AttributeError(f"module 'pplconv' has no attribute {name!r}")
        return found(asked)

    monkeypatch.delattr(pplconv, name)
    monkeypatch.setattr(pplconv, "__getattr__", lacking)


def installed(engine):
    """Give the engine; skip the test where it is not installed."""
    found = engine.available()
    if not found.ok:
        pytest.skip(f"{engine.name} NOT RUN HERE: {found.reason}")
    return engine


class Named(Engine):
    """An engine that is only a name."""

    def __init__(self, name, ours=False):
        self.name, self.ours = name, ours

    def prepare(self, problem, x, w, threads):
        """Refuse: nothing is measured here."""
        raise AssertionError


def layer(text, seconds, peak=1e9, threads=1, cold=None, missing=None):
    """A layer with the best times of engines; an engine without a time has the entry `missing`."""
    entries = {
        name: Entry(OK, "", 1e-6, (2 * time, time), (cold[name],) if cold else ())
        if time
        else missing
        for name, time in seconds.items()
    }
    return LayerResult(parse(text), threads, peak, entries)
