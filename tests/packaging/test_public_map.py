"""What is public: ``dir``, ``help`` and the README name it, and importing it stays cheap."""

from __future__ import annotations

import importlib.metadata
import json
import pydoc
import re
from pathlib import Path

import pytest

import pplconv
from tests.programs import output, ran

ROOT = Path(__file__).resolve().parent.parent.parent


def test_dir_lists_the_public_names_alone():
    assert dir(pplconv) == sorted(pplconv.__all__)
    for name in dir(pplconv):
        assert getattr(pplconv, name) is not None
    assert {"conv2d", "Conv2d", "InstancePool", "runtime", "wisdom"} <= set(dir(pplconv))


def test_a_star_import_has_all_of_them(tmp_path):
    program = "from pplconv import *\nprint(runtime.team, wisdom.clear, InstancePool, conv2d)"
    output("-c", program, cwd=tmp_path)


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
    assert public - {"cache", "imaging", "prune", "quant", "runtime", "sharing", "wisdom"} <= shown
    assert {name for name in shown if not name.startswith("__")} <= public | {"DATA", "FILE"}


def test_readme_names_what_is_installed_beside():
    """The sentence that says what a wheel needs names each of them."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    required = importlib.metadata.requires("pplconv")
    names = [re.match(r"[\w-]+", line)[0] for line in required if "extra ==" not in line]
    assert len(names) >= 3
    for name in names:
        assert re.search(rf"needs [^.]*\b{name}\b", readme, re.IGNORECASE), name


# Modules allowed of the package and of others; each takes a quarter of a millisecond or more.
OWN, OTHERS = 185, 30

LOADED = """
import json, sys
import numpy
before = set(sys.modules)
import pplconv
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded_by_import(folder) -> list[str]:
    return json.loads(output("-c", LOADED, cwd=folder))


def test_import_loads_few_modules_beyond_numpy(tmp_path):
    names = loaded_by_import(tmp_path)
    own = [name for name in names if name.partition(".")[0] == "pplconv"]
    assert len(own) <= OWN, own
    assert len(names) - len(own) <= OTHERS, sorted(set(names) - set(own))


def test_import_loads_no_helper_package(tmp_path):
    """psutil, threadpoolctl and all that integrations need are imported on demand."""
    loaded = {name.partition(".")[0] for name in loaded_by_import(tmp_path)}
    assert "pplconv" in loaded
    extras = {"dask", "onnx", "onnx_ir", "PIL", "ray", "scipy", "skimage"}
    assert not loaded & {"psutil", "threadpoolctl", "pytest", *extras}


def test_import_prints_nothing(tmp_path):
    done = ran("-W", "error", "-c", "import pplconv", cwd=tmp_path, check=True)
    assert (done.stdout, done.stderr) == ("", "")
