"""``python -m pplconv serve MODEL``: a session behind uvicorn."""

from __future__ import annotations

import argparse
import errno
import functools
import gc
import logging
import os
import re
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

__all__ = ["main"]

_SWITCH_SECONDS = 0.0005


def main(argv: Sequence[str]) -> int:
    """Serve until interrupted or told to end; SIGHUP has the file read again.

    Parameters
    ----------
    argv : sequence of str
        Arguments after the command's name.

    Returns
    -------
    int
        Exit status: 0 after SIGTERM and a graceful stop, 1 if the server could not start, 2 if an
        argument is at fault.
    """
    options = _parser().parse_args(argv)
    import uvicorn

    import pplconv

    from . import app
    from .connections import BACKLOG, guarded, most_connections
    from .logs import Rarely
    from .server import MENDABLE

    if not Path(options.model).is_file():
        return _failed(f"there is no file {options.model!r}", 2)
    if taken := _taken(options.host, options.port):
        return _failed(taken, 1)
    name = options.name or Path(options.model).stem

    def make() -> Any:
        if not Path(options.model).is_file():  # a pipe would be waited for
            raise FileNotFoundError(f"there is no file {options.model!r}")
        return pplconv.InferenceSession(
            options.model, tolerance=options.tolerance, max_memory=options.max_memory
        )

    try:
        application = app(
            make, max_json_answer=options.max_json_answer, max_held=options.max_held,
            body_timeout=options.body_timeout, answer_timeout=options.answer_timeout,
            shapes_only=options.shapes_only, max_making=options.max_making,
            name=name, max_body=options.max_body, max_json=options.max_json,
            queue_size=options.queue_size, instances=options.instances, threads=options.threads,
            mode=options.mode, max_batch=options.max_batch, max_delay=options.max_delay / 1e3,
            retries=options.retries, shutdown_timeout=options.shutdown_timeout,
            shapes=options.shape,
        )  # fmt: skip
    except (TypeError, ValueError) as error:
        return _failed(error, 2)
    open_at_once = most_connections(options.max_connections)
    server = uvicorn.Server(uvicorn.Config(
        application, host=options.host, port=options.port, lifespan="on",
        access_log=options.access_log,
        http=guarded(open_at_once, options.head_timeout, options.answer_timeout), ws="none",
        backlog=BACKLOG,
        timeout_graceful_shutdown=max(1, round(options.shutdown_timeout)),
    ))  # fmt: skip
    for logger in ("asyncio", "pplconv.serve", "uvicorn.error"):
        logging.getLogger(logger).addFilter(Rarely())
    # Reloads are told, too.
    own = logging.getLogger("pplconv.serve")
    own.setLevel(logging.INFO)
    own.handlers, own.propagate = logging.getLogger("uvicorn").handlers, False
    # The event loop and the instances take turns at the GIL. By default Python waits 5 ms before it
    # asks for the GIL, longer than small networks take.
    sys.setswitchinterval(_SWITCH_SECONDS)
    # When the server has stopped, it raises its signal again; ignore it, as nothing is left to do.
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, lambda *_: None)
        if hasattr(signal, "SIGHUP"):
            # A server that was started with nohup is to outlive its terminal.
            had_terminal = signal.getsignal(signal.SIGHUP) != signal.SIG_IGN and _has_terminal()

            def on_hangup(*_: object) -> None:
                if had_terminal and not _has_terminal():  # it was closed
                    server.should_exit = True
                else:
                    application.state.reload_soon()

            signal.signal(signal.SIGHUP, on_hangup)
    made = application.state.server
    welcome = functools.partial(_welcome, name, options.host, options.port)

    # A model that cannot be made is told in one line, which uvicorn would bury.
    log = logging.getLogger("uvicorn.error")
    log.setLevel(logging.CRITICAL)

    def begin() -> None:
        log.setLevel(logging.INFO)
        _settle()
        made.when_made = _settle
        print(welcome(*made.tensors), file=sys.stderr, flush=True)

    made.when_made = begin
    with suppress(SystemExit):  # uvicorn's, whose status is 3
        server.run()
    reason = made.failure
    if isinstance(reason, MENDABLE):
        return _failed(f"{options.model}: {str(reason) or type(reason).__name__}", 2)
    if reason is not None:
        raise reason
    return 0 if server.started else 1


def _failed(reason: object, status: int) -> int:
    """Say in one line why nothing is served."""
    print("pplconv serve:", " ".join(str(reason).split()), file=sys.stderr, flush=True)
    return status


def _taken(host: str, port: int) -> str | None:
    """Say why a port cannot be listened at, before a model is read in vain."""
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
    except OSError as error:
        where = f"{host} port {port}"
        if error.errno == errno.EADDRINUSE:
            return f"{where} is taken by another program: stop it, or choose another --port"
        if error.errno == errno.EACCES or isinstance(error, socket.gaierror):
            return f"{where}: {error.strerror}: choose another --host or --port"
    return None  # others are left to uvicorn: of several addresses, some may not exist here


def _welcome(name: str, host: str, port: int, inputs: Sequence[Any], outputs: Sequence[Any]) -> str:
    """Say what is served, and how to ask for it."""
    host = f"[{host}]" if ":" in host else host
    url = f"http://{host}:{port or 'PORT'}/v2/models/{quote(name)}"
    tensors = [
        ", ".join(f"{one.name} {one.datatype} {one.shape}" for one in some)
        for some in (inputs, outputs)
    ]
    lines = [f"pplconv serve: {name}: {tensors[0]} -> {tensors[1]}", f"  {url}/infer"]
    if len(inputs) == 1:
        output = f"?output={quote(outputs[0].name)}" if len(outputs) > 1 else ""
        lines.append(
            "  curl -H 'Content-Type: application/x-npy' --data-binary @x.npy -o y.npy "
            f"'{url}/infer{output}'"
        )
    return "\n".join(lines)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _settle() -> None:
    """Keep present objects out of garbage collections, which would visit them for 50 ms."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pplconv serve",
        description="Serve an ONNX network over HTTP by the Open Inference Protocol, version 2.",
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="an ONNX file")
    add("--name", help="of the model in paths (default: that of the file)")
    add("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
    add("--port", type=_port, default=8000, help="0: any that is free (default: %(default)s)")
    add("--instances", type=_number_or_auto, default="auto", help="of the model (default: auto)")
    add("--threads", type=_number_or_auto, default="auto", help="of each (default: auto)")
    add("--mode", choices=("thread", "process"), default="thread", help="default: %(default)s")
    add("--max-batch", type=int, default=1, metavar="ROWS", help="joined to one call")
    add("--max-delay", type=float, default=0.0, metavar="MS", help="to wait for rows to join")
    add("--queue-size", type=int, default=64, help="requests that may wait (default: %(default)s)")
    add("--max-body", type=int, default=64 << 20, metavar="BYTES", help="default: %(default)s")
    add("--max-json", type=int, default=4 << 20, metavar="BYTES", help="default: %(default)s")
    add(
        "--max-json-answer", type=int, default=32 << 20, metavar="BYTES",
        help="JSON of an answer, 24 bytes a number (default: %(default)s)",
    )  # fmt: skip
    add(
        "--max-held", type=int, metavar="BYTES",
        help="bodies and outputs of all requests (default: 1 GiB, or four times --max-body)",
    )  # fmt: skip
    add(
        "--max-memory", type=int, default=1 << 30, metavar="BYTES",
        help="arena, scratch and outputs of a run (default: %(default)s)",
    )  # fmt: skip
    add(
        "--max-connections", type=int, default=1024, metavar="N",
        help="open at once, fewer if descriptors do not suffice (default: %(default)s)",
    )  # fmt: skip
    add(
        "--head-timeout", type=_seconds, default=10.0, metavar="S",
        help="for the head of a request to come (default: %(default)s)",
    )  # fmt: skip
    add(
        "--body-timeout", type=_seconds, default=30.0, metavar="S",
        help="for the body of a request to come (default: %(default)s)",
    )  # fmt: skip
    add(
        "--answer-timeout", type=_seconds, default=60.0, metavar="S",
        help="for a client to read its answer (default: %(default)s)",
    )  # fmt: skip
    add("--retries", type=int, default=1, help="runs again if a worker dies (default: %(default)s)")
    add("--shutdown-timeout", type=float, default=30.0, metavar="S", help="default: %(default)s")
    add("--tolerance", type=float, default=1e-5, help="error to spend (default: %(default)s)")
    add(
        "--shape", type=_shapes, action="append", default=[], metavar="NAME=1x3x48x192[,...]",
        help="be ready for inputs of these shapes at the start; may be repeated",
    )  # fmt: skip
    add("--access-log", action="store_true", help="a line for each request")
    add("--shapes-only", action="store_true", help="refuse all other shapes")
    add(
        "--max-making", type=int, default=8, metavar="N",
        help="other shapes that may wait for their programs (default: %(default)s)",
    )  # fmt: skip
    return parser


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{text!r} is no port, 0 to 65535")
    return int(text)


def _number_or_auto(text: str) -> Any:
    return text if text == "auto" else int(text)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds


def _shapes(text: str) -> dict[str, tuple[int, ...]]:
    found = {}
    # Sizes are written 1x3x48x192 or 1,3,48,192, so a comma may end a shape or a size.
    for part in re.split(",(?=[^,]*=)", text):
        name, equals, sizes = part.rpartition("=")
        numbers = re.split("[x,]", sizes)
        if not equals or not name or not all(n.isascii() and n.isdigit() for n in numbers):
            raise argparse.ArgumentTypeError(f"{part!r} is no NAME=1x3x48x192")
        found[name] = tuple(map(int, numbers))
    return found
