"""Command line: ``python -m pplconv`` lists the commands."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

from .commands import (
    bench_instances,
    compile_command,
    demo,
    doctor,
    profile_command,
    prune_command,
    search,
)

_FIRST_STEPS = """\
Filters of images, layers and networks, fast on CPUs, from NumPy. A first picture, and filter:

  python -m pplconv demo
  python -c "import numpy as np, pplconv; print(pplconv.imaging.box(np.eye(5) * 9, 3))"

This machine:

  python -m pplconv info                  what it has, and the choices for it
  python -m pplconv doctor                what holds speed back

With the file of an ONNX network (pip install 'pplconv[onnx]'):

  python -m pplconv profile model.onnx    times of its steps, on a page
  python -m pplconv compile model.onnx    keep it compiled: it opens in milliseconds
  python -m pplconv search model.onnx     plans measured once, and remembered
  python -m pplconv serve model.onnx      over HTTP (pip install 'pplconv[onnx,serve]')

python -m pplconv --help lists all commands."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments after the program's name; those of this process by default.

    Returns
    -------
    int
        Exit status: 0 if all went well, 1 if the doctor finds something slow, 2 if an argument, a
        setting or an extra is at fault, 130 if interrupted, 141 if the output's reader closes it
        early.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _command(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # A reader such as `head` closed the pipe. Discard the rest, so that Python exits quietly.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return status


def _command(arguments: list[str]) -> int:
    # Everything after "serve" belongs to the server, even options that look like ours, so it is
    # taken off before our parser sees it.
    if arguments[:1] == ["serve"]:
        return _serve(arguments[1:])
    options = _parser().parse_args(arguments)
    if options.command == "search":
        return search.run(options)
    if options.command == "profile":
        return profile_command.run(options)
    if options.command == "compile":
        return compile_command.run(options)
    if options.command == "prune":
        return prune_command.run(options)
    if options.command == "bench-instances":
        return bench_instances.run(options)
    if options.command == "demo":
        return demo.run(options)
    if options.command == "doctor":
        return doctor.run(options)
    if options.command == "info":
        return _info(options.json, options.kernels)
    print(_FIRST_STEPS)
    return 0


def _parser() -> argparse.ArgumentParser:
    import pplconv

    parser = argparse.ArgumentParser(
        prog="python -m pplconv", description="2-D convolution for NumPy on packed-weight kernels."
    )
    parser.add_argument("--version", action="version", version=f"pplconv {pplconv.__version__}")
    commands = parser.add_subparsers(
        dest="command",
        metavar="{info,demo,doctor,search,profile,compile,prune,bench-instances,serve}",
    )
    info = commands.add_parser("info", help="show CPU, caches and threads")
    info.add_argument("--json", action="store_true", help="print a JSON object")
    info.add_argument("--kernels", action="store_true", help="list all kernels, too")
    demo.add_arguments(commands.add_parser("demo", help="write a first picture, without any file"))
    doctor.add_arguments(commands.add_parser("doctor", help="say what holds speed back here"))
    search.add_arguments(
        commands.add_parser("search", help="measure the plans of layers, and remember them")
    )
    profile_command.add_arguments(
        commands.add_parser("profile", help="time the steps of a network, and draw a page of them")
    )
    compile_command.add_arguments(
        commands.add_parser("compile", help="keep a compiled network in a file that opens at once")
    )
    prune_command.add_arguments(
        commands.add_parser("prune", help="prune a network, and tell what its layers would gain")
    )
    bench_instances.add_arguments(
        commands.add_parser("bench-instances", help="measure instances and teams of a model")
    )
    commands.add_parser("serve", help="serve an ONNX network over HTTP (serve -h)")
    return parser


def _info(as_json: bool, kernels: bool) -> int:
    from .commands import info
    from .config import current

    try:
        current()
    except ValueError as error:  # a malformed setting, which the user can mend
        print(f"pplconv info: {error}", file=sys.stderr)
        return 2
    if as_json:
        print(json.dumps(info.config(), indent=2))
    else:
        info.show_config(kernels=kernels)
    return 0


def _serve(arguments: list[str]) -> int:
    try:
        from pplconv.integrations.asgi import command

        return int(command.main(arguments) or 0)
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", "pplconv"):
            raise  # a broken installation; no extra mends that
        print(
            f"pplconv serve: the module {missing!r} is missing; what it needs is installed by\n"
            "    pip install pplconv[onnx,serve]",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        print("pplconv serve: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
