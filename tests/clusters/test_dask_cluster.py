"""Tiles on processes of a cluster, one of which is killed."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest

import pplconv
from pplconv.integrations.dask import Layer, map_tiles

pytestmark = [
    pytest.mark.slow,
    pytest.mark.unsanitized("starts a cluster, in which the sanitizer's library is not preloaded"),
]


@pytest.fixture(autouse=True)
def same_environment(monkeypatch):
    """Restore variables, such as ``OMP_NUM_THREADS``, that a nanny sets in its parent process."""
    for name in (*dask.config.get("distributed.nanny.pre-spawn-environ", {}), "OMP_NUM_THREADS"):
        if name in os.environ:
            monkeypatch.setenv(name, os.environ[name])
        else:
            # monkeypatch notes it as missing, and removes it at the end.
            monkeypatch.setenv(name, "1")
            monkeypatch.delenv(name)


class Weights:
    """An array that logs a line each time it is unpickled."""

    def __init__(self, array, log: Path) -> None:
        self.array, self.log = array, log

    def __setstate__(self, state) -> None:
        self.__dict__.update(state)
        note(self.log)


def note(log: Path) -> None:
    with log.open("a") as file:
        file.write(f"{os.getpid()}\n")


def notes(log: Path) -> Counter:
    return Counter(log.read_text().split())


def picture_and_answer(rng, folder: Path):
    """Return the tiled answer of a model that kills its process once, and the untiled answer."""
    x = rng.standard_normal((1, 3, 300, 300)).astype(np.float32)
    weights = Weights(rng.standard_normal((8, 3, 3, 3)).astype(np.float32), folder / "unpickled")
    tail = rng.standard_normal((4, 8, 5, 5)).astype(np.float32)

    def make_model(algorithm):
        note(folder / "made")
        first = pplconv.Conv2d(weights.array, padding=1, activation="relu", algorithm=algorithm)
        second = pplconv.Conv2d(tail, stride=2, padding=2, algorithm=algorithm)

        def model(tile):
            # The tile in the middle: other tiles are finished by then, and lost with the process.
            if np.abs(tile).max() > 100:
                try:
                    os.close(os.open(folder / "killed", os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    pass
                else:
                    os.kill(os.getpid(), signal.SIGKILL)
            return second(first(tile))

        return model

    layers = [Layer(3, padding=1), Layer(5, stride=2, padding=2, out_channels=4)]
    (folder / "killed").touch()  # do not kill this process
    x[0, 0, 150, 150] = 1000
    whole = make_model("direct")(x)
    (folder / "made").unlink()
    return map_tiles(make_model, da.from_array(x, (1, 3, 40, 40)), layers=layers), whole


def test_a_killed_worker_is_survived_and_models_are_made_once_a_worker(rng, tmp_path):
    distributed = pytest.importorskip("distributed")
    y, whole = picture_and_answer(rng, tmp_path)
    (tmp_path / "killed").unlink()
    # The nanny of a killed worker starts another one.
    with (
        dask.config.set({"distributed.worker.daemon": True}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, dashboard_address=None, processes=True
        ) as cluster,
        distributed.Client(cluster),
    ):
        assert y.compute().tobytes() == whole.tobytes()
    assert (tmp_path / "killed").exists()
    made = notes(tmp_path / "made")
    # The two first workers, and the replacement of the killed one if it got a tile.
    assert len(made) in (2, 3)
    assert set(made.values()) == {1}
    assert notes(tmp_path / "unpickled") == made


def test_processes_of_the_local_scheduler(rng, tmp_path):
    """Each task carries the recipe, yet each process makes the model once."""
    y, whole = picture_and_answer(rng, tmp_path)
    answer = y.compute(scheduler="processes", num_workers=2)
    assert answer.tobytes() == whole.tobytes()
    made = notes(tmp_path / "made")
    assert len(made) in (1, 2) and set(made.values()) == {1}
