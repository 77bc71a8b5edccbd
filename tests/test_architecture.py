"""Imports inside the package run downward only, and each rule of its rooms is kept.

The sources are read (`package_imports.py`) for imports by statements, by calls and by strings.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.cases import each
from tests.package_imports import (
    ANYTHING,
    ROOT,
    SOME,
    Import,
    cython_imports,
    imports_of,
    module_name,
    python_imports,
)  # fmt: skip

PACKAGE = ROOT / "pplconv"

# From the top down; a room may import from rooms on lower lines, and from itself.
LAYERS = [
    {"__main__"},
    {"integrations"},
    {"__init__", "_conv"},
    {"commands"},
    {"cache"},
    {"network", "imaging"},
    {"api"},
    {"ops"},
    {"arguments"},
    {"instances", "prune", "quant"},
    {"sharing"},
    {"planner"},
    {"algorithms"},
    {"_trial"},
    {"schedules"},
    {"runtime", "wisdom"},
    {"machine"},
    {"memory"},
    {"_binding", "config", "activations", "problem", "_source_tree", "_version"},
    {"matrix_problem"},
    {"numerics", "sparsity"},
    {"_kernels"},
    {
        "_checks",
        "_contracts",
        "_lazy",
        "_literals",
        "_records",
        "architecture",
        "drawing",
        "geometry",
    },
]
LEVELS = {room: -level for level, rooms in enumerate(LAYERS) for room in rooms}
# These rooms may import only from the rooms listed here, not from all rooms below them.
LEAVES = {
    "_conv": {"api"},  # old pickles ask `_conv` for names of `api`
    "_binding": set(),
    "_checks": set(),
    "_contracts": set(),
    "_kernels": {"_contracts"},  # passes the contracts on to callers of kernels
    "_lazy": set(),
    "_literals": set(),
    "_records": set(),
    "_trial": {"_binding", "_kernels", "activations", "memory", "runtime", "schedules"},
    "_source_tree": set(),
    "_version": set(),
    "architecture": set(),
    "config": {"_records", "architecture"},  # a cap names one of its instruction sets
    "drawing": {"_records"},
    "activations": {"_kernels", "_records"},  # the contract's numbers of the activations
    "geometry": {"_records"},
    "imaging": {
        "_checks",
        "_literals",
        "_records",
        "api",
        "arguments",
        "memory",
        "numerics",
        "ops",
        "planner",
        "runtime",
        "schedules",  # the loops of bands, by its `banded`
    },
    "machine": {"_kernels", "_lazy", "_records", "architecture"},  # `_kernels` executes CPUID
    "memory": {"_binding", "numerics"},  # the NUMA node of scratch memory; element types
    "numerics": {"_kernels", "_lazy", "_records"},  # the length of its chains of sums
    "matrix_problem": {"_records", "geometry", "numerics", "sparsity"},
    "prune": {"_checks", "memory", "sparsity"},
    "quant": {"_checks", "_lazy", "_literals", "memory"},
    "problem": {"_lazy", "_records", "geometry", "matrix_problem", "numerics", "sparsity"},
    "sparsity": {"_checks", "_records"},
    "runtime": {"_binding", "_checks", "_lazy", "_records", "config", "machine"},
    "wisdom": {"_checks", "_lazy", "_records", "_version", "config", "machine"},
}


# These import modules whose names are data: the pickled model of a pool names its own module, and
# packages hand tables of modules to `on_demand`, which repeat their imports for type checkers.
IMPORT_FOR_OTHERS = {"instances/forking.py", "_lazy.py"}


def room_of(target: str) -> str | None:
    """Give the room of a dotted path of the package, None outside the package."""
    first, *rest = target.split(".")
    if first == ANYTHING:
        return first
    if first != "pplconv":
        return None
    return rest[0] if rest and rest[0] in LEVELS else "__init__"


def sources(folder: Path = PACKAGE, *suffixes: str) -> list[Path]:
    wanted = suffixes or (".py", ".pyx", ".pxd")
    return sorted(path for path in folder.rglob("*") if path.suffix in wanted)


def each_file(folder: Path = PACKAGE, *suffixes: str) -> Callable[..., Callable[..., None]]:
    return each("path", sources(folder, *suffixes), lambda path: str(path.relative_to(ROOT)))


def own_room(path: Path) -> str:
    return module_name(path)[1]


def complaints(path: Path, found: list[Import]) -> list[str]:
    """List the imports of one file that a room of its kind may not have."""
    room = own_room(path)
    if str(path.relative_to(PACKAGE)) in IMPORT_FOR_OTHERS:
        found = [item for item in found if item.target != ANYTHING]
    allowed = LEAVES.get(room, {name for name in LEVELS if LEVELS[name] < LEVELS[room]})
    return [
        f"{path.relative_to(ROOT)}:{item.line}: {room} imports {item.target}"
        for item in found
        if (target := room_of(item.target)) and target not in allowed | {room}
    ]


def test_the_package_is_there():
    assert len(sources()) > 20
    # A build writes `_contracts.pxd`, which a clone does not have.
    assert {own_room(path) for path in sources()} >= set(LEVELS) - {"integrations", "_contracts"}


@each_file()
def test_every_file_lies_in_a_known_room(path):
    assert own_room(path) in LEVELS, "a new room: give it a line in LAYERS"


@each_file()
def test_imports_run_downward(path):
    assert complaints(path, imports_of(path)) == []


def test_who_imports_for_others_does():
    for name in IMPORT_FOR_OTHERS:
        assert ANYTHING in [item.target for item in imports_of(PACKAGE / name)]


def test_names_from_above_are_provided_from_above():
    """`quant` offers `quantize_model`, which comes from the higher room `network`."""
    provided = """
import sys
import pplconv
assert not any(name.startswith("pplconv.network") for name in sys.modules)
quantize_model = pplconv.quant.quantize_model
assert quantize_model is sys.modules["pplconv.network.calibration"].quantize_model
assert quantize_model is pplconv.quant.quantize_model
"""
    pytest.importorskip("onnx_ir")
    subprocess.run([sys.executable, "-P", "-c", provided], check=True)


def module_graph(root: Path = ROOT) -> dict[str, set[str]]:
    """Give the modules that each module of the package imports, anywhere in its text.

    Imports on demand and imports for types only count too: a reader of one module of a circle has
    to read all of them.
    """
    names: dict[Path, str] = {}
    for path in sources(root / "pplconv"):
        names[path] = ".".join(module_name(path, root)).removesuffix(".__init__")
    known = set(names.values())
    graph: dict[str, set[str]] = {name: set() for name in known}
    for path, name in names.items():
        for item in imports_of(path, root):
            target = item.target
            if target.endswith(SOME):  # the text does not tell which module of the package
                continue
            while target and target not in known:
                target = target.rpartition(".")[0]
            graph[name] |= {target} - {"", name}
    return graph


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Give the modules of one circle in the order of their imports; [] if there is none."""
    done: set[str] = set()

    def walk(name: str, way: list[str]) -> list[str]:
        if name in way:
            return way[way.index(name) :]
        if name in done:
            return []
        for target in sorted(graph[name]):
            if found := walk(target, [*way, name]):
                return found
        done.add(name)
        return []

    return next((found for name in sorted(graph) if (found := walk(name, []))), [])


def test_modules_do_not_import_one_another_in_circles():
    graph = module_graph()
    assert "pplconv.problem" in graph["pplconv.algorithms.nest_blocking"]
    assert circle(graph) == []


@pytest.mark.parametrize("folder", [PACKAGE / "integrations", ROOT / "examples"], ids=str)
def test_guests_use_the_public_api_only(folder):
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    public = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"
    )
    assert {"conv2d", "Conv2d", "Plan", "show_config"} <= set(public)
    inside = 0
    for path in sources(folder):
        for item in imports_of(path):
            where = f"{path.relative_to(ROOT)}:{item.line}"
            if item.target == "pplconv" or not item.target.startswith("pplconv."):
                continue
            inside += 1
            name = item.target.split(".")[1]
            # The table of activations is as public as their names.
            allowed = {*public, "activations", "integrations"}
            assert name in allowed, f"{where}: {item.target} is private"
        private = re.findall(r"\bpplconv\._[a-z]\w*", path.read_text(encoding="utf-8"))
        assert private == [], f"{path.relative_to(ROOT)} reaches into {private}"
    assert inside or folder == PACKAGE / "integrations"


@each_file()
def test_guests_are_imported_on_demand_only(path):
    for item in imports_of(path):
        target = room_of(item.target)
        if target == "integrations" and own_room(path) != "integrations":
            assert own_room(path) == "__main__" and item.lazy


# A file holds one idea; a file longer than this can be split.
LONGEST_FILE = 640


def lengths(*folders: Path) -> dict[str, int]:
    """Give the number of lines of each source file of some folders."""
    suffixes = (".py", ".pyi", ".pyx", ".pxd", ".pxi", ".c", ".h", ".s", ".S")
    return {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for folder in folders
        for path in sources(folder, *suffixes)
    }


def test_no_source_file_is_long():
    found = lengths(PACKAGE, ROOT / "asm")
    assert len(found) > 100
    found.pop("pplconv/_contracts.pxd", None)  # each build writes it
    assert {name: lines for name, lines in found.items() if lines > LONGEST_FILE} == {}


def test_no_two_modules_of_the_package_have_one_name():
    """`asm` is not checked: each architecture's folder has a generator of the same name."""
    found: dict[str, set[Path]] = {}
    for path in sources(PACKAGE, ".py", ".pyx", ".pxd", ".pyi"):
        found.setdefault(path.stem, set()).add(path.with_suffix(""))
    twins = {name: paths for name, paths in found.items() if len(paths) > 1}
    assert len(found) > 300
    assert twins.keys() == {"__init__"}


@cache
def code_of(path: Path) -> str:
    """Give the text without comments and docstrings."""
    return bare(path.read_text(encoding="utf-8"))


def bare(text: str) -> str:
    text = re.sub(r'"""[\s\S]*?"""', "", text)
    return re.sub(r"#.*|//.*|/\*[\s\S]*?\*/", "", text)


def reads_environment(code: str, found: list[Import]) -> bool:
    """Whether code names the environment of os, by any name of the module, or of libc."""
    # A parameter named `environ` is no environment.
    uses = re.search(r"\.\s*(environb?|getenvb?|putenv)\b|\bgetenv\s*\(", code)
    names = {item.target.rpartition(".")[2] for item in found}
    return bool(uses or names & {"environ", "environb", "getenv", "getenvb", "setenv", "putenv"})


@each_file()
def test_only_config_reads_the_environment(path):
    assert reads_environment(code_of(path), imports_of(path)) is (path == PACKAGE / "config.py")


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("import os\nx = os.environ.get('A')", True),
        ("import os as system\nx = system.getenv('A')", True),
        ("from os import getenv", True),
        ("environment = 1", False),
        ("def f(environ):\n    return environ", False),
    ],
)
def test_readers_of_the_environment_are_found(text, reads):
    assert reads_environment(text, list(python_imports(text, ("pplconv", "config")))) is reads


# Code that compares the name of an algorithm or of loops. "auto" is no algorithm.
ASKED_BY_NAME = (
    r"\.NAME\b|[\"']loops[\"']\s*[\])]|"
    r"\.(?:algorithm|loops)\s*(?:[!=]=|in\b|not\s+in\b)(?!\s*[\"']auto[\"'])"
)


def questions(code: str, found: list[Import]) -> list[str]:
    """List the places of a file that ask which algorithm or which loops a plan has."""
    imported = [item.target for item in found if re.search(r"\balgorithms\..*\bNAME$", item.target)]
    return imported + re.findall(ASKED_BY_NAME, code)


@each_file()
def test_plans_answer_and_nobody_asks_for_names(path):
    """Rooms above ask fields and properties, such as ``walks_rows``, of plans and candidates."""
    if not {"algorithms", "schedules"} & set(path.relative_to(PACKAGE).parts[:1]):
        assert questions(code_of(path), imports_of(path)) == []


@each_file(ROOT / "asm", ".c", ".h", ".s", ".S")
def test_kernels_neither_allocate_nor_thread_nor_read_the_environment(path):
    text = code_of(path)
    forbidden = r"\b(malloc|calloc|realloc|free|alloca|mmap|getenv|pthread_\w+|omp_\w+|fopen)\s*\("
    assert re.findall(forbidden, text) == []
    assert "#pragma omp" not in text


@each_file(PACKAGE, ".pyx", ".pxd")
def test_only_schedules_are_parallel(path):
    if "schedules" not in path.parts:
        assert not re.search(r"\b(prange|cython\.parallel|omp_\w+)\b", code_of(path))


@each_file(PACKAGE, ".pyx", ".pxd")
def test_no_module_has_typed_memoryviews(path):
    """Their support is 40 KB of machine code in each module, of a wheel of 5 MB."""
    declared = r"(cdef|^\s*cpdef|\(|,)\s*(const\s+)?\w+\s*\[\s*:[^\]]*\]\s*\w"
    assert re.findall(declared, code_of(path), re.MULTILINE) == []


@each_file(PACKAGE, ".pyx", ".pxd")
def test_no_module_has_generators(path):
    """Their support is 14 KB of machine code in each module; a list serves as well."""
    opened = []
    left_out = r"""\"{3}[\s\S]*?"{3}|"(\\.|[^"\\\n])*"|'(\\.|[^'\\\n])*'|#.*"""
    code = re.sub(left_out, "", path.read_text(encoding="utf-8"))
    for word in re.findall(r"[^\W\d]\w*|[()\[\]{}]", code):
        if word in "([{":
            opened.append(word)
        elif word in ")]}":
            opened.pop()
        else:
            assert word != "yield" and (word != "for" or opened[-1:] != ["("])
    assert opened == []


@cache
def compiled_classes() -> frozenset[str]:
    """List the classes that modules of the package compile."""
    declared = re.compile(r"^cdef class (\w+)", re.MULTILINE)
    return frozenset(
        name for path in PACKAGE.rglob("*.pyx") for name in declared.findall(code_of(path))
    )


@each_file(PACKAGE, ".pyx")
def test_compiled_functions_refuse_none(path):
    """Cython lets None pass for a compiled class, unless it is told: attributes lie anywhere then.

    Functions that know None say ``or None``, or have it as their default.
    """
    found = re.findall(r"^ *(?:def|cpdef [\w ]+) \w+\(([^)]*)\)", code_of(path), re.MULTILINE)
    for argument in re.split(r"\s*,\s*", ", ".join(found)):
        kind, *rest = argument.split() or [""]
        says = rest[1:] in (["not", "None"], ["or", "None"]) or argument.endswith("=None")
        assert kind not in compiled_classes() or says, argument


def test_one_loop_serves_all_teams():
    found = sources(PACKAGE, ".pyx", ".pxd", ".h")
    start = r"cython(\.|\s+cimport\s+)parallel|\bpthread_create\s*\("
    teams = [path.name for path in found if re.search(start, code_of(path))]
    # pplconv_team.h starts a thread only to ask it for OpenMP's number of threads.
    assert teams == ["pplconv_crew.h", "pplconv_team.h"]
    include = 'from "pplconv_crew.h"'
    users = [path.name for path in found if include in path.read_text(encoding="utf-8")]
    assert users == ["team_loop.pyx"]


@each("path", sorted(PACKAGE.glob("schedules/*.p[yx][xd]")), lambda path: path.name)
def test_schedules_never_touch_an_element(path):
    """Schedules see tensors as addresses: to compute, one would have to name an element type."""
    assert not re.search(r"\b(float|double)\b", code_of(path))


@each_file(ROOT / "asm", ".py")
def test_the_kernel_generators_know_nothing_of_the_package(path):
    assert [item for item in imports_of(path) if item.target.split(".")[0] == "pplconv"] == []


@each_file()
def test_the_package_knows_the_table_but_not_the_generators(path):
    assert [item for item in imports_of(path) if item.target.split(".")[0] == "asm"] == []


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("if plan.algorithm == sparse.NAME: pass", True),
        ("if plan.algorithm == 'sparse': pass", True),
        ("fine = c.algorithm not in ('sparse', 'direct')", True),
        ('if fields["loops"] == "direct": pass', True),
        ("loops = fields.get('loops')", True),
        ("same = candidate.loops in ('gemm', 'sparse')", True),
        ("from ..algorithms.sparse import NAME as SPARSE", True),
        ("from pplconv.algorithms.sparse import (\n    floor,\n    NAME,\n)", True),
        ('if request.algorithm != "auto": pass', False),
        ("for algorithm in names: pass", False),
        ('if fields["walks_rows"] and plan.leaves_zeros_out: pass', False),
        ("print(plan.algorithm)  # algorithm.NAME", False),
        ("NAME = row.loops is not None", False),
    ],
)
def test_questions_for_names_are_found(text, asks):
    found = list(python_imports(text, ("pplconv", "planner", "roofs")))
    assert bool(questions(bare(text), found)) is asks


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"a.py": "from .b import B", "b.py": "import pplconv.c", "c.py": ""}, []),
        ({"a.py": "from .b import B", "b.py": "from . import a"}, ["pplconv.a", "pplconv.b"]),
        (
            {"a.py": "def f():\n    from .b import B", "b.py": "if X:\n    from .a import A"},
            ["pplconv.a", "pplconv.b"],
        ),
        (
            {"a.pyx": "", "a.pxd": "from pplconv.b cimport B", "b.pyx": "from pplconv import a"},
            ["pplconv.a", "pplconv.b"],
        ),
        (
            {"room/__init__.py": "from .a import A", "room/a.py": "from . import A"},
            ["pplconv.room", "pplconv.room.a"],
        ),
    ],
    ids=["none", "plain", "on demand and for types", "Cython", "a package"],
)
def test_circles_are_found(tmp_path, files, found):
    for name, text in files.items():
        path = tmp_path / "pplconv" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert circle(module_graph(tmp_path)) == found


@pytest.mark.parametrize(
    ("where", "target", "fine"),
    [
        ("planner/plan.py", "pplconv.algorithms.Candidate", True),
        ("planner/estimating.py", "pplconv.planner.plan", True),
        ("planner/plan.py", "pplconv.api.conv", False),
        ("planner/plan.py", "pplconv", False),
        ("algorithms/im2col.py", "pplconv.planner", False),
        ("machine/cpu.py", "pplconv.config", False),
        ("machine/cpu.py", "pplconv._kernels.cpuid", True),
        ("runtime/threads.py", "pplconv.schedules.base", False),
        ("config.py", "pplconv.machine", False),
        ("problem.py", "pplconv.config", False),
        ("_kernels.pyx", "pplconv.problem", False),
        ("_kernels.pxd", "pplconv._contracts", True),
        ("_contracts.pxd", "pplconv._kernels", False),
        ("schedules/gemm_loops.pyx", "pplconv.algorithms", False),
        ("ops/blocked.pyx", "pplconv.schedules.relayout", True),
        ("commands/search.py", "pplconv.planner", True),
        ("commands/search.py", "pplconv.conv2d", False),
        ("api/conv.pyx", "pplconv.commands.search", False),
        ("runtime/threads.py", "pplconv.wisdom", False),
        ("_trial.pyx", "pplconv.algorithms", False),
        ("api/conv.pyx", "pplconv.integrations", False),
        ("api/conv.pyx", "numpy", True),
    ],
)
def test_the_rule_tells_up_from_down(where, target, fine):
    assert (complaints(PACKAGE / where, [Import(target, False, 1)]) == []) is fine


# Reading of imports, on which the rules above depend ----------------------------------------------


def test_python_imports_are_read():
    text = (
        "import os, pplconv.machine\n"
        "from ..planner import (Plan,\n    cost)\n"
        "from . import nest\n"
        "def f():\n    if True:\n        from ..api import conv\n"
    )
    assert list(python_imports(text, ("pplconv", "algorithms", "tiled"))) == [
        Import("os", False, 1),
        Import("pplconv.machine", False, 1),
        Import("pplconv.planner.Plan", False, 2),
        Import("pplconv.planner.cost", False, 2),
        Import("pplconv.algorithms.nest", False, 4),
        Import("pplconv.api.conv", True, 7),
    ]


def test_cython_imports_are_read():
    text = (
        '"""import nothing\nfrom here"""\n'
        "from libc.stdint cimport int64_t\n"
        "from pplconv._kernels cimport (\n    find,  # a comment\n    rows as r,\n)\n"
        "cimport cython\n"
        "from . import planner\n"
        "import threading\n"
        "    from pplconv import imaging\n"
    )
    found = sorted(cython_imports(text, ("pplconv", "_conv")), key=lambda item: item.line)
    assert [(item.target, item.lazy, item.line) for item in found] == [
        ("libc.stdint.int64_t", False, 3),
        ("pplconv._kernels.find", False, 4),
        ("pplconv._kernels.rows", False, 4),
        ("cython", False, 8),
        ("pplconv.planner", False, 9),
        ("threading", False, 10),
        ("pplconv.imaging", True, 11),
    ]


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ('import_module("..network.calibration", __name__)', "pplconv.network.calibration"),
        ('importlib.import_module("pplconv.network")', "pplconv.network"),
        ('import_module(name=".team", package=__package__)', "pplconv.quant.team"),
        ('import_module(f".{name}", __package__)', "pplconv.quant.*"),
        ('import_module(f"..network.{name}", __package__)', "pplconv.network.*"),
        ('import_module(f"{__name__}.{homes[name]}")', "pplconv.quant.*"),
        ('import_module(f"{__package__}.ranges")', "pplconv.quant.ranges"),
        ("import_module(name)", "?"),
        ('import_module(f"{name}.ranges")', "?"),
        ('__import__("pplconv.api.conv")', "pplconv.api.conv"),
        ('import_module("ml_dtypes")', "ml_dtypes"),
        (
            'HOMES = {"quantize_model": "pplconv.network.calibration"}',
            "pplconv.network.calibration",
        ),
        ('HOMES = {"quantize_model": "..network.calibration"}', "pplconv.network.calibration"),
    ],
)
def test_imports_by_calls_and_strings_are_read(text, target):
    found = {item.target for item in python_imports(text, ("pplconv", "quant", "__init__"))}
    assert target in found
    assert all(item.lazy for item in python_imports(text, ("pplconv", "quant", "__init__")))


def test_strings_that_name_no_module_import_nothing():
    text = 'A = ["pplconv.Conv", "pplconv.serve", "network", "a text of pplconv.network", "..."]'
    assert list(python_imports(text, ("pplconv", "quant", "__init__"))) == []


def test_calls_in_cython_import_anything():
    text = 'def f():\n    return import_module("..network", __name__)\n'
    assert list(cython_imports(text, ("pplconv", "api", "layer"))) == [Import("?", True, 2)]
