"""Output of `show_config` and of the command line."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import subprocess
import sys
import types
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy
import pytest

import pplconv
from pplconv import __main__ as command
from pplconv import _kernels, wisdom
from pplconv.commands import info as information
from pplconv.machine import Machine
from pplconv.machine import current as current_machine
from tests import children

XEON = Machine(
    arch="x86_64",
    vendor="GenuineIntel",
    cpu_name="Example CPU",
    family=6,
    model=0x55,
    isas=("portable", "avx2", "avx512"),
    fma_per_cycle={"portable": 1, "avx2": 2, "avx512": 2},
    l1d_bytes=32 << 10,
    l1d_cpus=2,
    l2_bytes=1 << 20,
    l2_cpus=2,
    l3_bytes=39424 << 10,
    l3_cpus=16,
    cores=tuple((cpu, cpu + 8) for cpu in range(8)),
    packages=((*range(4), *range(8, 12)), (*range(4, 8), *range(12, 16))),
    affinity=(0, 1, 2, 3, 8),
    quota=2.5,
    numa_nodes=((*range(4), *range(8, 12)), (*range(4, 8), *range(12, 16))),
    node_memory=(16 << 30, 32 << 30),
    memory_bytes=48 << 30,
)

ROWS = [
    {"symbol": f"gemm_{dtype}_{isa}_{mr}", "op": "gemm", "dtype": dtype, "isa": isa}
    for dtype in ("f64", "f32")
    for isa, tiles in (("avx512", 3), ("portable", 1), ("avx2", 2))
    for mr in range(tiles)
]


@pytest.fixture
def xeon(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A recorded machine without settings, with a small kernel table."""
    for name in ("MAX_ISA", "NUM_THREADS", "TOLERANCE"):
        monkeypatch.delenv(f"PPLCONV_{name}", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("PPLCONV_WISDOM", "off")
    monkeypatch.setattr(information, "current_machine", lambda: XEON)
    monkeypatch.setattr(information, "openmp_runtimes", lambda: [RUNTIME])
    table = types.SimpleNamespace(rows=lambda: ROWS)
    monkeypatch.setattr(pplconv, "_kernels", table)
    yield monkeypatch


RUNTIME = {
    "library": "libgomp.so.1",
    "path": "/usr/lib/libgomp.so.1",
    "prefix": "libgomp",
    "version": None,
    "threads": 16,
}


def shown(**more: bool) -> dict[str, list[str]]:
    """Lines of show_config by label; a line without a label belongs to the label before it."""
    text = io.StringIO()
    pplconv.show_config(file=text, **more)
    lines: dict[str, list[str]] = {}
    label = ""
    for line in text.getvalue().splitlines():
        label = line[:14].strip() or label
        lines.setdefault(label, []).append(line[14:])
    return lines


def shown_of(xeon: pytest.MonkeyPatch, machine: Machine) -> tuple[dict[str, list[str]], Any]:
    """Lines of show_config on a machine, and the configuration, which is valid JSON."""
    xeon.setattr(information, "current_machine", lambda: machine)
    found = information.config()
    assert json.loads(json.dumps(found)) == found
    return shown(), found


def test_recorded_machine(xeon: pytest.MonkeyPatch) -> None:
    assert shown() == {
        "pplconv": [pplconv.__version__],
        "Python": [f"{sys.version.split()[0]}, NumPy {numpy.__version__}, {sys.platform}"],
        "CPU": [
            "Example CPU",
            "GenuineIntel, family 0x6, model 0x55, x86_64",
            "Skylake server (Xeon Scalable)",
        ],
        "ISA": [
            "avx512 (available: portable, avx2, avx512; no cap)",
            "FMA/cycle: portable 1, avx2 2, avx512 2",
        ],
        "caches": [
            "L1d 32 KiB shared by 2 CPUs, L2 1 MiB shared by 2 CPUs",
            "L3 38.5 MiB shared by 16 CPUs, line 64 bytes",
        ],
        "cores": ["2 sockets, 8 physical, 16 logical"],
        "affinity": ["5 CPUs: 0-3,8 (4 cores)"],
        "CPU quota": ["2.5 CPUs"],
        "NUMA nodes": [
            "0: CPUs 0-3,8-11, 4 cores, 16 GiB",
            "1: CPUs 4-7,12-15, 4 cores, 32 GiB",
        ],
        "memory": ["48 GiB"],
        "threads": ["3 (CPU quota 2.5, below 4 physical cores in the affinity mask)"],
        "tolerance": ["1e-05 (the default)"],
        "wisdom": ["in memory only"],
        "OpenMP": ["libgomp.so.1, 16 threads by default (/usr/lib/libgomp.so.1)"],
        "kernels": ["12 kernels of 1 operation; python -m pplconv info --kernels lists them"],
    }
    assert shown(kernels=True)["kernels"] == [
        "gemm  f32  portable     1",
        "gemm  f32  avx2         2",
        "gemm  f32  avx512       3",
        "gemm  f64  portable     1",
        "gemm  f64  avx2         2",
        "gemm  f64  avx512       3",
    ]


def test_settings_show(xeon: pytest.MonkeyPatch) -> None:
    xeon.setenv("PPLCONV_MAX_ISA", "portable")  # a level of every machine's ladder
    xeon.setenv("OMP_NUM_THREADS", "7")
    lines = shown()
    assert lines["ISA"][0] == "portable (available: portable, avx2, avx512; capped at portable)"
    assert lines["threads"] == ["7 (OMP_NUM_THREADS is 7)"]
    xeon.setenv("PPLCONV_TOLERANCE", "0")
    assert shown()["tolerance"] == ["0 (PPLCONV_TOLERANCE is 0)"]
    with pplconv.runtime.tolerance(1e-4):
        assert shown()["tolerance"] == ["0.0001 (pplconv.runtime.tolerance(0.0001))"]


def test_chosen_isa_has_kernels(xeon: pytest.MonkeyPatch) -> None:
    few = [row for row in ROWS if row["isa"] != "avx512"]
    xeon.setattr(pplconv, "_kernels", types.SimpleNamespace(rows=lambda: few))
    assert information.config()["isa"]["chosen"] == "avx2"
    xeon.setattr(pplconv, "_kernels", types.SimpleNamespace(rows=list))
    assert information.config()["isa"]["chosen"] is None
    assert shown()["kernels"] == ["none"]


def test_other_machines_show(xeon: pytest.MonkeyPatch) -> None:
    """Efficiency cores, features of Arm, and NUMA nodes numbered with gaps."""
    machine = Machine(
        features=("asimd", "asimddp"),
        cores=((0, 1), (2,), (3,)),
        efficiency_cores=(2, 3),
        affinity=(0, 1, 2, 3),
        numa_nodes=((0, 1), (2, 3)),
        node_ids=(0, 8),
    )
    lines, found = shown_of(xeon, machine)
    assert lines["ISA"][2] == "features: asimd asimddp"
    assert lines["cores"] == ["1 socket, 3 physical (2 efficiency cores), 4 logical"]
    assert lines["NUMA nodes"] == [
        "0: CPUs 0-1, 1 core, memory unknown",
        "8: CPUs 2-3, 2 cores, memory unknown",
    ]
    assert found["cores"] == {
        "sockets": 1,
        "physical": 3,
        "efficiency": 2,
        "logical": 4,
        "usable": 3,
    }


def test_kinds_of_arm_cores_show(xeon: pytest.MonkeyPatch) -> None:
    machine = Machine(
        arch="aarch64",
        vendor="Samsung",
        cpu_name="Exynos-M3 + Cortex-A55",
        family=0x53,
        model=0x002,
        isas=("portable", "neon"),
        fma_per_cycle={"portable": 1, "neon": 3},
        features=("asimd",),
        denied=("fphp", "asimdhp"),
        core_kinds=((0x531F0020, (4, 5, 6, 7)), (0x410FD051, (0, 1, 2, 3))),
    )
    lines, found = shown_of(xeon, machine)
    assert lines["CPU"] == [
        "Exynos-M3 + Cortex-A55",
        "Samsung, implementer 0x53, part 0x2, aarch64",
        "Exynos-M3 (MIDR 0x531f0020), 4 CPUs: 4-7",
        "Cortex-A55 (MIDR 0x410fd051), 4 CPUs: 0-3",
    ]
    assert lines["ISA"][1:] == [
        "FMA/cycle: portable 1, neon 3",
        "features: asimd",
        "not on every core: fphp asimdhp",
    ]
    first = {"name": "Exynos-M3", "midr": 0x531F0020, "cpus": [4, 5, 6, 7]}
    assert found["cpu"]["kinds"][0] == first
    assert found["isa"]["denied"] == ["fphp", "asimdhp"]


def test_an_unknown_x86_core_says_whose_rates_it_has(xeon: pytest.MonkeyPatch) -> None:
    lines, found = shown_of(xeon, replace(XEON, model=0xF0))
    text = "unknown core; rates of Skylake server, the nearest by features"
    assert lines["CPU"][2:] == [text]
    core = found["cpu"]["core"]
    assert (core["text"], core["known"], core["rates"]["fma512"]) == (text, False, 2)


def test_a_core_without_kernels_of_its_own_has_no_rates(xeon: pytest.MonkeyPatch) -> None:
    lines, found = shown_of(xeon, replace(XEON, model=0x2A, isas=("portable",)))
    assert len(lines["CPU"]) == 2
    assert found["cpu"]["core"] is None


def test_wisdom_shows(xeon: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "cache" / "wisdom.json"
    xeon.setenv("PPLCONV_WISDOM", str(path))
    assert shown()["wisdom"] == [f"0 entries in {path}"]
    assert not path.parent.exists(), "a look changes nothing"
    for number in (1, 2):
        key = wisdom.Key("mb1", "f32", "NCHW", "none", 10.0**-number, "CPU", "avx2")
        wisdom.remember(key, {"algorithm": "im2col"}, 1, {}, 1e-3)
        plural = "entry" if number == 1 else "entries"
        assert shown()["wisdom"] == [f"{number} {plural} in {path}"]
    size = path.stat().st_size
    assert information.config()["wisdom"] == {
        "path": str(path),
        "entries": 2,
        "bytes": size,
        "trouble": None,
    }
    path.write_text("notes of mine")
    assert shown()["wisdom"] == [f"0 entries in {path} (the file is not a wisdom file)"]


def test_unknown_things(xeon: pytest.MonkeyPatch) -> None:
    xeon.setattr(information, "openmp_runtimes", list)
    lines, _ = shown_of(xeon, Machine())
    assert lines["CPU"][0] == "(no name)"
    assert lines["caches"][1] == "L3 none, line 64 bytes"
    assert lines["CPU quota"] == ["none"]
    assert lines["memory"] == ["unknown"]
    assert lines["cores"] == ["1 socket, 1 physical, 1 logical"]
    assert lines["affinity"] == ["1 CPU: 0 (1 core)"]
    assert lines["NUMA nodes"] == ["0: CPUs 0, 1 core, memory unknown"]
    assert lines["OpenMP"] == ["none loaded"]


def test_this_machine() -> None:
    found = information.config()
    machine = current_machine()
    assert found["pplconv"] == pplconv.__version__
    assert found["isa"]["available"] == list(machine.isas)
    assert found["caches"]["l2"] == {"bytes": machine.l2_bytes, "cpus": machine.l2_cpus}
    counts = Counter((row["op"], row["dtype"], row["isa"]) for row in _kernels.rows())
    assert {
        (row["op"], row["dtype"], row["isa"]): row["count"] for row in found["kernels"]
    } == counts


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PPLCONV_")},
        **variables,
    }
    # `-m` searches the working folder first; the root of the repository holds the sources.
    folder = Path(pplconv.__file__).parents[1]
    return children.python("-m", "pplconv", *arguments, cwd=folder, env=environment)


def test_command_info() -> None:
    done = run("info", PPLCONV_NUM_THREADS="3")
    assert done.returncode == 0, done.stderr
    assert "threads       3 (PPLCONV_NUM_THREADS is 3)" in done.stdout.splitlines()


def test_command_info_json() -> None:
    done = run("info", "--json", PPLCONV_MAX_ISA="portable")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert (found["isa"]["cap"], found["isa"]["chosen"]) == ("portable", "portable")


def test_malformed_setting_is_a_message() -> None:
    done = run("info", PPLCONV_NUM_THREADS="many")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "pplconv info: PPLCONV_NUM_THREADS is 'many': expected an integer from 1 to 65536\n"
    )


def test_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Lists commands that run as they stand."""
    assert command.main([]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    (first,) = (line for line in lines if line.startswith("python -c"))
    (code,) = shlex.split(first)[2:]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, {})
    # A diagonal of nines has as many thirds in the mean as ones in the window.
    assert printed.getvalue().splitlines()[1:3] == [" [3. 3. 2. 1. 0.]", " [2. 2. 3. 2. 2.]"]
    commands = [shlex.split(line)[3] for line in lines if line.startswith("python -m pplconv ")]
    assert commands == [
        "demo", "info", "doctor", "profile", "compile", "search", "serve", "--help",
    ]  # fmt: skip


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"pplconv {pplconv.__version__}\n"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Stand in for the program of the server."""
    main = Mock()
    module = types.ModuleType("pplconv.integrations.asgi")
    module.command = types.SimpleNamespace(main=main)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pplconv.integrations.asgi", module)
    return main


@pytest.mark.parametrize("status", [0, 3, None])
def test_serve_gets_its_arguments(server: Mock, status: int | None) -> None:
    server.return_value = status
    rest = ["--json", "-h", "network.onnx", "info", "--", "-x"]
    assert command.main(["serve", *rest]) == (status or 0)
    server.assert_called_once_with(rest)


def test_serve_without_its_extras(server: Mock, capsys: pytest.CaptureFixture[str]) -> None:
    server.side_effect = ModuleNotFoundError(
        "No module named 'starlette'", name="starlette.routing"
    )
    assert command.main(["serve"]) == 2
    text = capsys.readouterr().err
    assert "'starlette' is missing" in text
    assert "pip install pplconv[onnx,serve]" in text


def test_broken_package_is_not_taken_for_a_missing_extra(server: Mock) -> None:
    name = "pplconv.api.conv"
    server.side_effect = ModuleNotFoundError(f"No module named {name!r}", name=name)
    with pytest.raises(ModuleNotFoundError):
        command.main(["serve"])


def test_interrupted_serve(server: Mock, capsys: pytest.CaptureFixture[str]) -> None:
    server.side_effect = KeyboardInterrupt
    with contextlib.suppress(SystemExit):
        assert command.main(["serve"]) == 130
    assert capsys.readouterr().err == "pplconv serve: interrupted\n"


def test_fault_of_ours_is_not_taken_for_a_setting(xeon: pytest.MonkeyPatch) -> None:
    def broken() -> list[dict[str, Any]]:
        raise ValueError("a fault of ours")

    xeon.setattr(information, "openmp_runtimes", broken)
    with pytest.raises(ValueError, match="a fault of ours"):
        command.main(["info"])
