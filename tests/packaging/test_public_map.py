"""What is public: ``dir``, ``help`` and the README name it, and importing it stays cheap."""

from __future__ import annotations

import ast
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


# What an import of the package loads; each module more takes a quarter of a millisecond or more.
OWN = {
    "_binding", "_kernels", "_lazy", "_version", "quant", "schedules", "schedules.team",
    "schedules.team_loop",
}  # fmt: skip
OTHERS = 5

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
    own = {name for name in names if name.partition(".")[0] == "pplconv"}
    assert own == {"pplconv", *(f"pplconv.{name}" for name in OWN)}
    assert len(names) - len(own) <= OTHERS, sorted(set(names) - own)


def test_import_does_not_import_numpy(tmp_path):
    """So that a program which only asks for the version need not wait for it."""
    code = "import pplconv, sys; print(pplconv.__version__, 'numpy' in sys.modules)"
    assert output("-c", code, cwd=tmp_path).split() == [pplconv.__version__, "False"]


# The module of each name, "" for modules.
HOMES = {name: home for home, names in pplconv._ON_DEMAND.items() for name in names.split()}


def imported_for_types(path: Path) -> dict[str, str]:
    """Give the module of each name that a package imports for type checkers, as in `HOMES`."""
    found = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for item in node.body:
                for name in item.names:
                    found[name.name] = item.module or ""
    return found


def test_names_on_demand_are_those_that_type_checkers_and_editors_see():
    assert imported_for_types(Path(pplconv.__file__)) == HOMES
    assert {*HOMES} | {"__version__", "quant"} == {*pplconv.__all__}


@pytest.mark.parametrize("name", HOMES)
def test_no_module_shadows_a_name_on_demand(name):
    """An import of a module of that name would put the module into the package."""
    place = Path(pplconv.__file__).with_name(name)
    there = place.is_dir() or any(place.parent.glob(f"{name}.*"))
    assert there is (HOMES[name] == "")


def test_a_name_is_imported_once(tmp_path):
    """Then it lies in the package, where a look-up costs nothing."""
    code = (
        "import pplconv\nassert 'conv2d' not in vars(pplconv)\nfirst = pplconv.conv2d\n"
        "print(vars(pplconv)['conv2d'] is first, hasattr(pplconv, 'conv4d'))"
    )
    assert output("-c", code, cwd=tmp_path).split() == ["True", "False"]


def test_threads_reach_names_at_once(tmp_path):
    """Modules and packages that import them: importlib alone takes some of that for deadlocks."""
    code = """
import sys, threading
import pplconv
sys.setswitchinterval(1e-5)
names = pplconv.__all__
barrier, failed, found = threading.Barrier(len(names)), [], {}
def reach(name):
    barrier.wait()
    try:
        found[name] = getattr(pplconv, name)
    except BaseException as error:
        failed.append(repr(error))
threads = [threading.Thread(target=reach, args=(name,)) for name in names]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(failed, all(found[name] is getattr(pplconv, name) for name in names))
"""
    assert output("-c", code, cwd=tmp_path).strip() == "[] True"


def test_a_module_that_is_being_imported_asks_for_names(tmp_path):
    """Its thread holds importlib's lock of the module, and another thread waits for the module."""
    package = tmp_path / "lent"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from pplconv._lazy import on_demand\n"
        "__getattr__ = on_demand('lent', {'slow': 'thing', 'quick': 'value'})\n"
    )
    (package / "quick.py").write_text("value = 5\n")
    (package / "slow.py").write_text(
        "import gate\ngate.begun.set()\ngate.go.wait()\nfrom lent import value as thing\n"
    )
    (tmp_path / "gate.py").write_text(
        "import threading\nbegun, go = threading.Event(), threading.Event()\n"
    )
    code = """
import os, sys, threading, time
sys.path.insert(0, os.getcwd())
import gate, lent
found = []
def imports():
    import lent.slow
    found.append(lent.slow.thing)
def asks():
    found.append(lent.thing)
first = threading.Thread(target=imports, daemon=True)
first.start()
gate.begun.wait()
second = threading.Thread(target=asks, daemon=True)
second.start()
time.sleep(0.3)
gate.go.set()
for thread in (first, second): thread.join(20)
print(found)
os._exit(0 if found == [5, 5] else 1)
"""
    done = ran("-c", code, cwd=tmp_path)
    assert done.returncode == 0, (done.stdout, done.stderr)


def test_a_process_forks_while_another_thread_imports(tmp_path):
    code = """
import os, threading
import pplconv
begun = threading.Event()
def reach():
    begun.set()
    pplconv.Conv2d
thread = threading.Thread(target=reach)
thread.start()
begun.wait()
child = os.fork()
if not child:
    pplconv.matmul, pplconv.Conv2d
    os._exit(7)
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert output("-c", code, cwd=tmp_path).strip() == "7"


def test_import_loads_no_helper_package(tmp_path):
    """psutil, threadpoolctl and all that integrations need are imported on demand."""
    loaded = {name.partition(".")[0] for name in loaded_by_import(tmp_path)}
    assert "pplconv" in loaded
    extras = {"dask", "onnx", "onnx_ir", "PIL", "ray", "scipy", "skimage"}
    assert not loaded & {"psutil", "threadpoolctl", "pytest", *extras}


def test_import_prints_nothing(tmp_path):
    done = ran("-W", "error", "-c", "import pplconv", cwd=tmp_path, check=True)
    assert (done.stdout, done.stderr) == ("", "")
