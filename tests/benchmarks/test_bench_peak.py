"""The reading of the FMA peak on the instruction set that pplconv runs on."""

from __future__ import annotations

import pytest

from benchmarks.peak import PeakUnavailable, open_peak


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
