"""How-tos for developers: their edits fit the tree, and work."""

from __future__ import annotations

import ast
import os
import re
import shutil
from pathlib import Path

import pytest

import pplconv
from asm.build import generated
from asm.registry import Kernel
from tests.documents import ROOT
from tests.how_to_steps import Step, apply, steps
from tests.programs import output

HOW_TO = ROOT / "docs" / "how-to"
PACKAGE = Path(pplconv.__file__).parent
PAGES = [
    "add-a-kernel.md",
    "add-a-peer.md",
    "add-a-tile.md",
    "add-an-activation.md",
    "add-an-operator.md",
    "add-an-option.md",
]


def copied(source: Path, target: Path, *left_out: str) -> None:
    """Copy a folder of sources, but link to compiled modules."""

    def copy(old: str, new: str) -> None:
        if old.endswith((".so", ".dylib")):
            os.symlink(old, new)
        else:
            shutil.copyfile(old, new)

    shutil.copytree(
        source, target, copy_function=copy, ignore=shutil.ignore_patterns("__pycache__", *left_out)
    )


@pytest.fixture
def edited(tmp_path):
    """Return a function that applies a page's edits to a copy, and returns the copy's root."""

    def edit(page: str) -> Path:
        for step in steps(HOW_TO / page):
            path = tmp_path / step.path
            if step.where and not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / step.path, path)
            path.parent.mkdir(parents=True, exist_ok=True)
            apply(step, tmp_path)
        return tmp_path

    return edit


def run(root: Path, code: str, **environment: str) -> None:
    """Run a program that imports the package and its neighbours from `root`."""
    own = {**os.environ, "PYTHONPATH": str(root), **environment}
    output("-P", "-c", code, env=own)


@pytest.mark.parametrize("page", PAGES)
def test_edits_fit_the_tree(page, edited):
    assert len(steps(HOW_TO / page)) >= 2
    root = edited(page)
    for path in root.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        ast.parse(text)
        assert max(map(len, text.splitlines())) <= 100, path


@pytest.mark.parametrize("page", PAGES)
def test_steps_are_numbered(page):
    lines = (HOW_TO / page).read_text(encoding="utf-8").splitlines()
    numbers = [int(line.split(".")[0]) for line in lines if line[:1].isdigit()]
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) >= 4


def test_the_refusal_of_a_tile_is_the_one_of_the_page():
    page = (HOW_TO / "add-a-tile.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"^ *ValueError: (.+)$", page, re.MULTILINE)
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        generated(Kernel("gemm", "f32", "avx2", 15, 8, 1, "generator"))


NETWORK = """
from pathlib import Path
import numpy as np
from onnx import TensorProto, helper, numpy_helper
import pplconv

assert Path(pplconv.__file__).is_relative_to({root!r}), pplconv.__file__
rng = np.random.default_rng(1)
weight = rng.standard_normal((8, 3, 3, 3)).astype(np.float32)

def session(op, **attributes):
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"])]
    nodes += [helper.make_node(op, ["c"], ["y"], **attributes)] if op else []
    sizes = ["n", 3, 12, 12]
    graph = helper.make_graph(
        nodes, "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)],
        [helper.make_tensor_value_info("y" if op else "c", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w")],
    )
    opsets = [helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return pplconv.InferenceSession(model, threads=1, fallback="error")

def image(n=1):
    return rng.standard_normal((n, 3, 12, 12)).astype(np.float32)
"""

OPERATOR = """
x = image()
(sums,) = session("").run(None, {"x": x})
for given in ({}, {"alpha": 0.5}):
    with_operator = session("ThresholdedRelu", **given)
    (y,) = with_operator.run(None, {"x": x})
    np.testing.assert_array_equal(y, np.where(sums > given.get("alpha", 1.0), sums, 0))
    assert 0 < np.count_nonzero(y) < y.size
    assert "python" not in str(with_operator.plan_for({"x": x.shape})).lower()
"""

OPTION = """
from pplconv import config

assert config.current().programs == 2
few = session("Relu")
for n in (1, 2, 3):
    few.run(None, {"x": image(n)})
assert few.programs_kept == 2
assert [few.is_ready_for({"x": image(n)}) for n in (1, 2, 3)] == [False, True, True]
"""


@pytest.mark.parametrize(
    ("page", "program", "environment"),
    [
        ("add-an-operator.md", OPERATOR, {}),
        ("add-an-option.md", OPTION, {"PPLCONV_PROGRAMS": "2"}),
    ],
    ids=["operator", "option"],
)
def test_a_network_runs_after_the_edits(page, program, environment, tmp_path, edited):
    pytest.importorskip("onnx_ir")
    copied(PACKAGE, tmp_path / "pplconv")
    root = edited(page)
    run(root, NETWORK.format(root=str(root)) + program, **environment)


def test_the_operator_is_refused_before():
    """So the network of the test above runs only because of the edits."""
    pytest.importorskip("onnx_ir")
    program = NETWORK.format(root=str(PACKAGE.parent)) + (
        'try:\n    session("ThresholdedRelu")\nexcept ValueError as error:\n'
        '    assert "ThresholdedRelu" in str(error)\nelse:\n    raise AssertionError\n'
    )
    run(PACKAGE.parent, program)


def test_the_peer_is_right(tmp_path, edited):
    pytest.importorskip("scipy")
    copied(ROOT / "benchmarks", tmp_path / "benchmarks", "results", "measured", "*.json", "*.png")
    root = edited("add-a-peer.md")
    copied(PACKAGE, root / "pplconv")
    program = """
from benchmarks.candidates import OK, UNSUPPORTED, make_case, prepare_checked
from benchmarks.engines import ENGINES
from benchmarks.problems import parse

for text in ("mb2ic6ih9oc8kh3ph1sh2", "mb1g4ic16ih7oc8kh3"):
    found = prepare_checked(ENGINES["scipy"], make_case(parse(text)), 1)
    assert found.status == OK, found.detail
dilated = prepare_checked(ENGINES["scipy"], make_case(parse("mb1ic6ih9oc8kh3dh1")), 1)
assert dilated.status == UNSUPPORTED
"""
    run(root, program)


def test_blocks_are_read(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        '1. A:\n\n   ```python title="a.py" after=\'x = "1"\'\n   y = 2\n\n   def f():\n'
        '       pass\n   ```\n\n```c title="b.c"\nint a;\n```\n\n```python\nz = 3\n```\n'
    )
    assert steps(page) == [
        Step("a.py", "y = 2\n\ndef f():\n    pass\n", "after", 'x = "1"'),
        Step("b.c", "int a;\n"),
    ]


@pytest.mark.parametrize(
    ("where", "anchor", "text", "after"),
    [
        ("after", "two", "new\n", "one\ntwo 2\nnew\nthree\n"),
        ("before", "2", "new\n", "one\nnew\ntwo 2\nthree\n"),
        ("replace", "two", "new\n", "one\nnew 2\nthree\n"),
        ("replace", "two 2", "", "one\nthree\n"),
        ("", "", "", None),
        ("after", "four", "new\n", None),
        ("after", "o", "new\n", None),
    ],
)
def test_edits(tmp_path, where, anchor, text, after):
    """A new file must not exist yet, and an anchor must occur exactly once; else it is an error."""
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo 2\nthree\n")
    step = Step("a.txt", text, where, anchor)
    if after is None:
        with pytest.raises(AssertionError):
            apply(step, tmp_path)
    else:
        apply(step, tmp_path)
        assert path.read_text() == after
