"""The demo from its arguments to its exit status, on small networks of its own."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx.reference.ops.op_conv import Conv as OwnConv
from PIL import Image

import pplconv
from examples import demo
from examples.demo import cli, engines
from examples.demo.measure import ROUNDS, plan_of, run_network
from examples.demo.reading import STAGES
from examples.demo.report import Layer, layers_of, table
from examples.models import ppocr, published
from examples.models.progress import Progress
from pplconv.integrations.onnx_reference import Conv
from tests.demo import made_networks
from tests.programs import output, ran

DEMO = Path(demo.__file__).parent


@pytest.fixture
def network():
    return made_networks.detector()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Make a folder that holds small networks as the expected models."""
    return made_networks.keep(tmp_path / "cache", monkeypatch)


@pytest.fixture
def page(tmp_path):
    """Draw a page with two dark bars."""
    pixels = np.full((64, 128), 255, dtype=np.uint8)
    pixels[10:20, 10:110] = 0
    pixels[40:50, 30:90] = 0
    path = tmp_path / "page.png"
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture
def arguments(cache, page, tmp_path):
    """Give arguments that keep a run in the test's folder."""
    output = tmp_path / "out.png"
    return [
        f"--cache={cache}", f"--image={page}", f"--output={output}", "--side=64",
        "--skip-onnxruntime",
    ]  # fmt: skip


@pytest.fixture
def both(arguments):
    """Return arguments that let onnxruntime read the page, too."""
    return [text for text in arguments if text != "--skip-onnxruntime"]


def rows_of(out):
    """Return the rows of all tables by their first word."""
    return {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.split()}


def test_whole_run(arguments, tmp_path, capsys):
    assert demo.main([*arguments, "--threads=1"]) == 0
    out, err = capsys.readouterr()
    rows = rows_of(out)
    assert rows["1"][1:] == rows["2"][1:] == ["I"]
    assert rows["found"][:4] == ["2", "lines,", "drawn", "in"]
    assert rows["threads"] == ["1"]
    assert set(STAGES) <= set(rows)
    assert float(rows["recogniser"][0]) > 0
    (total,) = (line for line in out.splitlines() if line.startswith("all convolutions"))
    assert total.split()[2] == "3"
    assert "Conv 3 of 3" in err
    with Image.open(tmp_path / "out.png") as picture:
        assert picture.size == (2 * 1280, 640)


def test_stages_add_up(arguments, capsys):
    assert demo.main([*arguments, "--skip-reference"]) == 0
    out = capsys.readouterr().out
    assert "onnxruntime" not in out and "all convolutions" not in out
    rows = rows_of(out)
    assert set(STAGES) <= set(rows)
    (total,) = (line for line in out.splitlines() if line.startswith("whole page"))
    shown = sum(float(rows[stage][-1]) for stage in STAGES)
    assert float(total.split()[-1]) == pytest.approx(shown, abs=0.01)


@pytest.mark.unemulated("onnxruntime crashes in the emulator when it is imported")
def test_onnxruntime_reads_the_same(both, capsys):
    assert demo.main([*both, "--skip-reference"]) == 0
    rows = rows_of(capsys.readouterr().out)
    assert rows["1"][1:] == rows["2"][1:] == ["I", "I"]
    assert rows["compared"][:2] == ["same", "texts,"]
    assert rows["detector"][-1].endswith("x")


def test_without_onnxruntime(both, capsys, monkeypatch):
    monkeypatch.setattr(cli, "open_onnxruntime", lambda paths, threads: None)
    assert demo.main([*both, "--skip-reference"]) == 0
    out, err = capsys.readouterr()
    assert "onnxruntime is not installed" in err
    assert rows_of(out)["1"][1:] == ["I"]


def other_engine(monkeypatch, change):
    """Replace onnxruntime by an engine whose recogniser's outputs go through `change`."""

    def opened(paths, threads):
        networks = engines.open_pplconv(paths, threads)
        return replace(
            networks,
            engine="other 1.0",
            recognise=lambda x: change(networks.recognise(x)),
        )

    monkeypatch.setattr(cli, "open_onnxruntime", opened)


def test_other_texts_fail(both, capsys, monkeypatch):
    other_engine(monkeypatch, lambda y: y[:, :, [0, 2, 1]])
    assert demo.main(both) == 1
    out, err = capsys.readouterr()
    assert "other 1.0" in out  # the table shows both texts
    assert "read the page differently: line 1: 'I' and ' '" in err
    assert "all convolutions" not in out


def test_an_illegible_line_is_said_to_be(arguments, capsys, monkeypatch):
    opened = engines.open_pplconv

    def blurred(paths, threads):
        networks = opened(paths, threads)
        return replace(networks, recognise=lambda x: 0.4 * networks.recognise(x))

    monkeypatch.setattr(cli, "open_pplconv", blurred)
    assert demo.main([*arguments, "--skip-reference"]) == 0
    assert rows_of(capsys.readouterr().out)["1"][1:] == ["(illegible)"]


def test_an_empty_page_has_no_lines(arguments, tmp_path, capsys):
    empty = tmp_path / "empty.png"
    Image.new("L", (128, 64), 255).save(empty)
    assert demo.main([*arguments, f"--image={empty}", "--skip-reference"]) == 0
    rows = rows_of(capsys.readouterr().out)
    assert rows["found"][0] == "0"
    assert "line" not in rows


def test_equal_layers_share_a_row(arguments, capsys):
    assert demo.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in lines if "ic1ih64" in line]
    assert [row[1] for row in rows] == ["2"]


def test_without_the_reference(arguments, capsys, monkeypatch):
    def never(self, *inputs, **attributes):
        raise AssertionError("the evaluator ran")

    monkeypatch.setattr(OwnConv, "_run", never)
    monkeypatch.setattr(pplconv, "conv2d", never)
    assert demo.main([*arguments, "--skip-reference"]) == 0
    out = capsys.readouterr().out
    assert "own Conv" not in out
    assert "largest difference" not in out


@pytest.mark.parametrize("wrong", [1.0, np.nan], ids=["shifted", "nan"])
def test_outputs_that_differ_fail(arguments, capsys, monkeypatch, wrong):
    conv2d = pplconv.conv2d
    monkeypatch.setattr(pplconv, "conv2d", lambda *args, **kw: conv2d(*args, **kw) + wrong)
    assert demo.main(arguments) == 1
    out, err = capsys.readouterr()
    assert "largest difference" in out  # the table shows by how much
    assert "the two outputs differ" in err


@pytest.mark.parametrize("content", [None, b"no font"])
def test_a_font_that_cannot_be_read_is_named(arguments, tmp_path, capsys, content):
    font = tmp_path / "letters.ttf"
    if content is not None:
        font.write_bytes(content)
    assert demo.main([*arguments, f"--font={font}"]) == 1
    assert f"cannot read the font {font}" in capsys.readouterr().err


def test_another_model_fails(arguments, cache, capsys, monkeypatch):
    monkeypatch.setattr(ppocr, "DETECTOR", replace(ppocr.DETECTOR, sha256="0" * 64))
    monkeypatch.setattr(published, "_PIP", ("-c", "raise SystemExit(3)"))
    assert demo.main(arguments) == 1
    err = capsys.readouterr().err
    assert "is not the expected one" in err
    assert "exit status 3" in err


def test_interrupt_ends_cleanly(arguments, tmp_path, capsys, monkeypatch):
    def interrupted(*args, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "read_page", interrupted)
    assert demo.main(arguments) == 130
    assert capsys.readouterr().err.endswith("interrupted\n")
    assert not (tmp_path / "out.png").exists()


@pytest.mark.parametrize(
    ("output", "message"), [("no/out.png", "there is no folder"), (".", "it is a folder")]
)
def test_output_is_checked_before_the_work(
    arguments, output, message, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(cli, "read_page", None)  # must not get that far
    assert demo.main([*arguments, f"--output={tmp_path / output}"]) == 1
    assert message in capsys.readouterr().err


def test_too_little_memory_is_said(arguments, capsys, monkeypatch):
    def hungry(*args, **keywords):
        raise MemoryError("no 3 GiB")

    monkeypatch.setattr(pplconv, "conv2d", hungry)
    assert demo.main(arguments) == 1
    assert "no 3 GiB; try a smaller --side" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--threads=0", "--side=31", "--threads=x"])
def test_bad_arguments(arguments, option, capsys):
    with pytest.raises(SystemExit) as caught:
        demo.main([*arguments, option])
    assert caught.value.code == 2
    assert option.split("=")[0] in capsys.readouterr().err


def test_it_runs_from_a_clone_with_the_installed_package(tmp_path):
    assert "usage: python examples/demo" in output("-I", DEMO, "--help", cwd=tmp_path)
    # A fake pplconv stands for the installed one.
    (tmp_path / "pplconv.py").write_text("raise ImportError('the installed one', name='pplconv.x')")
    done = ran(DEMO, "--help", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert "ImportError: the installed one" in done.stderr


def missing(monkeypatch, name):
    """Hide a module that the demo imports."""
    monkeypatch.delitem(sys.modules, "examples.demo.cli")
    monkeypatch.delattr(demo, "cli")
    monkeypatch.setitem(sys.modules, name, None)


def test_a_missing_package_is_named(capsys, monkeypatch):
    missing(monkeypatch, "platformdirs")
    assert demo.main(["--help"]) == 2
    text = capsys.readouterr().err
    assert "demo: the module 'platformdirs' is missing" in text
    assert "pip install pplconv[demo]" in text


def test_a_broken_package_is_not_taken_for_a_missing_one(monkeypatch):
    missing(monkeypatch, "pplconv.integrations.onnx_reference")
    with pytest.raises(ModuleNotFoundError):
        demo.main(["--help"])


def test_each_convolution_is_warmed_up_and_counted_once(network, rng, monkeypatch):
    ran = []
    conv2d = pplconv.conv2d
    monkeypatch.setattr(pplconv, "conv2d", lambda *a, **k: (ran.append(1), conv2d(*a, **k))[1])
    ticks = []
    x = rng.standard_normal((1, 3, 32, 32)).astype(np.float32)
    run = run_network(network, Conv, x, ticks.append)
    assert ticks == [1, 2, 3]
    assert len(ran) == 3 * (1 + ROUNDS)
    assert len(run.calls) == 3
    assert run.seconds == pytest.approx(sum(call.seconds for call in run.calls))
    assert all(call.seconds > 0 for call in run.calls)


def test_plan_is_of_the_problem_that_ran(network, rng):
    x = rng.standard_normal((1, 3, 32, 48)).astype(np.float32)
    run = run_network(network, Conv, x, lambda done: None)
    call = run.calls[0]
    plan = plan_of(call, 1)
    expected = pplconv.Conv2d(call.weight, padding=1, threads=1).plan_for((1, 3, 32, 48))
    assert plan.problem == expected.problem
    assert (plan.algorithm, plan.kernel, plan.threads) == (
        expected.algorithm,
        expected.kernel,
        1,
    )


def test_table_adds_up(network, rng):
    x = rng.standard_normal((1, 3, 32, 32)).astype(np.float32)
    ours = run_network(network, Conv, x, lambda done: None)
    own = run_network(network, OwnConv, x, lambda done: None)
    plans = [plan_of(call, 1) for call in ours.calls]
    layers = layers_of(plans, ours.calls, own.calls)
    assert [layer.count for layer in layers] == [1, 2]
    assert sum(layer.ours for layer in layers) == pytest.approx(ours.seconds)
    assert sum(layer.own for layer in layers) == pytest.approx(own.seconds)
    layers = [Layer(plans[0], 1, 0.5, 2.0), Layer(plans[1], 2, 0.25, 4.0)]
    lines = table(layers, [("machine", "any")]).splitlines()
    assert lines[2].split()[-3:] == ["2.000000", "0.500000", "4.0x"]
    assert lines[5].split() == ["all", "convolutions", "3", "6.000000", "0.750000", "8.0x"]
    assert lines[-1] == "machine  any"
    assert {len(line) for line in lines if set(line) == {"-"}} == {len(lines[0])}


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        """Return True."""
        return True


def test_progress_rewrites_its_line_on_a_terminal():
    stream = Terminal()
    progress = Progress(stream)
    progress.step("one")
    progress.update("one: half")
    progress.step("two")
    progress.close()
    progress.close()
    assert stream.getvalue() == "\r\x1b[Kone\r\x1b[Kone: half\n\r\x1b[Ktwo\n"


def test_progress_is_sparing_in_a_log():
    stream = io.StringIO()
    progress = Progress(stream)
    progress.step("one")
    for part in range(100):
        progress.update(f"one: {part}")
    progress.update("one: done", last=True)
    progress.close()
    assert stream.getvalue() == "one\none: done\n"
