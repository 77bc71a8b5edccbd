"""The list of OpenMP libraries."""

from __future__ import annotations

from typing import Any

import pytest
import threadpoolctl

from pplconv.runtime import openmp_runtimes
from tests.programs import finding, output


def entry(path: str, **changes: Any) -> dict[str, Any]:
    return {
        "filepath": path,
        "prefix": "libgomp",
        "user_api": "openmp",
        "internal_api": "openmp",
        "version": None,
        "num_threads": 4,
        **changes,
    }


def test_only_openmp_sorted_by_path(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = [
        entry("/usr/lib/libomp.so.5", prefix="libomp", num_threads=2),
        entry("/opt/libopenblas.so", user_api="blas", prefix="libopenblas"),
        entry("/opt/x/libgomp-a1.so.1"),
    ]
    monkeypatch.setattr(threadpoolctl, "threadpool_info", lambda: loaded)
    assert openmp_runtimes() == [
        {
            "library": "libgomp-a1.so.1",
            "path": "/opt/x/libgomp-a1.so.1",
            "prefix": "libgomp",
            "version": None,
            "threads": 4,
        },
        {
            "library": "libomp.so.5",
            "path": "/usr/lib/libomp.so.5",
            "prefix": "libomp",
            "version": None,
            "threads": 2,
        },
    ]


def test_no_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threadpoolctl, "threadpool_info", list)
    assert openmp_runtimes() == []


def test_settings_of_loaded_libraries_stay() -> None:
    before = threadpoolctl.threadpool_info()
    openmp_runtimes()
    assert threadpoolctl.threadpool_info() == before


def test_threadpoolctl_and_psutil_are_imported_only_when_needed() -> None:
    loaded = output("-c", finding(
        "import pplconv, pplconv.config, pplconv.machine, pplconv.runtime\n"
        "print(sorted({'psutil', 'threadpoolctl', 'platform'} & set(sys.modules)))"
    ))  # fmt: skip
    numpy_only = output("-c", "import sys, numpy; print('platform' in sys.modules)")
    expected = ["platform"] if numpy_only.strip() == "True" else []
    assert loaded.strip() in (str(expected), "[]")
