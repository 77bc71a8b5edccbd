"""The roofs: rates of a pretended FMA loop, and of copies."""

from __future__ import annotations

import threading
import time

import pytest

from pplconv import _kernels
from pplconv.machine import Machine, ceilings
from pplconv.machine.ceilings import Ceilings, Peak, PeakUnavailable, measure
from tests.patience import PATIENCE

MIB = 1 << 20


class Clock:
    """A clock that only moves when told to."""

    def __init__(self):
        self.seconds = 0.0

    def now(self):
        return self.seconds

    def pass_by(self, seconds):
        self.seconds += seconds


@pytest.fixture
def clock():
    return Clock()


def test_one_thread_gives_flops_over_seconds(clock):
    def loop(isa, dtype, iterations):
        assert (isa, dtype) == ("avx2", "f32")
        clock.pass_by(iterations * 1e-6)
        return 100 * iterations

    reader = Peak(loop, "avx2", threads=1, now=clock.now)
    assert reader.read() == pytest.approx(100e6)
    assert reader.readings == [pytest.approx(100e6)]


def test_the_best_burst_counts_and_drift_is_kept(clock):
    slow = iter([1.0] * 3 + [2.0, 1.0, 3.0] + [4.0] * 3)

    def loop(isa, dtype, iterations):
        # The search for the number of iterations is not a reading: it runs at full speed.
        factor = 1.0 if iterations < 4000 else next(slow)
        clock.pass_by(iterations * 1e-6 * factor)
        return iterations

    reader = Peak(loop, "avx2", threads=1, now=clock.now)
    next(slow), next(slow)
    assert reader.read(bursts=3) == pytest.approx(1e6)
    assert reader.read(bursts=3) == pytest.approx(1e6 / 4)
    assert len(reader.readings) == 2


def test_a_team_runs_at_once_and_adds_up():
    together = threading.Barrier(3, timeout=PATIENCE)

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


def test_working_sets_follow_the_caches():
    assert ceilings.working_sets(1, {1: 48 << 10, 2: 2 * MIB, 3: 64 * MIB}) == {
        "L2": MIB,
        "L3": 8 * MIB,
        "memory": 128 * MIB,
    }
    # Threads of a team share the last cache and the memory; each has an L2 of its own.
    assert ceilings.working_sets(4, {2: 2 * MIB, 3: 64 * MIB}) == {
        "L2": MIB,
        "L3": 8 * MIB,
        "memory": 32 * MIB,
    }
    # No room for a level of its own between L2 and memory.
    assert "L3" not in ceilings.working_sets(1, {2: 2 * MIB, 3: 8 * MIB})
    assert set(ceilings.working_sets(1, {})) == {"L2", "memory"}
    # A huge last cache is the whole machine's, so the working set is bounded.
    assert ceilings.working_sets(1, {2: 2 * MIB, 3: 4096 * MIB})["memory"] == 512 * MIB


@pytest.mark.parametrize("threads", [1, 2])
def test_a_rate_is_bytes_read_and_written_over_the_best_burst(threads, monkeypatch):
    bursts = iter([0.001, 0.002, 0.008, 0.004, 0.002, 0.005, 0.004, 0.006])
    repeats = []

    def burst(pairs, number, now):
        assert len(pairs) == threads
        assert all(len(array) == 1000 for pair in pairs for array in pair)
        repeats.append(number)
        return next(bursts)

    monkeypatch.setattr(ceilings, "_burst", burst)
    # Three tries until a burst is long enough; then five more of 4 copies each.
    rate = ceilings.copy_rate(8000, threads)
    assert repeats == [1, 2, 4, 4, 4, 4, 4, 4]
    assert rate == pytest.approx(2 * 4000 * threads * 4 / 0.002)


def test_copies_are_really_made():
    rate = ceilings.copy_rate(1 << 16, 2)
    # No memory is slower than 10 MB/s or faster than 100 TB/s.
    assert 1e7 < rate < 1e14


def test_the_roofs_are_measured_for_the_team_and_its_caches(monkeypatch):
    asked = {}
    monkeypatch.setattr(_kernels, "fma_peak", lambda isa, dtype, n: time.sleep(n * 3e-6) or n)
    monkeypatch.setattr(ceilings, "copy_rate", lambda size, threads: asked.setdefault(size, 5e9))
    machine = Machine(l2_bytes=2 * MIB, l3_bytes=64 * MIB, isas=("portable",))
    found = measure("portable", 1, machine, largest=256 * MIB)
    assert isinstance(found, Ceilings) and found.threads == 1 and found.isa == "portable"
    assert 0 < found.flops <= 1 / 3e-6
    assert list(asked) == [MIB, 8 * MIB, 128 * MIB]
    assert found.bandwidths == dict.fromkeys(("L2", "L3", "memory"), 5e9)


def test_a_missing_loop_is_named():
    with pytest.raises(LookupError, match="vax"):
        measure("vax", 1, Machine())
