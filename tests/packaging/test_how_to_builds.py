"""How-tos that need a build, followed literally in a copy of the tree: their edits and commands."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.how_to_steps import apply, commands, steps
from tests.packaging.conftest import NOT_CLONED, clean_environment
from tests.patience import PATIENCE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.unsanitized("builds with a compiler of its own, which has no sanitizer"),
]

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["add-a-tile.md", "add-an-activation.md"]
BUILD = ["python", "setup.py", "build_ext", "--inplace"]


def run(words: list[str], tree: Path, *packages: Path) -> str:
    """Run a command of a page in the tree, with its own Python; give what it prints."""
    program = {"python": [], "pytest": ["-P", "-m", "pytest", "-p", "no:randomly"]}[words[0]]
    paths = os.pathsep.join(map(str, [tree, *packages]))
    done = subprocess.run(
        [sys.executable, *program, *words[1:]], cwd=tree,
        env={**clean_environment(), "PYTHONPATH": paths}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=6 * PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-6000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory, packages):
    """Give a copy of the tree with the edits of all pages, built once by their command."""
    tree = tmp_path_factory.mktemp("how-to") / "clone"
    shutil.copytree(ROOT, tree, ignore=NOT_CLONED)
    for page in PAGES:
        for step in steps(tree / "docs/how-to" / page):
            apply(step, tree)
        assert BUILD in commands(tree / "docs/how-to" / page, "python setup.py")
    run(BUILD, tree, packages)
    return tree


@pytest.mark.parametrize("page", PAGES)
def test_the_tests_of_the_page_pass_after_its_edits(page, tree):
    found = commands(tree / "docs/how-to" / page, "pytest")
    assert found
    for words in found:
        if find_spec("torch") is None and any("test_torch" in word for word in words):
            continue  # `make test-peers` has torch
        printed = run(words, tree)
        assert " passed" in printed, printed


def test_the_activation_is_right(tree):
    """In the package that was built, beside float64."""
    program = """
import numpy as np
import pplconv

assert pplconv.__file__.startswith({root!r}), pplconv.__file__
rng = np.random.default_rng(1)
x, w = (rng.standard_normal(s).astype(np.float32) for s in ((1, 3, 9, 9), (5, 3, 3, 3)))
sums = pplconv.conv2d(x, w, tolerance=0).astype(np.float64)
y = pplconv.conv2d(x, w, tolerance=0, activation="softsign")
np.testing.assert_allclose(y, sums / (1 + abs(sums)), rtol=1e-6)
"""
    run(["python", "-P", "-c", program.format(root=str(tree))], tree)
