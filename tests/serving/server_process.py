"""A real server: its process, its port, its log."""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

from tests.patience import PATIENCE, eventually


@contextmanager
def server(model: Path, *options: str, **settings):
    """Run a server; give its process, its port and the lines of its log."""
    command = [sys.executable, "-m", "pplconv", "serve", str(model), "--port", "0", *options]
    # Not in the source tree, which would be imported instead of the built package.
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=model.parent, **settings
    )
    lines: list[str] = []
    drain = threading.Thread(target=lambda: lines.extend(process.stderr), daemon=True)
    drain.start()

    def told() -> list[str]:
        return re.findall(r"running on http://127\.0\.0\.1:(\d+)", "".join(lines))

    try:
        eventually(lambda: told() or not drain.is_alive(), "a server that runs")
        assert told(), "".join(lines)
        yield process, int(told()[0]), lines
    finally:
        process.kill()
        process.wait(PATIENCE)
        drain.join(PATIENCE)
        process.stderr.close()


def text_of(port: int, path: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()
