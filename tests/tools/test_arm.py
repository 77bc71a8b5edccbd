"""Parts of `make test-arm` that need no emulator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.arm import bytecode, emulated, host, suite, sysroot, wheel
from tools.arm.kept import digest, keep
from tools.arm.targets import AARCH64, ARMV7L, TARGETS, Target
from tools.wheels import foreign

# Targets of tests, and targets of wheels only; each also with the place of its second build.
ALL = [*TARGETS.values(), *(one for one in foreign.TARGETS if one not in TARGETS.values())]
ALL += [one.elsewhere for one in ALL]
METADATA = [
    "numpy>=1.25",
    'onnx>=1.23; extra == "demo"',
    'pplconv[demo,report]; extra == "test"',
    'pytest>=8.2; extra == "test"',
    'pplconv[bench]; extra == "report"',
    'matplotlib>=3.8; extra == "report"',
    'pytest-benchmark>=5; extra == "bench"',
    'ruff>=0.17; extra == "dev"',
]


def test_parts_of_a_key_do_not_run_together():
    assert digest("ab", "c") != digest("a", "bc") != digest("abc")


def test_a_folder_is_made_once_for_what_it_is_made_of(tmp_path):
    made = []

    def make(folder):
        made.append(folder)
        (folder / "content").write_text(str(len(made)))

    folder = tmp_path / "kept"
    assert keep(folder, "a", "it", make)
    assert not keep(folder, "a", "it", make)
    assert (folder / "content").read_text() == "1"
    assert keep(folder, "b", "it", make)
    assert (folder / "content").read_text() == "2"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_what_an_interrupted_run_leaves_is_made_again(tmp_path):
    def interrupted(folder):
        (folder / "half").write_text("")
        raise KeyboardInterrupt

    folder = tmp_path / "kept"
    keep(folder, "a", "it", lambda made: (made / "whole").write_text(""))
    with pytest.raises(KeyboardInterrupt):
        keep(folder, "b", "it", interrupted)
    assert (folder / "whole").exists(), "what was there stays until there is something new"
    assert keep(folder, "b", "it", lambda made: (made / "new").write_text(""))
    assert {path.name for path in folder.iterdir()} == {"new", ".made-of"}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_missing_tools_are_named_as_debian_names_them(monkeypatch, target):
    monkeypatch.setattr(host.shutil, "which", lambda name: None)
    monkeypatch.setattr(host.os, "geteuid", lambda: 1000)
    with pytest.raises(host.SetUpError, match=r"apt-get install.*qemu-user-static") as raised:
        host.ensure_tools(target)
    assert f"gcc-{target.triple}" in str(raised.value)


def test_root_has_them_installed(monkeypatch):
    commands = []
    monkeypatch.setattr(
        host, "missing_packages", lambda _: [] if commands else ["qemu-user-static"]
    )
    monkeypatch.setattr(host.os, "geteuid", lambda: 0)
    monkeypatch.setattr(host.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(host, "run", lambda *command, **_: commands.append(command))
    known = " ".join(cpu.partition(",")[0] for cpu in AARCH64.cpus)
    answer = subprocess.CompletedProcess([], 0, known)
    monkeypatch.setattr(host.subprocess, "run", lambda *_, **__: answer)
    host.ensure_tools(AARCH64)
    assert [command[:2] for command in commands] == [("apt-get", "update"), ("apt-get", "install")]
    assert commands[1][-1] == "qemu-user-static"


def test_an_emulator_that_lacks_a_cpu_is_refused(monkeypatch):
    monkeypatch.setattr(host, "missing_packages", lambda _: [])
    answer = subprocess.CompletedProcess([], 0, "cortex-a72 max")
    monkeypatch.setattr(host.subprocess, "run", lambda *_, **__: answer)
    with pytest.raises(host.SetUpError, match="lacks CPUs"):
        host.ensure_tools(AARCH64)


def test_nothing_of_two_targets_lies_in_one_place():
    names = ("build", "sysroot", "build_packages", "package", "python", "toolchain")
    for name in names:
        assert len({getattr(target, name) for target in ALL}) == len(ALL)


def test_lists_of_packages_of_another_release():
    texts = {
        "debian.sources": "URIs: http://host/debian\nSuites: bookworm bookworm-updates\n",
        "sources.list": "deb http://host/debian-security bookworm-security main\n",
        "other.list": "deb https://host/apt sdk-bookworm main\n",
        "node.list": "deb https://host/node nodistro main\n",
    }
    assert sysroot.of_release(texts, "bookworm", "trixie") == {
        "debian.sources": "URIs: http://host/debian\nSuites: trixie trixie-updates\n",
        "sources.list": "deb http://host/debian-security trixie-security main\n",
    }


def test_what_debian_has_is_not_asked_of_the_index():
    found = wheel._of_extra("test", METADATA) | wheel._of_extra("", METADATA)
    kept = {text for text in found if wheel._name(text) not in ARMV7L.not_from_index}
    assert kept == {"pytest>=8.2", "pytest-benchmark>=5"}
    assert wheel._name("Scikit_Image>=0.22") == "scikit-image"


def test_an_extra_asks_for_what_its_extras_ask_for():
    assert wheel._of_extra("", METADATA) == {"numpy>=1.25"}
    assert wheel._of_extra("test", METADATA) == {
        "onnx>=1.23",
        "pytest>=8.2",
        "matplotlib>=3.8",
        "pytest-benchmark>=5",
    }


def test_emulated_processes_keep_their_bytecode(monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    env = emulated.environment(AARCH64)
    assert "PYTHONDONTWRITEBYTECODE" not in env
    assert env["PYTHONPYCACHEPREFIX"] == str(AARCH64.build / "bytecode")


@pytest.fixture
def target(monkeypatch, tmp_path):
    """Give a target whose Python is of this version, beside a module and a test."""
    monkeypatch.setattr(Target, "build", tmp_path / "build")
    monkeypatch.setattr(bytecode, "ROOT", tmp_path)
    version = "{}.{}".format(*sys.version_info)
    monkeypatch.setattr(bytecode, "python_version", lambda target: version)
    AARCH64.package.mkdir(parents=True)
    (AARCH64.package / "module.py").write_text("x = 1\n")
    (tmp_path / "tests" / "room").mkdir(parents=True)
    (tmp_path / "tests" / "room" / "test_it.py").write_text("def test_it(): assert True\n")
    return AARCH64


def run_emulated(target, *arguments):
    """Run this Python as the emulated one is run; tell when each file of bytecode was written."""
    env = emulated.environment(target, PYTHONPATH=str(target.package))
    command = [sys.executable, *arguments]
    subprocess.run(command, env=env, cwd=bytecode.ROOT, check=True, stdout=subprocess.PIPE)
    return {path: path.stat().st_mtime_ns for path in target.build.rglob("*.pyc")}


def test_the_bytecode_of_the_host_is_used(target):
    runs = (["-c", "import module"], ["-m", "pytest", "-p", "no:cacheprovider", "tests"])
    own = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run([sys.executable, *runs[1]], env=own, cwd=bytecode.ROOT, check=True)
    bytecode.provide(target)
    given = {path: path.stat().st_mtime_ns for path in target.build.rglob("*.pyc")}
    assert {path.name.partition(".")[0] for path in given} == {"module", "test_it"}
    for arguments in runs:
        assert given.items() <= run_emulated(target, *arguments).items()
    (target.package / "module.py").write_text("x = 1 + 1\n")
    written = run_emulated(target, *runs[0])
    assert [path.name.partition(".")[0] for path in given if written[path] != given[path]] == [
        "module"
    ]


def test_bytecode_of_another_python_is_not_given(target, monkeypatch):
    monkeypatch.setattr(bytecode, "python_version", lambda target: "3.1")
    bytecode.provide(target)
    assert not list(target.build.rglob("*.pyc"))


class Emulator:
    """Stands in for `subprocess.run`; `statuses` are pytest's, by CPU."""

    def __init__(self):
        self.statuses, self.commands = {}, {}
        self.files, self.broken_off = {}, set()

    def __call__(self, command, *, env, **_):
        cpu = env["QEMU_CPU"]
        self.commands[cpu] = command
        (account,) = options(command, "account")
        if cpu not in self.broken_off:
            told = {"files": self.files.get(cpu, {}), "instruction sets": [f"neon run on {cpu}"]}
            Path(account).write_text(json.dumps(told))
        text = f"so it went on {cpu}\n=== 3 passed ===\n"
        return subprocess.CompletedProcess(command, self.statuses.get(cpu, 0), text)


@pytest.fixture
def emulator(monkeypatch, tmp_path):
    stand_in = Emulator()
    monkeypatch.setattr(suite.subprocess, "run", stand_in)
    monkeypatch.setattr(Target, "build", tmp_path)
    monkeypatch.setattr(suite, "environment", lambda _, cpu, **more: {"QEMU_CPU": cpu, **more})
    return stand_in


def options(command, name):
    return [word.partition("=")[2] for word in command if word.startswith(f"--{name}=")]


def test_each_cpu_runs_another_share(emulator, capfd):
    assert suite.run_suite(AARCH64, [], 8, first=6) == 0
    assert set(emulator.commands) == set(AARCH64.cpus)
    shares = [options(emulator.commands[cpu], "share") for cpu in AARCH64.cpus]
    assert shares == [["6"], ["7"], ["0"], ["1"], ["2"]]
    assert all(options(c, "one-in") == ["8"] for c in emulator.commands.values())
    parts = [options(emulator.commands[cpu], "part") for cpu in AARCH64.cpus]
    assert parts == [["1/5"], ["2/5"], ["3/5"], ["4/5"], ["0/5"]]
    assert all(command[-1] == "tests" for command in emulator.commands.values())
    scratch = {Path(options(c, "basetemp")[0]) for c in emulator.commands.values()}
    assert len(scratch) == 5 and all(folder.parent.is_dir() for folder in scratch)
    printed = capfd.readouterr()
    assert "--one-in=8 --first=6" in printed.err
    assert "cortex-a72           passed in 0 s: 3 passed" in printed.err
    assert "so it went" not in printed.out


def test_where_shares_begin_is_drawn(emulator, monkeypatch):
    monkeypatch.setattr(suite.random, "randrange", lambda end: end - 2)
    suite.run_suite(AARCH64, [], 30)
    assert options(emulator.commands[AARCH64.cpus[0]], "share") == ["28"]


@pytest.mark.parametrize("status", [1, -11])
def test_what_failed_is_shown_and_decides(emulator, capfd, status):
    """A crash is a failure as well."""
    emulator.statuses = {"a64fx": status}
    assert suite.run_suite(AARCH64, [], 1) == abs(status)
    printed = capfd.readouterr()
    assert "so it went on a64fx" in printed.out and "neoverse" not in printed.out
    assert f"a64fx                FAILED ({status})" in printed.err


@pytest.mark.parametrize(("one_in", "status"), [(32, 0), (1, 5)])
def test_a_share_may_have_none_of_the_tests_that_were_asked_for(emulator, one_in, status):
    emulator.statuses = {"cortex-a72": 5}
    assert suite.run_suite(AARCH64, ["tests/kernels", "-k", "gemm"], one_in, 0) == status
    assert emulator.commands["cortex-a72"][-3:] == ["-k", "gemm", "tests/kernels"]
    assert not any(options(command, "part") for command in emulator.commands.values())


def counts(able, run, skipped=0):
    return {"able": able, "run": run, "skipped": skipped}


def test_what_was_reached_is_said(emulator, capfd):
    first, second, *_ = AARCH64.cpus
    emulator.files = {
        first: {"tests/test_a.py": counts(9, 1), "tests/test_b.py": counts(2, 0, 1)},
        second: {"tests/test_b.py": counts(2, 1), "tests/test_c.py": counts(0, 0)},
    }
    assert suite.run_suite(AARCH64, [], 32, 0) == 0
    printed = capfd.readouterr().err
    assert "2 of 2 test files that can be emulated ran on at least one of 5 CPUs" in printed
    assert "NOT COVERED" not in printed
    assert all(f"{cpu}: neon run on {cpu}" in printed for cpu in AARCH64.cpus)


@pytest.mark.parametrize(
    ("found", "why"),
    [(counts(3, 0), "no test was chosen"), (counts(3, 0, 2), "2 tests skipped themselves")],
)
def test_a_file_that_no_cpu_reached_is_an_error(emulator, capfd, found, why):
    emulator.files = {
        "a64fx": {"tests/test_a.py": counts(9, 1), "tests/api/test_b.py": found},
        "cortex-a72": {"tests/test_a.py": counts(9, 1)},
    }
    assert suite.run_suite(AARCH64, [], 32, 0) == 1
    printed = capfd.readouterr().err
    assert "1 of 2 test files" in printed
    assert f"NOT COVERED: tests/api/test_b.py: {why}" in printed


def test_the_account_of_a_run_before_is_not_taken_for_this_ones(emulator, capfd):
    emulator.files = {cpu: {"tests/test_a.py": counts(1, 1)} for cpu in AARCH64.cpus}
    assert suite.run_suite(AARCH64, [], 32, 0) == 0
    emulator.broken_off, emulator.statuses = set(AARCH64.cpus), {"a64fx": 2}
    capfd.readouterr()
    assert suite.run_suite(AARCH64, [], 32, 0) == 2
    assert "0 of 0 test files" in capfd.readouterr().err
