"""Compiled networks in files: the same values as ONNX's reference, and clear refusals."""

from __future__ import annotations

import copy
import json
import os
import pickle
import struct
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pplconv
from pplconv import InferenceSession
from pplconv.network.kept.container import MAGIC, parts_of, read
from pplconv.network.kept.written_objects import Reader
from pplconv.sharing import prepared
from tests import children
from tests.emulation import is_emulated
from tests.network.graphs import Graph
from tests.network.model_fuzz import fuzz
from tests.network.random_networks import Network
from tests.network.running import agree, referred
from tests.network.small_models import SMALL, classifier, detector

EXAMPLES = 2 if is_emulated() else 15
PARTS, SIZE = 2, 300
sanitized = "ASAN_OPTIONS" in os.environ


def saved(model, feed, path, **how):
    """Compile a model for a feed, and keep it."""
    session = InferenceSession(model, fallback="silent")
    session.save(path, [{name: x.shape for name, x in feed.items()}], **how)
    return session


@pytest.fixture
def file(tmp_path):
    """A small network in a file, with its model and inputs."""
    small, path = classifier(), tmp_path / "network.pplconv"
    saved(small.model, small.feed, path)
    return path, small


@pytest.mark.sampled(2)
@pytest.mark.parametrize("free", [False, True])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_random_networks(free, data, tmp_path_factory):
    """Programs of a file give what ONNX's reference does, and the bits of the session they are of.

    One that a file cannot hold is refused by name.
    """
    network = Network(data.draw, free=free)
    model, path = network.g.model(*network.outputs), tmp_path_factory.mktemp("kept") / "n"
    session = InferenceSession(model, fallback="silent")
    wanted = [session.run(None, feed) for feed in network.feeds]
    try:
        session.save(path)
    except ValueError as error:
        assert "cannot be kept" in str(error) or "depend on data" in str(error)
        return
    kept = InferenceSession(path)
    assert kept.get_inputs() == session.get_inputs()
    assert kept.get_outputs() == session.get_outputs()
    for feed, expected in zip(network.feeds, wanted, strict=True):
        got = kept.run(None, feed)
        # What is left of a difference has the errors of what was subtracted, which is about 1.
        agree(got, referred(model, feed), 1e-4, least=1.0)
        for x, y in zip(got, expected, strict=True):
            np.testing.assert_array_equal(x, y)
    (name, shape), *_ = ((name, x.shape) for name, x in network.feeds[0].items())
    first = {each: x.shape for each, x in network.feeds[0].items()}
    assert str(kept.plan_for(first)) == str(session.plan_for(first)), (name, shape)


def test_small_networks_are_kept(tmp_path):
    """All but those whose parts are compiled while they run."""
    kept = []
    for name, make in SMALL.items():
        small, path = make(), tmp_path / name
        session = InferenceSession(small.model, fallback="silent")
        expected = session.run(None, small.feed)
        try:
            session.save(path)
        except ValueError:
            continue
        kept.append(name)
        agree(InferenceSession(path).run(None, small.feed), expected, 0)
    assert {"detector", "classifier", "attention", "arithmetic"} <= {*kept}


@pytest.mark.unemulated("counts modules of a process, which no machine changes")
def test_a_file_needs_no_onnx(file):
    """Opened and run in a process that could not import it."""
    path, small = file
    np.savez(path.with_suffix(".npz"), **small.feed)
    done = children.python("-P", "-c", f"""
import sys
for name in ("onnx", "onnx_ir", "onnxscript", "sympy", "google.protobuf"):
    sys.modules[name] = None
import numpy as np, pplconv
session = pplconv.InferenceSession({str(path)!r})
(y,) = session.run(None, np.load({str(path.with_suffix(".npz"))!r}))
np.save({str(path.with_suffix(".npy"))!r}, y)
assert not session.get_overridable_initializers() and session.get_providers()
""", env=children.environment())  # fmt: skip
    assert done.returncode == 0, done.stderr
    agree([np.load(path.with_suffix(".npy"))], referred(small.model, small.feed))


# Modules of the package that a process imports until a network from a file answers: at most so
# many, and none of these. Other CPUs have plans with other loops, a module each.
MOST_IMPORTED = 98
NOT_IMPORTED = (
    "_trial", "algorithms", "api", "instances", "machine.condition", "network.compiling",
    "network.network", "network.onnx_later", "network.operators", "network.preparing", "ops.border",
    "ops.ready", "ops.transposed", "planner.estimating", "planner.planning", "planner.pricing",
    "planner.searching", "quant.numbers", "runtime.pinning", "runtime.spreading", "wisdom.api",
    "wisdom.wisdom_files",
)  # fmt: skip


@pytest.mark.unemulated("counts modules of a process, which no machine changes")
def test_a_file_imports_what_it_needs(file):
    path, small = file
    np.savez(path.with_suffix(".npz"), **small.feed)
    done = children.python("-P", "-c", f"""
import sys, numpy as np
feed = dict(np.load({str(path.with_suffix(".npz"))!r}))
before = {{*sys.modules}}
import pplconv
pplconv.InferenceSession({str(path)!r}, threads=1).run(None, feed)
print(*({{*sys.modules}} - before))
""", env=children.environment())  # fmt: skip
    assert done.returncode == 0, done.stderr
    names = set(done.stdout.split())
    own = {name.removeprefix("pplconv.") for name in names if name.startswith("pplconv.")}
    assert not own & {*NOT_IMPORTED}
    assert len(own) <= MOST_IMPORTED, sorted(own)
    assert not names & {
        "_hashlib", "asyncio", "concurrent.futures", "ctypes", "hashlib", "logging",
        "multiprocessing", "numpy.typing",
    }  # fmt: skip


def test_bytes_are_taken_like_paths(file):
    path, small = file
    session = InferenceSession(path.read_bytes())
    agree(session.run(None, small.feed), referred(small.model, small.feed))


def test_several_shapes_and_the_network_itself(tmp_path):
    """Other shapes are compiled where the file has the network, and refused where not."""
    small, path = detector(), tmp_path / "n.pplconv"
    ((name, x),) = small.feed.items()
    shapes = [{name: (1, 3, size, 12)} for size in (10, 14)]
    session = InferenceSession(small.model)
    for portable in (False, True):
        session.save(path, shapes, portable=portable)
        kept = InferenceSession(path)
        assert [kept.is_ready_for({name: (1, 3, size, 12)}) for size in (10, 6, 14)] == [
            True, False, True,
        ]  # fmt: skip
        other = np.resize(x, (1, 3, 6, 12))
        if portable:
            agree(kept.run(None, {name: other}), referred(small.model, {name: other}))
            assert "low" in str(kept.compare({name: x})).lower()
        else:
            with pytest.raises(ValueError, match=r"feed: .*\(1, 3, 14, 12\).*not for.*portable"):
                kept.run(None, {name: other})
            with pytest.raises(ValueError, match="without the network itself"):
                kept.compare({name: x})
        agree(kept.run(None, small.feed), referred(small.model, small.feed))


def test_copies_and_pickles(file, tmp_path):
    """They open the file again; another file in its place is refused."""
    path, small = file
    session, expected = InferenceSession(path, threads=1), referred(small.model, small.feed)
    for other in (
        pickle.loads(pickle.dumps(session)), copy.deepcopy(session),
        prepared(session, threads=1).model(),
    ):  # fmt: skip
        agree(other.run(None, small.feed), expected)
    content = pickle.dumps(session)
    saved(small.model, small.feed, path, portable=True)
    agree(session.run(None, small.feed), expected)
    with pytest.raises(ValueError, match="not the file that the session was opened with"):
        pickle.loads(content)


@pytest.mark.parametrize(
    ("how", "named"),
    [({"precision": "low"}, "precision"), ({"search": "measure"}, "search"),
     ({"sparse": False}, "sparse"), ({"tolerance": 0.0}, "tolerance")],
)  # fmt: skip
def test_arguments_that_a_file_decides(file, how, named):
    with pytest.raises(ValueError, match=f"{named}: .*was compiled with"):
        InferenceSession(file[0], **how)


def test_what_cannot_be_kept(tmp_path):
    g = Graph(3)
    x = g.input(4)
    session = InferenceSession(g.model(g.NonZero(x)))
    session.run(None, g.feed)
    with pytest.raises(ValueError, match="depend on data"):
        session.save(tmp_path / "n")
    small = detector()
    session = InferenceSession(small.model)
    with pytest.raises(ValueError, match="compiled no program yet"):
        session.save(tmp_path / "n")
    with pytest.raises(TypeError, match="shapes must be a list of mappings"):
        session.save(tmp_path / "n", {"x": (1, 3, 8, 8)})
    with pytest.raises(TypeError, match="shapes must be mappings"):
        session.save(tmp_path / "n", [(1, 3, 8, 8)])
    assert not os.listdir(tmp_path)


def test_damaged_files(file, tmp_path):
    """Cut anywhere, with a bit changed in header or index, or of another version: a clear error."""
    path, small = file
    whole = path.read_bytes()
    begin, size = struct.unpack_from("<QQ", whole, 16)
    broken = [whole[:cut] for cut in (8, 63, 64, begin, len(whole) - 1)] + [whole + b"\0"]
    for at in (8, 16, 24, 40, begin, begin + size // 2):
        other = bytearray(whole)
        other[at] ^= 1
        broken.append(bytes(other))
    content = read(whole)
    del content.index["blocks"]
    for changed in (
        {**content.index, "pplconv": "0.0.1"}, {**content.index, "interface": {}},
        {**content.index, "programs": [1]}, {"settings": 3},
    ):  # fmt: skip
        broken.append(b"".join(parts_of(json.loads(json.dumps(changed)), content.blocks)))
    for number, text in enumerate(broken):
        other = tmp_path / f"broken-{number}.pplconv"
        other.write_bytes(text)
        with pytest.raises(ValueError, match=f"broken-{number}.pplconv: the file "):
            InferenceSession(other)
    with pytest.raises(ValueError, match="model"):
        InferenceSession(whole[: len(MAGIC) - 1] + b"\1" + whole[len(MAGIC) :])
    agree(InferenceSession(path).run(None, small.feed), referred(small.model, small.feed))


def test_kernels_of_another_cpu(file, monkeypatch):
    """A file for a level that this process may not use says so, and is compiled if it can be."""
    path, small = file
    used = {step.plan.isa for step in InferenceSession(path).plan_for(
        {name: x.shape for name, x in small.feed.items()}).steps if step.plan}  # fmt: skip
    if used == {"portable"}:
        return  # there is no lower one
    portable = path.with_name("portable")
    saved(small.model, small.feed, portable, portable=True)
    monkeypatch.setenv("PPLCONV_MAX_ISA", "portable")
    with pytest.raises(ValueError, match=r"compiled for .*cannot run: compile it again"):
        InferenceSession(path).run(None, small.feed)
    agree(InferenceSession(portable).run(None, small.feed), referred(small.model, small.feed))


@pytest.mark.parametrize("constant", [3, "x", [1, 2], {"dict": []}])
def test_a_constant_that_is_no_array(constant):
    with pytest.raises(TypeError, match="a constant is an array, and no "):
        Reader((), [["Buffer", 8, constant]], 1)


def test_memory_is_bounded(file):
    path, small = file
    with pytest.raises(ValueError, match="more than max_memory=16"):
        InferenceSession(path, max_memory=16).run(None, small.feed)


@pytest.mark.unemulated("reads files, which no machine changes")
@pytest.mark.sampled(1)
@pytest.mark.parametrize("part", range(PARTS))
def test_mutants(part, tmp_path):
    """The same ones each time; ``make fuzz-models`` goes through others."""
    tally = fuzz(
        range(part * SIZE, (part + 1) * SIZE), tmp_path, limit=not sanitized, compiled=True
    )
    assert not tally.findings, tally.summary()
    for outcome in ("not opened: ValueError", "not run: ValueError", "run"):
        assert tally.outcomes[outcome] >= 10, tally.summary()


def test_the_command(file, tmp_path):
    """Two programs, said on a command line, for a lower instruction set."""
    small, model, out = detector(), tmp_path / "m.onnx", tmp_path / "m.pplconv"
    model.write_bytes(small.model.SerializeToString())
    ((name, x),) = small.feed.items()
    shapes = [part for size in (10, 6) for part in ("--shape", f"{name}=1x3x{size}x12")]
    command = ("-P", "-m", "pplconv", "compile", str(model), *shapes, "--for", "portable")
    done = children.python(*command, env=children.environment(), cwd=tmp_path)
    assert done.returncode == 0 and "2 programs" in done.stdout, done.stderr
    kept = InferenceSession(out)
    for feed in (small.feed, {name: np.resize(x, (1, 3, 6, 12))}):
        agree(kept.run(None, feed), referred(small.model, feed))
    assert {step.plan.isa for step in kept.plan_for({name: x.shape}).steps if step.plan} == {
        "portable"
    }
    bad = children.python(*command[:-1], "sparc", env=children.environment(), cwd=tmp_path)
    assert bad.returncode == 2 and "this machine packs for" in bad.stderr
    assert "pplconv" in sys.modules and pplconv.__version__
