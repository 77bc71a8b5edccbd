"""The benchmark of first answers, on a small network."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import starts
from tests.network.running import needs_onnxruntime
from tests.network.small_models import classifier


@pytest.mark.slow
@needs_onnxruntime
def test_every_engine_starts_and_agrees(ran, tmp_path):
    small = classifier()
    path = tmp_path / "small.onnx"
    path.write_bytes(small.model.SerializeToString())
    ((name, x),) = small.feed.items()
    shape = "x".join(map(str, x.shape))
    engines = "onnxruntime,model,cache,file"
    found = ran(starts.main, f"{path}:{name}={shape}", "--engines", engines, "--rounds", "1")
    measured = found.plain["starts"]["small"]
    assert [*measured] == engines.split(",") and "note:" not in found.out
    for engine, (one,) in measured.items():
        assert len(one["seconds"]) == 4 and min(one["seconds"]) > 0, engine
        assert one["peak"] > 1 << 20


def test_other_numbers_are_told(tmp_path):
    for engine, numbers in (("onnxruntime", [1.0, 2.0]), ("model", [1.0, 2.1]), ("file", [1.0])):
        np.savez(tmp_path / f"{engine}.npz", np.array(numbers))
    assert starts.wrong_answers(tmp_path, ["onnxruntime", "model", "file"], "m") == [
        "m: model gives other numbers than onnxruntime",
        "m: file gives other numbers than onnxruntime",
    ]


def test_the_fastest_start_counts():
    given = [
        {"seconds": [1.0, 2.0, 0.0, 0.0], "peak": 5}, {"seconds": [2.0, 0.5, 0.0, 0.0], "peak": 7},
    ]  # fmt: skip
    assert starts.best(given) == ([2.0, 0.5, 0.0, 0.0], 5)
    file = [{"seconds": [1.0, 0.0, 0.0, 0.0], "peak": 3}]
    made = starts.table({"m": {"onnxruntime": given, "file": file}}, 1)
    assert [row[-1] for row in made.rows] == ["1.00", "0.40"]
