"""A real server: its process, its port, its log."""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

from patience import PATIENCE


@contextmanager
def server(model: Path, *options: str, **settings):
    """The process of a server, and its port."""
    command = [sys.executable, "-m", "pplconv", "serve", str(model), "--port", "0", *options]
    # Elsewhere than among the sources, which would be imported in place of what was built.
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=model.parent, **settings
    )
    lines: list[str] = []
    drain = None
    try:
        port = None
        for line in process.stderr:
            lines.append(line)
            if found := re.search(r"running on http://127\.0\.0\.1:(\d+)", line):
                port = int(found[1])
                break
        assert port is not None, "".join(lines)
        drain = threading.Thread(target=lambda: lines.extend(process.stderr), daemon=True)
        drain.start()
        yield process, port, lines
    finally:
        process.kill()
        process.wait(PATIENCE)
        if drain is not None:
            drain.join(PATIENCE)
        process.stderr.close()


def text_of(port: int, path: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()
