"""Mutants of model files end no process; `model_fuzz` sees it when one does."""

from __future__ import annotations

import os
import re

import onnx
import pytest

from pplconv.network.session import InferenceSession
from tests.network.model_fuzz import fuzz
from tests.network.model_mutant_probe import REFUSALS
from tests.network.model_mutants import FIELDS, mutant, originals

pytestmark = pytest.mark.unemulated("reads files, which no machine changes")
PARTS, SIZE = 4, 400
# Of what a process holds while it opens and runs small models, hostile ones among them.
MOST_BYTES = 1 << 30
sanitized = "ASAN_OPTIONS" in os.environ


@pytest.mark.sampled(1)
@pytest.mark.parametrize("part", range(PARTS))
def test_mutants(part, tmp_path):
    """The same ones each time; ``make fuzz-models`` goes through others."""
    tally = fuzz(range(part * SIZE, (part + 1) * SIZE), tmp_path, limit=not sanitized)
    assert not tally.findings, tally.summary()
    assert sum(tally.outcomes.values()) == SIZE
    # Some are refused when they are read, some when their shapes are known; some are networks.
    for outcome in ("not opened: ValueError", "not run: ValueError", "run"):
        assert tally.outcomes[outcome] >= 20, tally.summary()
    assert sanitized or tally.peak < MOST_BYTES, tally.summary()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("what", "said"),
    [
        pytest.param(
            "crash", "SIGSEGV", marks=pytest.mark.unsanitized("which would report what is planted")
        ),
        ("time", "SIGPROF"),
        ("error", "KeyError: 'planted'"),
        pytest.param(
            "memory", "MemoryError",
            marks=pytest.mark.unsanitized("its address space cannot be limited"),
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_seen(what, said, tmp_path):
    """With its seed, its file, and all seeds before and behind it."""
    tally = fuzz(range(3, 9), tmp_path, limit=not sanitized, plant=(what, 5), seconds=3.0)
    (finding,) = tally.findings
    assert re.match(r"seed 5\b", finding) and said in finding
    assert sum(tally.outcomes.values()) == 6
    if what in ("crash", "time"):
        assert (tmp_path / "mutant-5.onnx").read_bytes() == mutant(5).content
        assert str(tmp_path) in finding


def test_mutants_are_what_their_seeds_say():
    made = [mutant(seed) for seed in range(60)]
    assert made == [mutant(seed) for seed in range(60)]
    assert len({each.content for each in made}) > 50


def test_every_kind_of_change_leaves_something_to_read():
    """None of the changes of fields is refused by protobuf each time."""
    import random

    for change in set(FIELDS):
        for seed in range(20):
            model = onnx.ModelProto()
            model.ParseFromString(random.Random(seed).choice(list(originals().values())))
            try:
                change(random.Random(seed), model)
            except ValueError:
                continue
            before = model.SerializeToString()
            assert onnx.ModelProto.FromString(before) == model
            break
        else:
            pytest.fail(f"{change.__name__} was never made")


def test_originals_run():
    for content in originals().values():
        try:
            InferenceSession(content, threads=1)
        except REFUSALS as error:
            pytest.fail(f"{error}")
