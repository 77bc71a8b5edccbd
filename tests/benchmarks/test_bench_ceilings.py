"""The speed of memory: what is copied, and how it is read."""

from __future__ import annotations

import pytest

from benchmarks import ceilings, machine

MIB = 1 << 20


def test_working_sets_follow_the_caches():
    assert ceilings.working_sets(1, {1: 48 << 10, 2: 2 * MIB, 3: 64 * MIB}) == {
        "L2": MIB,
        "L3": 8 * MIB,
        "memory": 128 * MIB,
    }
    # A team shares the last cache and the memory, each has an L2 of its own.
    assert ceilings.working_sets(4, {2: 2 * MIB, 3: 64 * MIB}) == {
        "L2": MIB,
        "L3": 8 * MIB,
        "memory": 32 * MIB,
    }
    # No room for a level of its own between L2 and memory.
    assert "L3" not in ceilings.working_sets(1, {2: 2 * MIB, 3: 8 * MIB})
    assert set(ceilings.working_sets(1, {})) == {"L2", "memory"}
    # A huge last cache is the whole machine's.
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


def test_every_level_is_measured(monkeypatch):
    monkeypatch.setattr(machine, "cache_bytes", lambda: {2: MIB, 3: 32 * MIB})
    monkeypatch.setattr(ceilings, "copy_rate", lambda size, threads: float(size * threads))
    assert ceilings.measure(2) == {"L2": MIB, "L3": 8.0 * MIB, "memory": 64.0 * MIB}


def test_cache_sizes(tmp_path):
    sizes = [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2048K")]
    for number, content in enumerate([*sizes, ("3", "Unified", "?")]):
        index = tmp_path / f"index{number}"
        index.mkdir()
        for name, text in zip(("level", "type", "size"), content, strict=True):
            (index / name).write_text(text + "\n")
    (tmp_path / "index9").mkdir()
    assert machine.cache_bytes(tmp_path) == {1: 48 << 10, 2: 2 * MIB}
