"""The reading of the FMA peak, with a loop that pretends to compute."""

from __future__ import annotations

import threading
import time

import pytest

from benchmarks.peak import Peak, PeakUnavailable, open_peak


def test_one_thread_gives_flops_over_seconds(fake_time):
    def loop(isa, dtype, iterations):
        assert (isa, dtype) == ("avx2", "f32")
        fake_time.pass_by(iterations * 1e-6)
        return 100 * iterations

    reader = Peak(loop, "avx2", threads=1, now=fake_time.clock.now)
    assert reader.read() == pytest.approx(100e6)
    assert reader.readings == [pytest.approx(100e6)]


def test_the_best_burst_counts_and_drift_is_kept(fake_time):
    slow = iter([1.0] * 3 + [2.0, 1.0, 3.0] + [4.0] * 3)

    def loop(isa, dtype, iterations):
        # The search for the number of iterations is not a reading: it runs at full speed.
        factor = 1.0 if iterations < 4000 else next(slow)
        fake_time.pass_by(iterations * 1e-6 * factor)
        return iterations

    reader = Peak(loop, "avx2", threads=1, now=fake_time.clock.now)
    next(slow), next(slow)
    assert reader.read(bursts=3) == pytest.approx(1e6)
    assert reader.read(bursts=3) == pytest.approx(1e6 / 4)
    assert len(reader.readings) == 2


def test_a_team_runs_at_once_and_adds_up():
    together = threading.Barrier(3, timeout=10)

    def loop(isa, dtype, iterations):
        if threading.current_thread() is not threading.main_thread():
            together.wait()
        time.sleep(0.004)
        return 1000

    rate = Peak(loop, "avx2", threads=3).read(bursts=1)
    # 3 threads, 3 calls of 1000 flop each, in some 12 ms; a slow machine can only lower it.
    assert 0 < rate <= 9000 / 0.012


def test_a_thread_that_fails_is_no_reading(monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda _: None)

    def loop(isa, dtype, iterations):
        if threading.current_thread() is not threading.main_thread():
            raise ValueError
        time.sleep(0.004)
        return 1

    with pytest.raises(PeakUnavailable, match="failed"):
        Peak(loop, "avx2", threads=2).read()


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
