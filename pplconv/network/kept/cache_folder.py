"""The cache of compiled networks: a folder for each model, with a file for each program.

The folder's name is a hash of all that programs depend on: the model's bytes, the settings, the
version and the build of pplconv, the CPU, the team and the environment. Nothing is invalidated: a
changed model has another folder, and the files that were not used for the longest time make room.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import _kernels, config, planner
from ..._version import __version__
from ...machine import current as current_machine
from ...memory.mapping import is_still_at, map_file, release, unchanged
from ...ops import program
from ...wisdom import describe
from ...wisdom.entries import cpu_model
from ...wisdom.wisdom_files import make_folder, remove_stale
from ..compiled import Compiled
from ..interface import Interface
from ..plan_settings import Settings
from ..programs import Found
from .container import FORMAT, MAGIC, blake2b, read, write
from .files import interface_in, written_interface
from .records import read_program, written_program

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from ..._literals import Fallback

__all__ = [
    "INTERFACE", "MOST_BYTES", "OfCache", "clear", "contents", "finish_writing", "folder",
    "source_of",
]  # fmt: skip

MOST_BYTES = 2 << 30
"""Bytes of all files; the least recently used ones are removed first."""

_FOLDER, INTERFACE, _ENDING = "networks", "interface.pplconv", ".pplconv"
_HASHED_AT_ONCE = _LARGE_BYTES = 1 << 22
_told: set[str] = set()
_writing: set[threading.Thread] = set()


def _note(text: str, *values: object) -> None:
    import logging  # rarely needed, and slow to import

    logging.getLogger("pplconv").debug(text, *values)


def folder() -> str | None:
    """Give the folder of all models' folders, which need not exist; None if there is no cache.

    Raises
    ------
    ValueError
        If ``PPLCONV_CACHE`` is malformed.
    """
    return config.network_cache(_FOLDER)


def source_of(model: Any, settings: Settings, fallback: Fallback) -> OfCache | None:
    """Give the place of a model's programs in the cache; None if there is none.

    Parameters
    ----------
    model : str, os.PathLike, bytes or onnx.ModelProto
        As of `InferenceSession`; a protobuf has no place.
    settings : Settings
        Of the session.
    fallback : {"warn", "error", "silent"}
        As of `InferenceSession`.
    """
    home = folder()
    is_path = isinstance(model, (str, os.PathLike))
    if home is None or not (is_path or isinstance(model, bytes)):
        return None
    if is_path:
        path = os.fsdecode(model)
        if not os.path.isfile(path):
            return None
        data = map_file(path)
    else:
        data = np.frombuffer(model, np.uint8)
    if data.size < len(MAGIC):
        return None
    name = _hash_of(data, settings, fallback)
    return OfCache(os.path.join(home, name), model, data, planner.team_size(settings.threads))


def _hash_of(data: npt.NDArray[np.uint8], settings: Settings, fallback: str) -> str:
    found = _hasher(data.size)
    for begin in range(0, data.size, _HASHED_AT_ONCE):
        part = data[begin : begin + _HASHED_AT_ONCE]
        found.update(part.data)
        # The file's pages need not count as memory of this process.
        release(part)
    machine, around = current_machine(), config.current()
    found.update(repr((
        settings, fallback, FORMAT, __version__, _build(), cpu_model(machine), machine.features,
        machine.usable_isas(around.max_isa), machine.l1d_bytes, machine.l2_bytes,
        machine.l3_bytes, len(machine.affinity), planner.team_size(settings.threads),
        planner.share(settings.threads), around.team_start_us, around.tolerance, _wisdom(),
    )).encode())  # fmt: skip
    name: str = found.hexdigest()[:40]
    return name


def _hasher(size: int) -> Any:
    """Choose a hash: for many bytes the fastest one, which comes with OpenSSL and takes 2 ms."""
    if size < _LARGE_BYTES:
        return blake2b(digest_size=32)
    import hashlib

    return hashlib.sha256()


def _build() -> tuple[Any, ...]:
    """Tell builds of one version apart, as those of a source tree."""
    states = [os.stat(str(module.__file__)) for module in (_kernels, program)]
    root = os.path.dirname(os.path.dirname(str(planner.__file__)))
    if os.path.isfile(os.path.join(os.path.dirname(root), "setup.py")):
        # Who edits the planner wants its new plans.
        states += _sources(root)
    return tuple((state.st_size, state.st_mtime_ns) for state in states)


def _sources(folder: str) -> list[os.stat_result]:
    """List the states of a folder's sources, and of those below it, by name."""
    found: list[os.stat_result] = []
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.endswith(".py"):
            found.append(entry.stat())
        elif entry.is_dir() and entry.name != "__pycache__":
            found += _sources(entry.path)
    return found


def _wisdom() -> Any:
    """Tell what measured plans there are; they decide new plans."""
    known = describe()
    return known["path"], known["entries"], known["bytes"]


class OfCache:
    """The programs of a model in the cache.

    Parameters
    ----------
    place : str
        Their folder, which need not exist.
    model : str, os.PathLike or bytes
        The model, as the session was given it.
    data : ndarray of uint8
        Its bytes, which stay what they were when they were hashed, unless the file is written to.
    team : int
        Size of the team that programs are compiled for.
    """

    def __init__(self, place: str, model: Any, data: npt.NDArray[np.uint8], team: int) -> None:
        self._place, self._model, self._data, self._team = place, model, data, team

    def interface(self) -> tuple[str, Interface] | None:
        """Read the name and the interface of the network; None if it is not known."""
        try:
            content = read(os.path.join(self._place, INTERFACE))
            return str(content.index["name"]), interface_in(content)
        except MemoryError:
            raise
        except Exception as error:
            self._forget(INTERFACE, error)
            return None

    def keep(self, name: str, interface: Interface) -> None:
        """Write the interface of the network."""
        blocks: list[npt.NDArray[np.uint8]] = []
        index = {"name": name, **written_interface(interface, blocks)}
        self._write(INTERFACE, index, blocks)

    def model(self) -> Any:
        """Give the model again, for `loading.load`: its bytes, if the path has another one now."""
        if isinstance(self._model, bytes):
            return self._model
        unchanged(self._data)
        return self._model if is_still_at(self._data) else self._data.tobytes()

    def find(self, key: Any, settings: Settings, interface: Interface) -> Found | None:
        """See `Source`."""
        name = _name_of(key)
        path = os.path.join(self._place, name)
        if not os.path.isfile(path):
            return None
        try:
            content = read(path)
            found = read_program(content.index["program"], content.blocks, settings, interface)
        except MemoryError:
            raise
        except Exception as error:
            self._forget(name, error)
            return None
        with suppress(OSError):
            os.utime(path)
        return found

    def has(self, key: Any) -> bool:
        """See `Source`."""
        return os.path.isfile(os.path.join(self._place, _name_of(key)))

    def add(self, key: Any, found: Found, advice: str) -> None:
        """Write a program, in a thread of its own, unless no file can hold it."""
        program, fired = found
        if not isinstance(program, Compiled):
            return
        blocks: list[npt.NDArray[np.uint8]] = []
        try:
            described = written_program(key, program, fired, self._team, advice, blocks)
        except ValueError as error:
            _note("the cache of networks leaves out a program: %s", error)
            return
        if sum(block.nbytes for block in blocks) > MOST_BYTES // 2:
            return
        name, index = _name_of(key), {"pplconv": __version__, "program": described}

        def written() -> None:
            self._write(name, index, blocks)
            _make_room(os.path.dirname(self._place))
            _writing.discard(threading.current_thread())

        # The process waits for it at its end; the first answer does not.
        thread = threading.Thread(target=written, name="pplconv cache", daemon=False)
        _writing.add(thread)
        thread.start()

    def refusal(self, key: Any) -> str:
        """See `Source`: there is always a model."""
        raise AssertionError("a cached network has a model")

    def reopening(self) -> None:
        """See `Source`: a pickle has the model, as that of a session without a cache."""

    def _write(self, name: str, index: dict[str, Any], blocks: Any) -> None:
        try:
            make_folder(self._place)
            write(os.path.join(self._place, name), index, blocks, 0o600)
        except OSError as error:
            if "written" not in _told:
                _told.add("written")
                _note("no cache of networks: %s", error)

    def _forget(self, name: str, error: Exception) -> None:
        """Remove a file that cannot be used."""
        if isinstance(error, OSError):
            return  # there is none, or no cache at all
        _note("the cache of networks drops %s: %s", name, error)
        with suppress(OSError):
            os.unlink(os.path.join(self._place, name))


def _name_of(key: Any) -> str:
    return blake2b(repr(key).encode(), digest_size=20).hexdigest() + _ENDING


def clear() -> None:
    """Remove all files of the cache; sessions that use some keep them until they end.

    Raises
    ------
    OSError
        If the system refuses.
    """
    finish_writing()
    home = folder()
    if home is not None and os.path.isdir(home):
        import shutil

        shutil.rmtree(home)


def finish_writing() -> None:
    """Wait until this process has written all programs that it has compiled."""
    for thread in list(_writing):
        thread.join()


def contents(home: str) -> Iterator[tuple[float, int, str]]:
    """List the files of a cache: when they were used last, their bytes and paths."""
    for place, _, names in os.walk(home):
        for name in names:
            if name.endswith(_ENDING):
                path = os.path.join(place, name)
                with suppress(OSError):
                    state = os.stat(path)
                    yield state.st_mtime, state.st_size, path


def _make_room(home: str) -> None:
    """Remove the files that were not used for the longest time, until the others fit."""
    found = sorted(contents(home))
    size = sum(size for _, size, _ in found)
    for _, own, path in found:
        if size <= MOST_BYTES:
            break
        size -= own
        with suppress(OSError):
            os.unlink(path)
            # Fails while others are there.
            os.rmdir(os.path.dirname(path))
    for place in {os.path.dirname(path) for *_, path in found}:
        remove_stale(place)
