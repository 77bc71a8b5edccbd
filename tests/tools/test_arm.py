"""What `make test-arm` is made of, as far as it needs no emulator."""

from __future__ import annotations

import subprocess

import pytest

from tools.arm import host, suite, wheel
from tools.arm.kept import digest, keep

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


def test_missing_tools_are_named_as_debian_names_them(monkeypatch):
    monkeypatch.setattr(host.shutil, "which", lambda name: None)
    monkeypatch.setattr(host.os, "geteuid", lambda: 1000)
    with pytest.raises(host.SetUpError, match=r"apt-get install.*qemu-user-static"):
        host.ensure_tools()


def test_root_has_them_installed(monkeypatch):
    commands = []
    monkeypatch.setattr(host, "missing_packages", lambda: [] if commands else ["qemu-user-static"])
    monkeypatch.setattr(host.os, "geteuid", lambda: 0)
    monkeypatch.setattr(host.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(host, "run", lambda *command, **_: commands.append(command))
    answer = subprocess.CompletedProcess([], 0, "a64fx cortex-a72")
    monkeypatch.setattr(host.subprocess, "run", lambda *_, **__: answer)
    host.ensure_tools()
    assert [command[:2] for command in commands] == [("apt-get", "update"), ("apt-get", "install")]
    assert commands[1][-1] == "qemu-user-static"


def test_an_extra_asks_for_what_its_extras_ask_for():
    assert wheel._of_extra("", METADATA) == {"numpy>=1.25"}
    assert wheel._of_extra("test", METADATA) == {
        "onnx>=1.23",
        "pytest>=8.2",
        "matplotlib>=3.8",
        "pytest-benchmark>=5",
    }


def test_each_level_is_tested_in_full_on_the_oldest_cpu_that_has_it():
    levels = {
        "max,sme=off": ["portable", "neon", "fp16"],
        "max,sme=off,sve=off": ["portable", "neon", "fp16"],
        "neoverse-n1": ["portable", "neon", "fp16"],
        "cortex-a72": ["portable", "neon"],
        "a64fx": ["portable", "neon"],
    }
    assert set(levels) == set(suite.CPUS) == set(suite.OLDEST_FIRST)
    found = {level: suite._first_with(level, levels) for level in ("portable", "neon", "fp16")}
    assert found == {"portable": "cortex-a72", "neon": "cortex-a72", "fp16": "neoverse-n1"}
