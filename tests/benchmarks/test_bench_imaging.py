"""The benchmark of image filters: its check of results, and a run."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import imaging
from benchmarks.filters import ENGINES, OURS
from tests.benchmarks.known_runs import FAST


@pytest.fixture(autouse=True)
def small_images(monkeypatch):
    monkeypatch.setattr(imaging, "IMAGES", {"1": (60, 50, 1), "1x3": (40, 70, 3)})
    imaging.image_of.cache_clear()
    yield
    imaging.image_of.cache_clear()


@pytest.mark.sampled(9)
@pytest.mark.parametrize("kernel", ["3", "9", "9s", "5box", "5g", "sobel"])
@pytest.mark.parametrize("image", ["1", "1x3"])
@pytest.mark.parametrize("dtype", imaging.DTYPES)
def test_every_engine_is_right_and_a_wrong_pixel_is_found(image, kernel, dtype):
    case = imaging.case_of(image, kernel, dtype)
    calls = {name: make(case) for name, make in ENGINES.items()}
    found = {name: np.array(np.asarray(call())) for name, call in calls.items() if call is not None}
    assert OURS in found
    for name, result in found.items():
        assert imaging.wrong(case, result, dtype) == "", name
        more = max(3, np.abs(result).max() / 100)
        result[:, :2] += np.asarray(more, result.dtype)
        assert "off by" in imaging.wrong(case, result, dtype), name


def test_a_result_of_another_shape_is_wrong():
    case = imaging.case_of("1", "3", "float32")
    assert "shape" in imaging.wrong(case, np.zeros((58, 48), np.float32), "float32")


def test_the_command_times_and_writes_every_case(ran):
    found = ran(imaging.main, "--kernels", "3,31s", "--threads", "1", *FAST)
    rows = found.plain["rows"]
    assert len(rows) == 2 * 2 * len(imaging.DTYPES)
    assert all(row["seconds"][OURS] > 0 for row in rows)
    assert "filters, uint8, 1 thread: ms" in found.out
    assert "best of all peers / pplconv" in found.out
