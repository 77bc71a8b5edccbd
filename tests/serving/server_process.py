"""A real server: its process, its port, its log."""

from __future__ import annotations

import http.client
import re
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE, eventually
from tests.programs import started
from tests.serving.served import NPY


@contextmanager
def server(model: Path, *options: str, **settings):
    """Run a server; give its process, its port and the lines of its log."""
    command = ("-m", "pplconv", "serve", model, "--port", "0", *options)
    # Not in the source tree, which would be imported instead of the built package.
    process = started(*command, stdout=None, cwd=model.parent, **settings)
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


def ask(
    port: int, body: Any, path: str, headers: dict[str, str] = NPY, method: str = "POST"
) -> tuple[int, bytes]:
    """Send one request on a connection of its own; return status and body of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def text_of(port: int, path: str) -> str:
    return ask(port, None, path, {}, "GET")[1].decode()


def reloaded(port: int, result: str, count: int) -> None:
    """Wait until the metrics count so many reloads."""
    wanted = f'pplconv_reloads_total{{result="{result}"}} {count}'
    eventually(lambda: wanted in text_of(port, "/metrics"), wanted)
