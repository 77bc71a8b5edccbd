"""The speed of memory: what is copied, and how it is read."""

from __future__ import annotations

from benchmarks import ceilings, machine

MIB = 1 << 20


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
