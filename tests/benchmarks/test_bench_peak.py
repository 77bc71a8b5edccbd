"""Ceilings: the FMA peak on the instruction set that pplconv runs on, and levels of memory."""

from __future__ import annotations

import pytest

from benchmarks import ceilings, machine
from benchmarks.peak import PeakUnavailable, open_peak

MIB = 1 << 20


def test_the_installed_loop():
    reader = open_peak(1)
    rate = reader.read(bursts=1)
    # No CPU that runs Python is slower than 0.01 or one core faster than 10 000 GFLOP/s.
    assert 1e7 < rate < 1e13
    assert reader.isa in ("portable", "avx2", "avx512")


def test_a_missing_loop_is_named(monkeypatch):
    import pplconv._kernels

    monkeypatch.delattr(pplconv._kernels, "fma_peak")
    with pytest.raises(PeakUnavailable, match="has no fma_peak"):
        open_peak(1)


def test_a_missing_kernel_is_named(monkeypatch):
    import pplconv._kernels

    def loop(isa, dtype, iterations):
        raise LookupError(f"no fma_peak kernel for {dtype} on {isa}")

    monkeypatch.setattr(pplconv._kernels, "fma_peak", loop)
    with pytest.raises(PeakUnavailable, match="no fma_peak kernel for f32"):
        open_peak(1)


def test_every_level_of_memory_is_measured(monkeypatch):
    monkeypatch.setattr(machine, "cache_bytes", lambda: {2: MIB, 3: 32 * MIB})
    monkeypatch.setattr(ceilings, "copy_rate", lambda size, threads: float(size * threads))
    assert ceilings.measure(2) == {"L2": MIB, "L3": 8.0 * MIB, "memory": 64.0 * MIB}
