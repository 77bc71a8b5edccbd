"""The OpenMP libraries that this process has loaded."""

from __future__ import annotations

import os
from typing import Any


def openmp_runtimes() -> list[dict[str, Any]]:
    """List the OpenMP libraries loaded into this process; none of their settings is changed.

    More than one means that two teams may wait for the same CPUs at once.

    Returns
    -------
    list of dict
        ``library`` (file name), ``path``, ``prefix`` (libgomp, libomp, libiomp, vcomp), ``version``
        (None if the library has none) and ``threads`` (the library's own default team), sorted
        by path.
    """
    from threadpoolctl import threadpool_info

    runtimes = [
        {
            "library": os.path.basename(entry["filepath"]),
            "path": entry["filepath"],
            "prefix": entry["prefix"],
            "version": entry.get("version"),
            "threads": entry["num_threads"],
        }
        for entry in threadpool_info()
        if entry.get("user_api") == "openmp"
    ]
    return sorted(runtimes, key=lambda runtime: str(runtime["path"]))
