"""Finding llvm-mca, messages if it is missing, and parsing OSACA's answers; both run if present."""

from __future__ import annotations

import stat
import sys

import pytest

from benchmarks.analysis import __main__ as command
from benchmarks.analysis import limits, loops, mca, osaca
from benchmarks.analysis.cores import CORES, cores_of


def program(folder, name, version):
    """A program that prints a version, and fails at everything else."""
    path = folder / name
    path.write_text(
        f"#!{sys.executable}\nimport sys\n"
        f"sys.exit(print('LLVM version {version}') if '--version' in sys.argv else 3)\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_the_newest_that_will_do_is_taken(tmp_path):
    for name, version in (
        ("llvm-mca", "14.0.6"), ("llvm-mca-22", "22.1.8"), ("llvm-mca-23", "23.1.0"),
        ("llvm-mca-9", "9.0.1"), ("llvm-mca-extra", "99.0.0"),
    ):  # fmt: skip
        program(tmp_path, name, version)
    found = mca.find(path=str(tmp_path))
    assert (found.path, found.version) == (str(tmp_path / "llvm-mca-23"), "23.1.0")
    asked = mca.find(str(tmp_path / "llvm-mca-22"))
    assert asked.version == "22.1.8"


@pytest.mark.parametrize("old", [None, "14.0.6", "19.1.7"])
def test_what_is_missing_is_named_with_its_package(tmp_path, old):
    if old:
        program(tmp_path, "llvm-mca", old)
    with pytest.raises(mca.ToolError, match=r"22 or newer .* Debian's package llvm-22") as caught:
        mca.find(path=str(tmp_path))
    assert (f"is {old}" if old else "there is none") in str(caught.value)


def test_the_command_says_what_is_missing(tmp_path, capsys):
    wish = str(tmp_path / "none")
    assert command.main(["aarch64", "--llvm-mca", wish]) == 2
    assert f"{wish} is none" in capsys.readouterr().err
    old = program(tmp_path, "llvm-mca", "14.0.6")
    assert command.main(["x86_64", "--llvm-mca", old]) == 2
    assert "is 14.0.6" in capsys.readouterr().err


def test_unknown_cores_are_refused(tmp_path, capsys):
    tool = program(tmp_path, "llvm-mca", "22.1.8")
    assert command.main(["aarch64", "--llvm-mca", tool, "--cores", "tsv110,z80"]) == 2
    assert "got z80" in capsys.readouterr().err
    with pytest.raises(ValueError, match="arch must be one of aarch64, x86_64"):
        cores_of("riscv64")


def test_a_failing_tool_is_an_error(tmp_path):
    tool = mca.find(program(tmp_path, "llvm-mca", "22.1.8"))
    loop = next(iter(loops.peak_loops("aarch64")))
    with pytest.raises(mca.ToolError, match="tsv110: 3"):
        mca.ask(tool, CORES[0], loop)


ANSWER = """Kernel:
- Comment: null
  Directive: null
  Flags: [tp_unknown, lt_unknown]
  Instruction: {unknown}
  Label: null
- Comment: null
  Flags: []
  Instruction: fmla
Summary:
  CriticalPath: 12.0
  LCD: {carried}
  PortPressure: {{'0': 1.33, '1': 2.33, 4DV: 0.0, '4': 24.0, '5': 24.0,
    '6': 5.0}}
Target:
  Name: TSV110
"""


@pytest.mark.parametrize(
    ("unknown", "carried", "cycles", "reason"),
    [
        ("prfm", 8.0, 24.0, "port 4"),
        ("prfm", 36.0, 36.0, "dependency"),
        ("ldur", 8.0, 0.0, "ldur unknown"),
    ],
)
def test_the_summary_of_osaca_is_read(unknown, carried, cycles, reason):
    loop = next(iter(loops.peak_loops("aarch64")))
    text = ANSWER.format(unknown=unknown, carried=carried)
    assert osaca.read(text, loop) == osaca.Opinion(cycles, reason)
    assert osaca.read("", loop) == osaca.Opinion(0.0, "no summary")


def _tool():
    try:
        return mca.find()
    except mca.ToolError as error:
        return str(error)


TOOL = _tool()


@pytest.mark.skipif(isinstance(TOOL, str), reason=str(TOOL))
@pytest.mark.unemulated("asks models of other cores, which no emulated CPU changes")
@pytest.mark.parametrize("core", CORES, ids=lambda core: core.name)
def test_every_core_has_a_model(core):
    """A loop in registers runs at the model's peak, which is near the core's own."""
    for loop in loops.peak_loops(core.arch):
        answer = mca.ask(TOOL, core, loop)
        verdict = limits.judge(core, loop, answer)
        assert verdict.bound == "FMA" or core.in_order
        assert verdict.share > (0.75 if core.in_order else 0.97)
        known = core.machine.fma_per_cycle[core.machine.isas[-1]]
        assert verdict.peak >= known / 2


@pytest.mark.skipif(isinstance(TOOL, str), reason=str(TOOL))
@pytest.mark.unemulated("asks models of other cores, which no emulated CPU changes")
def test_packed_operands_reach_what_is_wanted():
    """The fp32 tiles of two, three and four vectors, on every core with a target figure."""
    main = [o for o in loops.tile_loops("aarch64", "f32") if o.name == "rows"]
    wide = [o for o in main if o.kernel.vectors > 1 and not o.kernel.tuning]
    assert len(wide) == 3
    for core in cores_of("aarch64"):
        for loop in wide if core.wanted else []:
            rate = limits.judge(core, loop, mca.ask(TOOL, core, loop)).rate
            assert rate >= core.wanted, (core.name, loop.title, rate)


@pytest.mark.skipif(isinstance(TOOL, str), reason=str(TOOL))
@pytest.mark.unemulated("asks models of other cores, which no emulated CPU changes")
@pytest.mark.parametrize("name", ["neoverse-n2", "neoverse-v1"])
@pytest.mark.parametrize("dtype", ["s8", "s8m", "u8m", "bf16", "bf16m"])
def test_packed_narrow_operands_reach_the_limit_of_issue(name, dtype):
    """Every main tile reaches at least 95 % of the products that can start in a cycle."""
    (core,) = (core for core in CORES if core.name == name)
    for loop in loops.tile_loops("aarch64", dtype):
        if loop.name == "rows":
            verdict = limits.judge(core, loop, mca.ask(TOOL, core, loop))
            assert verdict.share >= 0.95, (loop.title, verdict)
            assert verdict.peak == core.machine.fma_per_cycle["neon"]


@pytest.mark.skipif(isinstance(TOOL, str), reason=str(TOOL))
@pytest.mark.unemulated("asks models of other cores, which no emulated CPU changes")
@pytest.mark.parametrize("name", ["neoverse-n2", "neoverse-v1"])
def test_matrices_of_rows_that_lie_apart_reach_theirs(name):
    """The multiply units also combine pairs of rows, one instruction for each pair and group."""
    (core,) = (core for core in CORES if core.name == name)
    for loop in loops.tile_loops("aarch64", "s8m"):
        kernel = loop.kernel
        if loop.name == "k" and kernel.vectors > 1:
            verdict = limits.judge(core, loop, mca.ask(TOOL, core, loop))
            pairs = 2 * (kernel.mr // 2)
            limit = verdict.peak * loop.fmas / (loop.fmas + pairs)
            assert verdict.rate >= 0.95 * limit, (loop.title, verdict)
