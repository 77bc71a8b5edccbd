"""Ceilings: the FMA peak on the instruction set that pplconv runs on, and levels of memory."""

from __future__ import annotations

import pytest

from benchmarks import ceilings, machine
from benchmarks.peak import PeakUnavailable, open_peak
from pplconv import _kernels

MIB = 1 << 20


def test_the_installed_loop():
    reader = open_peak(1)
    rate = reader.read(bursts=1)
    # No CPU that runs Python is slower than 0.01 or one core faster than 10 000 GFLOP/s.
    assert 1e7 < rate < 1e13
    assert reader.isa in ("portable", "avx2", "avx512")


def without_kernel(isa, dtype, iterations):
    raise LookupError(f"no fma_peak kernel for {dtype} on {isa}")


@pytest.mark.parametrize(
    ("loop", "message"),
    [(None, "has no fma_peak"), (without_kernel, "no fma_peak kernel for f32")],
    ids=["loop", "kernel"],
)
def test_what_is_missing_is_named(loop, message, monkeypatch):
    monkeypatch.setattr(_kernels, "fma_peak", loop)
    with pytest.raises(PeakUnavailable, match=message):
        open_peak(1)


def test_every_level_of_memory_is_measured(monkeypatch):
    monkeypatch.setattr(machine, "cache_bytes", lambda: {2: MIB, 3: 32 * MIB})
    monkeypatch.setattr(ceilings, "copy_rate", lambda size, threads: float(size * threads))
    assert ceilings.measure(2) == {"L2": MIB, "L3": 8.0 * MIB, "memory": 64.0 * MIB}
