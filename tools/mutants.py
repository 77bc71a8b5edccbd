"""Mutants of the package's Python: which tier of the tests notices that a line is wrong.

    python -m tools.mutants --rooms planner,network --count 12

A mutant is the installed package, copied, with one operator, comparison, number or condition
changed, drawn from the modules of a room. For each mutant the fast tier of the room's tests runs
until a test fails. The slow tier meets all survivors at once; where it fails, each half of them,
and so on. (Two changes that hide each other would pass; most survivors compute the same.) A line
names each mutant. The table at the end gives, by room, the share of killed mutants that the fast
tier kills.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The installed package, where there is one, rather than the sources.
sys.path[:] = [*(entry for entry in sys.path if Path(entry).resolve() != ROOT), str(ROOT)]

import pplconv  # noqa: E402

PACKAGE = Path(pplconv.__file__).resolve().parent
ROOMS = (
    "algorithms", "api", "imaging", "instances", "machine", "network", "planner", "quant", "wisdom",
)  # fmt: skip

# Rooms of tests that are about a room, where its own are not all.
TESTS = {"algorithms": ("algorithms", "planner"), "machine": ("machine", "planner")}

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}  # fmt: skip

# pytest's statuses; a module that cannot be imported breaks a run off.
_PASSED, _FAILED, _BROKEN_OFF, _NO_TESTS = 0, 1, 2, 5


@dataclass(frozen=True)
class Mutant:
    """One change.

    Parameters
    ----------
    path : Path
        Of the module, below the package.
    index : int
        Its number among the changes of the module.
    line : int
        Where it is.
    what : str
        The expression as it is now, and the line that it was in.
    """

    path: Path
    index: int
    line: int
    what: str

    def __str__(self) -> str:
        """Say where and what."""
        return f"{self.path}:{self.line}: {self.what}"


def changes(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield each expression that can be changed, changed, and then put back."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
            own = node.ops[0]
            node.ops[0] = _COMPARISONS[type(own)]()
            yield node
            node.ops[0] = own
        elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
                continue
            operator = node.op
            node.op = _OPERATORS[type(operator)]()
            yield node
            node.op = operator
        elif isinstance(node, ast.BoolOp):
            word = node.op
            node.op = ast.Or() if isinstance(word, ast.And) else ast.And()
            yield node
            node.op = word
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            number = node.value
            node.value = number + 1
            yield node
            node.value = number


def draw(room: str, count: int, rng: random.Random) -> list[Mutant]:
    """Draw mutants of a room's modules, each change as likely as any other."""
    places = [
        (path, index)
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for index, _ in enumerate(changes(ast.parse(path.read_text())))
    ]
    return [_mutant(path, index) for path, index in rng.sample(places, min(count, len(places)))]


def _mutant(path: Path, index: int) -> Mutant:
    source = path.read_text()
    tree = ast.parse(source)
    node = next(itertools.islice(changes(tree), index, None))
    line: int = node.lineno  # type: ignore[attr-defined]
    before = source.splitlines()[line - 1].strip()
    what = f"{ast.unparse(node)!r} in {before!r}"
    return Mutant(path.relative_to(PACKAGE), index, line, what)


def changed(path: Path, indices: Iterable[int]) -> str:
    """Return a module's text with all of these changes."""
    tree = ast.parse((PACKAGE / path).read_text())
    # From the last to the first: a change may be no place for another one any more.
    for index in sorted(indices, reverse=True):
        next(itertools.islice(changes(tree), index, None))
    return ast.unparse(tree)


def survive(mutants: Sequence[Mutant], room: str, tier: str, folder: Path) -> bool:
    """Run a tier of a room's tests with the package in `folder`, changed by all of them."""
    package = folder / "pplconv"
    paths = {mutant.path for mutant in mutants}
    for path in paths:
        text = changed(path, [mutant.index for mutant in mutants if mutant.path == path])
        (package / path).write_text(text)
    # No folder of the sources on the path, in any version of Python.
    code = "import sys; sys.path.pop(0); import pytest; sys.exit(pytest.main())"
    command = [sys.executable, "-c", code, "-x", "-q", "-n", "auto", f"--tier={tier}"]
    tests = TESTS.get(room, (room,))
    try:
        done = subprocess.run(
            [*command, "-p", "no:cacheprovider", *(f"tests/{name}" for name in tests)],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=900,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False  # what does not end is noticed
    finally:
        for path in paths:
            shutil.copy2(PACKAGE / path, package / path)
    if done.returncode not in (_PASSED, _FAILED, _BROKEN_OFF, _NO_TESTS):
        raise RuntimeError(f"pytest ends with {done.returncode}: {done.stdout[-2000:]!r}")
    return done.returncode in (_PASSED, _NO_TESTS)


def killed(mutants: Sequence[Mutant], room: str, tier: str, folder: Path) -> list[Mutant]:
    """Return those that a tier kills, found by halves."""
    if not mutants or survive(mutants, room, tier, folder):
        return []
    if len(mutants) == 1:
        return list(mutants)
    middle = len(mutants) // 2
    return [
        mutant
        for half in (mutants[:middle], mutants[middle:])
        for mutant in killed(half, room, tier, folder)
    ]


def main(arguments: list[str]) -> int:
    """Print a line for each mutant, and a table."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("--rooms", default=",".join(ROOMS), help=f"default {','.join(ROOMS)}")
    parser.add_argument("--count", type=int, default=12, help="mutants of each room (12)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the draw")
    asked = parser.parse_args(arguments)
    print(f"drawn by --seed={asked.seed}", flush=True)
    table = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(PACKAGE, folder / "pplconv", ignore=shutil.ignore_patterns("__pycache__"))
        for room in asked.rooms.split(","):
            if not all(survive([], room, tier, folder) for tier in ("fast", "slow")):
                print(f"{room}: its tests fail without any mutant", file=sys.stderr)
                return 1
            drawn = draw(room, asked.count, random.Random(f"{asked.seed}{room}"))
            kills = {"fast": 0}
            left = []
            for mutant in drawn:
                if survive([mutant], room, "fast", folder):
                    left.append(mutant)
                else:
                    kills["fast"] += 1
                    print(f"{room}: killed by the fast tier: {mutant}", flush=True)
            slow = killed(left, room, "slow", folder)
            for mutant in left:
                by = "the slow tier alone" if mutant in slow else "neither tier"
                print(f"{room}: killed by {by}: {mutant}", flush=True)
            kills |= {"slow": len(slow), "none": len(left) - len(slow)}
            table.append((room, kills))
    print("| room | killed by the fast tier | by the slow one alone | by neither | fast / killed |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for room, kills in table:
        noticed = kills["fast"] + kills["slow"]
        share = f"{100 * kills['fast'] / noticed:.0f} %" if noticed else "-"
        print(f"| {room} | {kills['fast']} | {kills['slow']} | {kills['none']} | {share} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
