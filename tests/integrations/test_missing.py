"""Missing packages: errors name the extra, which has the package as pyproject.toml says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.programs import ran

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]

# Each with the modules of before, less a package.
SCRIPT = """
import json, sys, numpy, pplconv
pplconv.Conv2d, pplconv.QConv2d, pplconv.ConvTranspose2d
kept, said = dict(sys.modules), {}
for package, code in json.loads(sys.argv[1]):
    sys.modules.clear()
    sys.modules.update(kept)
    sys.modules[package] = None
    try:
        exec(code)
    except ImportError as error:
        said[package + ": " + code] = str(error)
print(json.dumps(said))
"""
MODULES = (
    ("dask", "import pplconv.integrations.dask"),
    ("cloudpickle", "import pplconv.integrations.dask"),
    ("ray", "import pplconv.integrations.ray_serve"),
    ("starlette", "import pplconv.integrations.asgi"),
    ("onnx", "import pplconv.integrations.onnx_reference"),
    ("onnx_ir", "import pplconv; pplconv.InferenceSession(b'no file of ours')"),
    ("onnx", "from pplconv.quant import quantize_model"),
    ("torch", "import pplconv.integrations.torch"),
)


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """The errors of all imports, made by one process."""
    done = ran("-c", SCRIPT, json.dumps(MODULES), cwd=tmp_path_factory.mktemp("apart"))
    assert done.returncode == 0, done
    return json.loads(done.stdout)


@pytest.mark.parametrize("package, code", MODULES)
def test_missing_packages_are_named_with_their_extra(said, package, code):
    told = said[f"{package}: {code}"]
    assert f"needs {package}: pip install" in told
    (requirement,) = re.findall("pip install '(.*)'", told)
    if package == "torch":  # no extra: there are many builds to choose from
        assert requirement == "torch"
        return
    (extra,) = re.fullmatch(r"pplconv\[(\w+)\]", requirement).groups()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [re.match(r"[\w-]+", one)[0] for one in project["optional-dependencies"][extra]]
    assert package in [name.replace("-", "_") for name in names]
