"""``python -m tools.arm [--target] {tools,wheel,test,demo}``; ``make/arm.mk`` calls it."""

from __future__ import annotations

import argparse
import subprocess
import sys

from tools.arm import bytecode
from tools.arm.demo import SIDE, run_demo
from tools.arm.host import SetUpError, ensure_tools
from tools.arm.kept import alone, say
from tools.arm.suite import installed_package, run_suite
from tools.arm.targets import AARCH64, TARGETS
from tools.arm.wheel import make_build_tools, make_wheel


def main() -> int:
    """Run the command line; give the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.arm", description=__doc__)
    parser.add_argument(
        "--target", choices=TARGETS, default=AARCH64.machine, help="machine (default %(default)s)"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("tools", help="only what comes from elsewhere: emulator, compiler, sysroot")
    commands.add_parser("wheel", help="all but the tests; says where the emulated Python is")
    test = commands.add_parser("test", help="the suite on each emulated CPU, or a share of it")
    test.add_argument("--one-in", type=int, default=1, metavar="N", help="of N shares, one each")
    test.add_argument("--first", type=int, metavar="K", help="share of the first CPU; else drawn")
    test.add_argument("arguments", nargs=argparse.REMAINDER, help="for pytest")
    demo = commands.add_parser("demo", help="the demo, compared with the host's")
    demo.add_argument("--side", type=int, default=SIDE, help="of the picture (default %(default)s)")
    chosen = parser.parse_args()
    if chosen.command == "test" and chosen.one_in < 1:
        parser.error(f"--one-in is {chosen.one_in}, expected at least 1")
    target = TARGETS[chosen.target]
    try:
        with alone(target.build):
            ensure_tools(target)
            if chosen.command == "tools":
                make_build_tools(target)
                return 0
            make_wheel(target)
            package = installed_package(target)
            if target.package not in package.parents:
                raise SetUpError(f"the emulated Python imports {package}, not the wheel")
            bytecode.provide(target)
            if chosen.command == "test":
                return run_suite(target, chosen.arguments, chosen.one_in, chosen.first)
            if chosen.command == "demo":
                return run_demo(target, chosen.side)
            say(f"installed for {target.python}")
    except (SetUpError, subprocess.CalledProcessError) as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
