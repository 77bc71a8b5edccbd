"""One run executes each test under each lower cap, and names the cap of each failure."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.caps import lower
from tests.test_shares import run_file

pytestmark = [
    pytest.mark.unemulated("starts pytest in processes"),
    pytest.mark.skipif(len(lower()[0]) < 1, reason="this CPU, or the cap, has one level"),
]

FILE = """
import os
import signal
import pytest
from tests.levels import allowed_isas
from pplconv import config

CAP = os.environ.get("PPLCONV_MAX_ISA")

def test_the_package_and_the_tests_know_the_cap():
    assert config.current().max_isa == allowed_isas()[-1] == os.environ["PPLCONV_MAX_ISA"]

@pytest.mark.narrow
def test_is_narrow():
    assert os.environ["PPLCONV_MAX_ISA"] != CAP  # collected once

@pytest.fixture(scope="module")
def noted():
    yield
    with open("torn_down", "a") as file:
        file.write(os.environ["PPLCONV_MAX_ISA"] + " ")

def test_of_a_fixture(noted):
    pass

@pytest.mark.parametrize("i", range(3))
def test_wrong_of_portable(i):
    if i == 1 and os.environ["PPLCONV_MAX_ISA"] == "portable":
        WRONG

def test_after():
    pass
"""


def run_caps(folder, text, *arguments):
    path = folder / "test_it.py"
    path.write_text(text)
    return run_file(path, "-p", "no:randomly", "--caps", *arguments)


def test_each_test_runs_under_each_cap(tmp_path):
    whole, narrow = lower()
    done = run_caps(
        tmp_path,
        FILE.replace("WRONG", "pass").replace('"torn_down"', repr(str(tmp_path / "torn_down"))),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{7 * len(whole) + len(narrow)} passed" in done.stdout
    found = dict(re.findall(r"^(\w+) +(\d+) tests", done.stdout, re.MULTILINE))
    assert found == {cap: "7" for cap in whole} | {cap: "1" for cap in narrow}
    assert Counter((tmp_path / "torn_down").read_text().split()) == Counter(whole)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("assert not 'so'", "assert not 'so'"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "the process ended with status -11 in this test"),
        ("os._exit(0)", "the process ended with status 0 in this test"),
    ],
)
def test_what_fails_is_named_with_its_cap(tmp_path, wrong, said):
    """All other tests still run after a crash."""
    done = run_caps(tmp_path, FILE.replace("WRONG", wrong).replace('"torn_down"', "os.devnull"))
    whole, narrow = lower()
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"1 failed, {7 * len(whole) + len(narrow) - 1} passed" in done.stdout
    name = "test_it.py::test_wrong_of_portable[1]"
    assert f"{name} under PPLCONV_MAX_ISA=portable" in done.stdout
    assert re.search(f"alone: PPLCONV_MAX_ISA=portable pytest '.*{re.escape(name)}'", done.stdout)
    assert said in done.stdout


def test_the_first_failure_can_end_the_run(tmp_path):
    done = run_caps(
        tmp_path,
        FILE.replace("WRONG", "assert 0").replace('"torn_down"', "os.devnull"),
        "--maxfail=1",
    )
    assert done.returncode == 1 and "stopping after 1 failures" in done.stdout
