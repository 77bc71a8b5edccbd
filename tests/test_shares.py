"""Shares reach every file, and a run prints the files and instruction sets that it left out."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from asm.registry import ISAS
from pplconv import _kernels
from pplconv.architecture import LADDERS
from tests import absent, caps, children
from tests.instruction_sets import REQUIRE, describe
from tests.levels import LADDER, MACHINE, allowed_isas, executable_isas, why_not
from tests.shares import drawn, in_part, kept

ROOT = Path(__file__).resolve().parents[1]
USAGE_ERROR = 4
starts_pytest = pytest.mark.unemulated("starts pytest in processes")
# A fast file that tests kernels of every level of every architecture.
FILE = "tests/kernels/test_zero_lanes.py"


def run_pytest(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a process with these variables; other variables that change a run are unset."""
    ours = ("PPLCONV_MAX_ISA", "PPLCONV_TEST_", "PYTEST_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    # The installed package is tested: the folder of the sources is taken off the path.
    code = "import sys; sys.path.pop(0); import pytest; sys.exit(pytest.main())"
    usual = "-c", code, "-q", "-p", "no:cacheprovider", "-p", "no:xdist"
    return children.python(*usual, *arguments, cwd=ROOT, env=environment | variables)


def run_file(path: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a file elsewhere with the hooks of this suite."""
    own = "-p", "conftest", f"--rootdir={path.parent}", str(path)
    return run_pytest(*own, *arguments, PYTHONPATH="tests", **variables)


@pytest.mark.parametrize("one_in", [1, 4, 32, 96])
@pytest.mark.parametrize("seed", range(4))
def test_every_share_has_a_test_of_each_file_and_all_have_all(seed, one_in):
    """Files of tests with 1 to 400 cases: a share has about one case in `one_in`."""
    rng = random.Random(seed)
    tests = {
        f"tests/test_it.py::test_{i}": rng.choice([1, 1, 2, 3, 31, 95, 96, 400]) for i in range(9)
    }
    tests = dict(list(tests.items())[: rng.randint(1, 9)])
    everything = {(name, str(case)) for name, cases in tests.items() for case in range(cases)}
    seen, sizes = set(), []
    for share in range(one_in):
        found = {
            (name, case)
            for name in kept(tests, one_in, share)
            for case in drawn(map(str, range(tests[name])), one_in, share)
        }
        assert found
        assert kept(dict(reversed(tests.items())), one_in, one_in + share) == {n for n, _ in found}
        seen |= found
        sizes.append(len(found))
    assert seen == everything
    assert sum(sizes) <= 2 * len(everything) + one_in


@pytest.mark.parametrize("parts", [1, 4, 5])
def test_each_file_is_in_one_part_and_those_about_instruction_sets_in_each(parts):
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    within = {file: sum(in_part(file, part, parts) for part in range(parts)) for file in files}
    assert set(within.values()) == {1, parts}
    assert all(within[file] == parts for file in files if file.parent.name == "kernels")
    assert within[ROOT / "tests/api/test_bfloat16.py"] == parts
    assert within[ROOT / "tests/network/test_recurrent.py"] == 1
    sizes = [sum(in_part(file, part, parts) for file in files) for part in range(parts)]
    assert max(sizes) - min(sizes) < len(files) / 8


@starts_pytest
def test_a_part_has_as_much_of_a_file_as_all_runs_would_have():
    folder = "tests/quant"
    whole = ran(folder, "--one-in=8", "--share=2")
    parts = [ran(folder, "--one-in=32", "--share=9", f"--part={part}/4") for part in range(4)]
    assert sorted(name for part in parts for name in part) == sorted(whole)
    files = [{name.partition("::")[0] for name in part} for part in parts]
    assert (
        sum(map(len, files)) == len(set.union(*files)) == len(list(ROOT.glob(f"{folder}/test_*")))
    )


def ran(*arguments: str) -> list[str]:
    """Node ids of the tests that a run would have."""
    done = run_pytest("--collect-only", "-p", "no:randomly", *arguments)
    assert not done.stderr
    return [line for line in done.stdout.splitlines() if "::test_" in line]


def test_a_line_for_each_instruction_set():
    ran = Counter({name: 10 + i for i, name in enumerate(LADDER)})
    lines = describe(ran, Counter({name: 7 for name in LADDER}))
    assert [line.split()[0] for line in lines] == list(LADDER)
    for i, (name, line) in enumerate(zip(LADDER, lines, strict=True)):
        if name in allowed_isas():
            assert f"run: {10 + i} tests" in line
        else:
            assert f"NOT RUN HERE: {why_not(name)}; 7 tests" in line
    (best,) = (line for line in lines if "that name none" in line)
    assert best.split()[0] == allowed_isas()[-1]


@starts_pytest
def test_tests_that_name_an_instruction_set_can_be_left_out():
    rows = [row for row in _kernels.rows() if row["op"] == "zero_lanes"]
    named = sum(row["isa"] in executable_isas() for row in rows)
    done = run_pytest(FILE, "--unnamed")
    assert f"{named} tests name one of these" in done.stdout
    # So are those whose instruction set the CPU lacks.
    assert f"{len(rows)} deselected" in done.stdout
    assert "tests of its own" not in describe(Counter(), Counter({"named": 1}))[0]


@starts_pytest
def test_what_a_cap_leaves_out_is_counted(tmp_path):
    account = tmp_path / "account.json"
    done = run_pytest(FILE, f"--account={account}", PPLCONV_MAX_ISA="portable")
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(account.read_text())
    built = Counter(row["isa"] for row in _kernels.rows() if row["op"] == "zero_lanes")
    for name, line in zip(LADDER, told["instruction sets"], strict=True):
        assert line in done.stdout
        if name == "portable":
            assert "run: " in line
            continue
        assert "NOT RUN HERE: PPLCONV_MAX_ISA=portable caps it" in line
        left_out = int(line.partition("; ")[2].split()[0])
        assert left_out >= built[name] and (left_out > 0) == (built[name] > 0)
    assert told["files"].keys() == {FILE}
    assert told["files"][FILE]["run"] >= built["portable"]


@pytest.mark.slow
@starts_pytest
@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (LADDER[-1], "which would not run: PPLCONV_MAX_ISA=portable caps it"),
        ("sse9", f"expected some of {', '.join(LADDER)}"),
    ],
    ids=["capped", "unknown"],
)
def test_a_required_set_that_is_missing_ends_the_run_before_it_begins(asked, text):
    done = run_pytest(FILE, PPLCONV_MAX_ISA="portable", **{REQUIRE: f"portable,{asked}"})
    assert done.returncode == USAGE_ERROR, done.stdout + done.stderr
    assert f"{REQUIRE} names {asked}, {text}" in done.stderr
    assert "passed" not in done.stdout
    assert run_pytest(FILE, **{REQUIRE: "portable"}).returncode == 0


@pytest.mark.sampled(2)
@pytest.mark.skipif(MACHINE != "x86_64", reason="hides what CPUID says")
@pytest.mark.parametrize("name", ["avx2", "avxvnni", "avx512", "avx512vnni"])
def test_a_machine_that_lacks_an_instruction_set(name):
    """The package, a child process and the tests all see a machine without the set."""
    code = (
        "import subprocess, sys; sys.path.append('..')\n"
        "from tests import absent; absent.install()\n"
        "code = 'import pplconv.machine; print(*pplconv.machine.current().isas)'\n"
        "exec(code); sys.stdout.flush()\n"
        "subprocess.run([sys.executable, '-c', code], check=True)\n"
        "from tests import levels; print(*levels.executable_isas())\n"
    )
    # The folder is beside the helpers, without the sources of the package.
    environment = os.environ | {absent.VARIABLE: name}
    done = children.python("-c", code, cwd=ROOT / "tests", env=environment, check=True)
    needing = [isa for isa in LADDER if set(ISAS[name].features) <= set(ISAS[isa].features)]
    expected = [isa for isa in allowed_isas() if isa not in needing]
    here, started, tests = (line.split() for line in done.stdout.splitlines())
    assert here == started == tests
    assert not set(needing) & set(here) and set(expected) <= set(here)


def test_a_level_that_cannot_be_hidden_is_refused(monkeypatch):
    known = " or ".join(LADDERS["x86_64"][1:])
    monkeypatch.setenv(absent.VARIABLE, "avx512,sse9")
    assert absent.usage_error() == f"{absent.VARIABLE} names sse9, expected {known}"
    assert absent.names() == ("avx512", "avx512vnni", "avx512bf16", "amx")
    monkeypatch.setenv(absent.VARIABLE, "avx2")
    assert (absent.usage_error(), absent.names()) == ("", LADDERS["x86_64"][1:])
    monkeypatch.setenv(absent.VARIABLE, "avxvnni,amx")
    assert (absent.usage_error(), absent.names()) == ("", ("avxvnni", "avxvnniint8", "amx"))


def test_each_lower_cap_has_a_share_of_ci():
    """Each lower cap is in one list; caps of narrow types change nothing for other types."""
    whole, narrow = caps.lower()
    isas = allowed_isas()
    assert not set(whole) & set(narrow)
    assert [isa for isa in isas if isa in (*whole, *narrow)] == isas[:-1]

    def levels(types: tuple[str, ...], cap: str) -> set[str]:
        below = isas[: isas.index(cap) + 1]
        return {isa for isa in below if set(ISAS[isa].dtypes) & set(types)}

    every = ("f16", "f32", "f64")
    told_apart = [levels(every, cap) for cap in (*whole, isas[-1])]
    assert all(levels(every, cap) in told_apart for cap in narrow)
    assert len({frozenset(found) for found in told_apart}) == len(told_apart)
