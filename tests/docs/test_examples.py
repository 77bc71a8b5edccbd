"""Examples in pages, docstrings and the gallery run as they are shown."""

from __future__ import annotations

import doctest
import re
import runpy
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import pplconv
from tests.documents import ROOT
from tools.site import gallery, names

# Pages that a beginner types from, whose blocks follow one another.
TYPED = sorted(
    [
        ROOT / "README.md",
        ROOT / "docs" / "index.md",
        ROOT / "docs" / "overview.md",
        *(ROOT / "docs" / "tutorials").glob("*.md"),
        *(ROOT / "docs" / "how-to").glob("*.md"),
    ]
)
SHOWN = sorted(
    path for path in (ROOT / "docs").glob("*.md") if ">>> " in path.read_text(encoding="utf-8")
)
LISTED = names.listed(ROOT / "docs" / "reference" / "index.rst")
# A block of Python, and an optional comment before it that marks it as not run.
BLOCK = re.compile(r"(<!-- not run: .+ -->\n)?^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def short(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(path: Path) -> list[str]:
    """Give the blocks of a page that are to be run."""
    text = path.read_text(encoding="utf-8")
    return [code for comment, code in BLOCK.findall(text) if not comment and ">>> " not in code]


@pytest.fixture
def model(tmp_path) -> None:
    """Write the ``model.onnx`` that pages load; its one input has three channels."""
    onnx = pytest.importorskip("onnx")
    from tests.network.models import model_of

    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    inputs = {"x": ("f4", ["n", 3, "h", "w"])}
    weights = {"w": np.ones((4, 3, 3, 3), np.float32)}
    onnx.save(model_of([node], inputs, weights, opset=18, ir_version=9), tmp_path / "model.onnx")


def test_pages_have_blocks():
    assert {short(path) for path in TYPED if blocks(path)} >= {
        "README.md",
        "docs/overview.md",
        "docs/tutorials/image-filter.md",
        "docs/tutorials/network.md",
        "docs/how-to/threads.md",
    }


@pytest.mark.parametrize("path", [path for path in TYPED if blocks(path)], ids=short)
def test_blocks_of_a_page_run_in_turn(path, tmp_path, monkeypatch, model):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__page__"}
    with pplconv.runtime.team(1):
        for number, code in enumerate(blocks(path), 1):
            exec(compile(code, f"{short(path)}, block {number}", "exec"), names)


@pytest.mark.parametrize("path", SHOWN, ids=short)
def test_what_a_page_shows_comes_out(path):
    found = doctest.testfile(str(path), module_relative=False)
    assert found.attempted > 0 and not found.failed


def shows(name: str) -> bool:
    return ">>> " in (getattr(resolved(name), "__doc__", None) or "")


def resolved(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(f"pplconv.{module}".rstrip(".")), attribute)


@pytest.mark.parametrize("name", [one for one in LISTED if not one.startswith("integrations.")])
def test_examples_of_a_docstring(name, tmp_path, monkeypatch):
    """Examples of its methods run, too."""
    monkeypatch.chdir(tmp_path)
    finder = doctest.DocTestFinder()
    runner = doctest.DocTestRunner()
    for test in finder.find(resolved(name), name, module=False, globs={"pplconv": pplconv}):
        assert not runner.run(test).failed, test.name


def test_most_docstrings_have_examples():
    ours = [name for name in LISTED if not name.startswith("integrations.")]
    functions = [name for name in ours if not name.startswith("network.")]
    assert sum(map(shows, functions)) > len(functions) / 2


@pytest.mark.parametrize("name", gallery.EXAMPLES)
def test_an_example_of_the_gallery_writes_its_pictures(name, tmp_path, monkeypatch):
    """As a script without a display runs; on its page a picture follows each of its parts."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    try:
        with pplconv.runtime.team(1):
            runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
        drawn = pyplot.get_fignums()
        assert drawn, "a gallery has pictures"
        for number in drawn:
            assert pyplot.imread(f"{name}_{number}.png").std() > 0
    finally:
        pyplot.close("all")
