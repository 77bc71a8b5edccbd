"""``dir`` and ``help`` show what is public, and the README names what is installed with it."""

from __future__ import annotations

import importlib.metadata
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pplconv
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parent.parent.parent


def test_dir_lists_the_public_names_alone():
    assert dir(pplconv) == sorted(pplconv.__all__)
    for name in dir(pplconv):
        assert getattr(pplconv, name) is not None
    assert {"conv2d", "Conv2d", "InstancePool", "runtime", "wisdom"} <= set(dir(pplconv))


def test_a_star_import_has_all_of_them(tmp_path):
    program = "from pplconv import *\nprint(runtime.team, wisdom.clear, InstancePool, conv2d)"
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, timeout=PATIENCE, check=True)


@pytest.mark.parametrize("name", [name for name in pplconv.__all__ if name != "__version__"])
def test_the_map_names_everything_public(name):
    assert re.search(rf"`{name}[`.]", pplconv.__doc__), f"the docstring says nothing of {name}"


def test_help_is_the_map():
    text = pydoc.plain(pydoc.render_doc(pplconv))
    whole, _, listed = text.partition("PACKAGE CONTENTS")
    assert whole.count("``") > 10 and "arrows" not in whole
    shown = set(re.findall(r"^    (?:class )?(\w+)(?:\(| = )", listed, re.MULTILINE))
    public = {name for name in pplconv.__all__ if not name.startswith("__")}
    # Modules are listed as such.
    assert public - {"imaging", "prune", "quant", "runtime", "sharing", "wisdom"} <= shown
    assert {name for name in shown if not name.startswith("__")} <= public | {"DATA", "FILE"}


def test_readme_names_what_is_installed_beside():
    """The sentence that says what a wheel needs names each of them."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    required = importlib.metadata.requires("pplconv")
    names = [re.match(r"[\w-]+", line)[0] for line in required if "extra ==" not in line]
    assert len(names) >= 3
    for name in names:
        assert re.search(rf"needs [^.]*\b{name}\b", readme, re.IGNORECASE), name
