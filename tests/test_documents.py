"""Documents agree with the code, and their links lead somewhere."""

from __future__ import annotations

import re

import pytest

from benchmarks.engines import ENGINES
from benchmarks.long_tables import read
from pplconv import config
from pplconv.algorithms.error_bounds import WINOGRAD, direct_error_bound, winograd_error_bound
from pplconv.architecture import LADDERS
from pplconv.numerics import numerics_of
from tests.documents import ROOT, follow, headings, links, pages, section, tables

README = (ROOT / "README.md").read_text(encoding="utf-8")
OPTIONS = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
WORDS += ("eleven", "twelve", "thirteen", "fourteen", "fifteen")
# The names of architectures in the prose of the options.
ARCHITECTURES = {"x86-64": "x86_64", "AArch64": "aarch64", "32-bit Arm": "armv7l"}


def test_all_pages_are_found():
    names = {path.relative_to(ROOT).as_posix() for path in pages()}
    wanted = {"README.md", "CHANGELOG.md", "asm/README.md", "docs/architecture.md"}
    assert names >= wanted | {"benchmarks/README.md", "benchmarks/RESULTS.md"}


@pytest.mark.parametrize("page", pages(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page):
    for link in links(read(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, name = follow(page, link)
        assert path.exists(), f"{link}: no such file"
        text = path.read_text(encoding="utf-8") if name else ""
        if re.fullmatch(r"L\d+", name):
            assert int(name[1:]) <= text.count("\n"), f"{link}: no such line"
        elif name:
            assert name in {found for found, *_ in headings(text)}, f"{link}: no such heading"


def test_peers_are_counted_as_they_are():
    """Each configuration is an engine; each library is a module of engines."""
    peers = [engine for engine in ENGINES.values() if not engine.ours]
    libraries = {type(engine).__module__ for engine in peers}
    wanted = f"{WORDS[len(peers)]} configurations of {WORDS[len(libraries)]} libraries"
    for path in pages():
        text = " ".join(path.read_text(encoding="utf-8").split())
        counts = re.findall(r"(\w+ configurations of \w+ libraries)", text)
        assert set(counts) <= {wanted}, path
        # "Engines" would be a second word for the configurations.
        assert re.findall(rf"\b(?:{'|'.join(WORDS[3:])}|\d+) engines\b", text) == [], path
    assert wanted in " ".join(README.split())


def test_engines_of_the_benchmarks_page():
    page = section(ROOT / "benchmarks" / "README.md", "engines")
    (table,) = tables(page)
    assert [name for row in table[1:] for name in re.findall(r"`(\w+)`", row[0])] == list(ENGINES)


def test_environment_variables():
    """docs/options.md and the docstring name exactly the variables that config reads."""
    source = (ROOT / "pplconv" / "config.py").read_text(encoding="utf-8")
    read = set(re.findall(r"\"(PPLCONV_[A-Z_]+)\"", source))
    assert len(read) >= 4
    said = {name for name in re.findall(r"\bPPLCONV_[A-Z_]+\b", OPTIONS) if "_TEST_" not in name}
    assert said == read
    described = set(re.findall(r"^``(PPLCONV_[A-Z_]+)``", config.__doc__, re.MULTILINE))
    assert described == read


def test_instruction_sets():
    """The row of PPLCONV_MAX_ISA names each architecture and its ladder, in order."""
    (row,) = [line for line in OPTIONS.splitlines() if "`PPLCONV_MAX_ISA` caps it" in line]
    where = r"((?:`\w+`(?:, )?)+) on ({})"
    found = re.findall(where.format("|".join(ARCHITECTURES)), row)
    assert {
        ARCHITECTURES[arch]: tuple(re.findall(r"`(\w+)`", names)) for names, arch in found
    } == LADDERS


def test_the_oldest_opset():
    """Page and docstring agree with the check; read as text, since ONNX need not be installed."""
    network = ROOT / "pplconv" / "network"
    checking = (network / "checking.py").read_text(encoding="utf-8")
    (oldest,) = re.findall(r"^OLDEST_OPSET = (\d+)$", checking, re.MULTILINE)
    for path in (ROOT / "docs" / "networks.md", network / "session.py"):
        said = re.findall(r"[Oo]psets? (\d+) to\s+the newest", path.read_text(encoding="utf-8"))
        assert said == [oldest], path


def rooms() -> list[str]:
    (table,) = tables(section(ROOT / "docs" / "architecture.md", "the-rooms"))
    return [name for row in table[1:] for name in re.findall(r"`([\w/]+)`", row[0])]


def test_rooms_exist():
    """A room is a folder or a module of the package, in Python or Cython."""
    assert len(rooms()) > 20
    for name in rooms():
        if name.endswith("/"):
            assert (ROOT / name).is_dir(), name
        else:
            path = ROOT / name
            assert list(path.parent.glob(f"{path.name}.py*")) or path.is_dir(), name


def test_every_room_of_the_package_is_in_the_table():
    package = ROOT / "pplconv"
    modules = {p.stem for p in package.iterdir() if p.suffix in (".py", ".pyx")}
    folders = {p.parent.name for p in package.glob("*/__init__.py")}
    there = {f"pplconv/{name}" for name in modules | folders if not name.startswith("__")}
    assert there - {name.rstrip("/") for name in rooms()} == set()


def test_benchmarks_that_know_more_than_the_public_api():
    """The row of `benchmarks/` names exactly the modules that import private names."""
    folder = ROOT / "benchmarks"
    inside = re.compile(
        r"^\s*(?:from pplconv\.(?!integrations\b)\w|from pplconv import _|from asm\b)", re.MULTILINE
    )
    private = {
        path.relative_to(folder).parts[0].removesuffix(".py")
        for path in folder.rglob("*.py")
        if inside.search(path.read_text(encoding="utf-8"))
    }
    (table,) = tables(section(ROOT / "docs" / "architecture.md", "the-rooms"))
    (row,) = [row for row in table if row[0] == "`benchmarks/`"]
    named = {name.rstrip("/") for name in re.findall(r"`(\w+/?)`", row[2])}
    assert private == named - {"_kernels", "_trial", "asm"}


def test_every_module_of_the_benchmarks_is_described():
    folder = ROOT / "benchmarks"
    (table,) = tables(section(folder / "README.md", "files"))
    named = {name.rstrip("/") for row in table[1:] for name in re.findall(r"`([^`]+)`", row[0])}
    there = {path.name for path in folder.iterdir() if not path.name.startswith(("__", "."))}
    assert there - named <= {"README.md", "report"}
    assert named <= there


SINGLE = numerics_of("f32", "f32")


def test_error_bounds():
    """The bounds that docs/accuracy.md states, and how far the default tolerance reaches."""
    text = section(ROOT / "docs" / "accuracy.md", "what-a-bound-means")
    bounds = tables(text)[0]
    channels = [int(number) for number in re.findall(r"\d+(?!\d)", " ".join(bounds[0][2:]))]
    channels.remove(32)  # the number in "float32"
    assert len(bounds[1:]) == 1 + len(WINOGRAD)
    for name, _, *stated in bounds[1:]:
        variant = re.fullmatch(r"F\((\d)x\d,(\d)x\d\)", name)
        for count, number in zip(channels, stated, strict=True):
            exact = (
                winograd_error_bound(int(variant[1]), int(variant[2]), count, SINGLE)
                if variant
                else direct_error_bound(9 * count, SINGLE)
            )
            assert float(number.split()[0]) == float(f"{exact:.1e}"), f"{name}, {count}"
    reach = re.findall(r"F\((\d)x\d,(\d)x\d\) up\s+to\s+(\d+)", text)
    assert len(reach) == 4
    for n, r, count in reach:
        bound = [winograd_error_bound(int(n), int(r), int(count) + k, SINGLE) for k in (0, 1)]
        assert bound[0] <= 1e-5 < bound[1], f"F({n},{r})"
