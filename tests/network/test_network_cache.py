"""The cache of compiled networks: the same values, fewer imports, and no trace of damage."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

import pplconv
from pplconv import InferenceSession
from pplconv.network.kept import cache_folder as cache
from pplconv.network.network import Network
from tests import children
from tests.network.graphs import Graph
from tests.network.running import agree, referred
from tests.network.small_models import classifier, detector


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("PPLCONV_CACHE", str(folder))
    yield folder
    cache.finish_writing()


def written(tmp_path, small):
    """Write a model."""
    path = tmp_path / "model.onnx"
    path.write_bytes(small.model.SerializeToString())
    return path


def run(path, feed, **how):
    """Open and run a model; say whether its ONNX was read."""
    session = InferenceSession(path, **how)
    outputs = session.run(None, feed)
    cache.finish_writing()
    return outputs, session._network._network is not None


def files(home):
    """All files of a cache."""
    return sorted(path for path in home.rglob("*") if path.is_file())


def test_the_second_session_reads_no_onnx(home, tmp_path):
    small = detector()
    path, expected = written(tmp_path, small), referred(small.model, small.feed)
    for source in (path, str(path), path.read_bytes()):
        outputs, was_read = run(source, small.feed)
        agree(outputs, expected)
        assert was_read == (source is path)
    # Other shapes and other settings have programs of their own.
    ((name, x),) = small.feed.items()
    other = {name: np.resize(x, (1, 3, 6, 12))}
    for expects in (True, False):
        outputs, was_read = run(path, other)
        agree(outputs, referred(small.model, other))
        assert was_read == expects
    for how in ({"tolerance": 0.0}, {"threads": 1}, {"sparse": False}, {"fallback": "error"}):
        assert [run(path, small.feed, **how)[1] for _ in range(2)] == [True, False], how
    assert pplconv.cache.describe()["programs"] == 6
    pplconv.cache.clear()
    assert not home.exists() and pplconv.cache.describe()["programs"] == 0


def test_a_process_that_has_no_onnx_to_read(home, tmp_path):
    small = classifier()
    path = written(tmp_path, small)
    expected, _ = run(path, small.feed)
    np.savez(tmp_path / "feed.npz", **small.feed)
    done = children.python("-P", "-c", f"""
import sys
for name in ("onnx", "onnx_ir", "onnxscript", "sympy"):
    sys.modules[name] = None
import numpy as np, pplconv
session = pplconv.InferenceSession({str(path)!r})
np.save({str(tmp_path / "y.npy")!r}, session.run(None, np.load({str(tmp_path / "feed.npz")!r}))[0])
print(*sys.modules)
""", env=children.environment())  # fmt: skip
    assert done.returncode == 0, done.stderr
    own = [name for name in done.stdout.split() if name.startswith("pplconv.")]
    assert len(own) <= 110, own
    assert not {*own} & {
        "pplconv.algorithms", "pplconv.api", "pplconv.network.compiling", "pplconv.network.network",
        "pplconv.planner.planning",
    }  # fmt: skip
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected[0])


def test_a_changed_model_is_another(home, tmp_path):
    """Also one in the place of the file of a session that has yet to read it."""
    g = Graph(1)
    x = g.input(1, 2, 4, 4, free=True)
    first = g.model(g.Relu(x))
    path = tmp_path / "model.onnx"
    path.write_bytes(first.SerializeToString())
    run(path, g.feed)
    late = InferenceSession(path)
    other = Graph(1)
    second = other.model(other.Neg(other.input(1, 2, 4, 4, free=True)))
    replaced = tmp_path / "new.onnx"
    replaced.write_bytes(second.SerializeToString())
    os.replace(replaced, path)
    ((name, value),) = g.feed.items()
    agree(run(path, {name: value})[0], [-value])
    grown = np.resize(value, (1, 2, 3, 5))
    agree(late.run(None, {name: grown}), [np.maximum(grown, 0)])


def test_damage_is_mended(home, tmp_path):
    small = classifier()
    path, expected = written(tmp_path, small), referred(small.model, small.feed)
    run(path, small.feed)
    for damaged in files(home):
        whole = damaged.read_bytes()
        for content in (b"", whole[: len(whole) // 2], whole[:-1] + b"\0", b"x" * len(whole)):
            damaged.write_bytes(content)
            outputs, was_read = run(path, small.feed)
            agree(outputs, expected)
            assert was_read
            assert not run(path, small.feed)[1], damaged


def test_files_are_the_users_alone(home, tmp_path):
    small = classifier()
    run(written(tmp_path, small), small.feed)
    assert files(home)
    for path in files(home):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_least_recently_used_files_make_room(home, tmp_path, monkeypatch):
    small = detector()
    path = written(tmp_path, small)
    ((name, x),) = small.feed.items()
    feeds = [{name: np.resize(x, (1, 3, size, 12))} for size in (6, 14, 10)]
    for feed in feeds:
        run(path, feed)
    programs = [each for each in files(home) if each.name != cache.INTERFACE]
    for age, each in enumerate(sorted(programs, key=lambda each: each.stat().st_mtime_ns)):
        os.utime(each, (1000 + age, 1000 + age))
    # Use makes the first one young; the second is the oldest then.
    assert not run(path, feeds[0])[1]
    size = sum(each.stat().st_size for each in files(home))
    smallest = min(each.stat().st_size for each in programs)
    monkeypatch.setattr(cache, "MOST_BYTES", size + smallest // 2)
    run(path, {name: np.resize(x, (1, 3, 18, 12))})
    assert [run(path, feed)[1] for feed in (feeds[0], feeds[2])] == [False, False]
    assert run(path, feeds[1])[1]


def test_no_cache(home, tmp_path, monkeypatch, caplog):
    """Switched off; in a place that cannot be written; for a model that is a protobuf."""
    small = classifier()
    path, expected = written(tmp_path, small), referred(small.model, small.feed)
    agree(InferenceSession(small.model).run(None, small.feed), expected)
    blocked = tmp_path / "blocked"
    blocked.write_bytes(b"")
    for place in ("off", "0", ""):
        monkeypatch.setenv("PPLCONV_CACHE", place)
        session = InferenceSession(path)
        assert isinstance(session._network, Network)
        agree(session.run(None, small.feed), expected)
        assert pplconv.cache.describe()["path"] is None
        pplconv.cache.clear()
    cache._told.clear()
    monkeypatch.setenv("PPLCONV_CACHE", str(blocked))
    with caplog.at_level("DEBUG", "pplconv"):
        for _ in range(2):
            agree(run(path, small.feed)[0], expected)
    assert [record.message for record in caplog.records if "no cache" in record.message] == [
        record.message for record in caplog.records
    ][:1]
    assert not files(home)


def test_the_users_folder(tmp_path, monkeypatch):
    """Where nothing is said, it lies with the user's other caches."""
    monkeypatch.delenv("PPLCONV_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Path(cache.folder() or "") == tmp_path / "pplconv" / "networks"
    monkeypatch.setenv("PPLCONV_CACHE", "a\0b" if os.name == "nt" else "~/x")
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache.folder() == "/home/someone/x"


def test_weights_in_other_files_are_not_cached(home, tmp_path):
    """The model's bytes would not tell that they changed."""
    import onnx

    small = classifier()
    path, expected = tmp_path / "model.onnx", referred(small.model, small.feed)
    onnx.save(small.model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    for _ in range(2):
        session = InferenceSession(path)
        assert isinstance(session._network, Network)
        agree(session.run(None, small.feed), expected)
    assert not files(home)


def test_two_processes_at_once(home, tmp_path):
    """Both compile, both write, and nothing is half-written."""
    small = detector()
    path = written(tmp_path, small)
    np.savez(tmp_path / "feed.npz", **small.feed)
    script = f"""
import numpy as np, pplconv
feed = dict(np.load({str(tmp_path / "feed.npz")!r}))
for _ in range(3):
    pplconv.InferenceSession({str(path)!r}).run(None, feed)
"""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        jobs = [
            pool.submit(children.python, "-P", "-c", script, env=children.environment())
            for _ in range(2)
        ]
        for job in jobs:
            assert job.result().returncode == 0, job.result().stderr
    agree(run(path, small.feed)[0], referred(small.model, small.feed))
    assert not [each for each in files(home) if each.suffix != ".pplconv"]
