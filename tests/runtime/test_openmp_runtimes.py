"""The list of OpenMP libraries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import threadpoolctl

import pplconv
from pplconv.runtime import openmp_runtimes
from tests.patience import PATIENCE


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
    code = (
        f"import sys; sys.path.insert(0, {str(Path(pplconv.__file__).parents[1])!r})\n"
        "import pplconv, pplconv.config, pplconv.machine, pplconv.runtime\n"
        "print(sorted({'psutil', 'threadpoolctl', 'platform'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    numpy_only = subprocess.run(
        [sys.executable, "-c", "import sys, numpy; print('platform' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    expected = ["platform"] if numpy_only.stdout.strip() == "True" else []
    assert done.stdout.strip() in (str(expected), "[]")
