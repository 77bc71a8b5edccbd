"""A server in a process of its own, watched from outside."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil

__all__ = ["Served"]


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):  # it has ended
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            found += map(int, path.read_text().split())
    return found


_PATIENCE = 120.0


class Served:
    """``python -m pplconv serve`` on a free port, as a context.

    Parameters
    ----------
    model : str
        An ONNX file.
    options : sequence of str
        Of the command.

    Raises
    ------
    RuntimeError
        If it does not start; the message has its output.
    """

    def __init__(self, model: str, options: Sequence[str]) -> None:
        path = Path(model).resolve()
        command = [sys.executable, "-m", "pplconv", "serve", str(path), "--port", "0", *options]
        # Not in the folder of the sources, which would be imported in place of the built package.
        self._process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, cwd=path.parent
        )
        said: list[str] = []
        self.port = 0
        assert self._process.stderr is not None
        for line in self._process.stderr:
            said.append(line)
            if found := re.search(r"running on http://[\d.]+:(\d+)", line):
                self.port = int(found[1])
                break
        if not self.port:
            self._process.wait(_PATIENCE)
            self._process.stderr.close()
            raise RuntimeError("the server did not start:\n" + "".join(said))
        self.said = said
        # Later output must not fill the pipe.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.said.append(line)

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_PATIENCE)
        self._reader.join(_PATIENCE)
        assert self._process.stderr is not None
        self._process.stderr.close()

    def _all(self) -> list[psutil.Process]:
        own = psutil.Process(self._process.pid)
        return [own, *own.children(recursive=True)]

    def workers(self) -> list[int]:
        """The processes of the instances: forked by one that the server has started (Linux).

        It takes no time that would hold up the load of this process.
        """
        return [pid for child in _children(self._process.pid) for pid in _children(child)]

    def reload(self) -> None:
        """Have the server read its file again."""
        self._process.send_signal(signal.SIGHUP)

    def reloads(self) -> dict[str, int]:
        """How often it has done so, by result."""
        with urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            text = answer.read().decode()
        found = re.findall(r'pplconv_reloads_total\{result="(\w+)"\} (\d+)', text)
        return {result: int(count) for result, count in found}

    def cpu_seconds(self) -> float:
        """Processor time of all its processes so far."""
        total = 0.0
        for process in self._all():
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            total += times.user + times.system
            total += times.children_user + times.children_system  # those that have ended
        return total

    def memory_mib(self) -> list[float]:
        """Memory of each process in MiB; shared memory counts in parts (PSS)."""
        found = []
        for process in self._all():
            try:
                full = process.memory_full_info()
            except psutil.Error:
                continue
            found.append(getattr(full, "pss", full.uss) / 2**20)
        return found
