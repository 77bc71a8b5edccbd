"""A second build repeats what was changed or left unfinished, and nothing else.

The compiler is a script that logs its targets, and the modules are empty: the tests look at the
order of work, not at its results.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from asm.registry import ISAS, kernels
from tests.levels import MACHINE
from tests.patience import PATIENCE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.unsanitized("builds with a compiler of its own, which has no sanitizer"),
]

ROOT = Path(__file__).resolve().parent.parent.parent

# It makes no precompiled headers. Its objects hold its arguments and its source; its rules name a
# kernel's template, as a compiler's do.
# REFUSE is a pattern of targets that it refuses to make. MEET names two targets that wait for each
# other. DIE is the target that it leaves half written when it kills the build.
COMPILER = r"""#!/bin/sh
arguments="$*"
case $arguments in *"-x c-header"*) exit 1 ;; esac
while [ $# -gt 0 ]; do
    case $1 in
        -c) source=$2 ;;
        -MF) rule=$2 ;;
        -o) target=$2 ;;
    esac
    shift
done
name=${target##*/}
echo "$name" >> "$LOG"
case $name in ${REFUSE:-nothing}) exit 1 ;; esac
case " $MEET " in *" $name "*)
    : > "$LOG.$name"
    for tenth in $(seq TENTHS); do
        present=0
        for other in $MEET; do [ -e "$LOG.$other" ] && present=$((present + 1)); done
        [ $present = 2 ] && break
        sleep 0.1
    done
    [ $present = 2 ] || exit 1
esac
if [ "$name" = "$DIE" ]; then
    echo half > "$target"
    kill -KILL $PPID
    exit 1
fi
if [ -n "$rule" ]; then
    template=$(sed -n 's/^#include "\([a-z_]*\.c\)"$/\1/p' "$source")
    echo "$target: $source ${template:+$TEMPLATES/$template}" > "$rule"
    [ -z "$template" ] || cat "$source" "$TEMPLATES/$template" > "$target"
fi
[ -n "$template" ] || { echo "$arguments"; [ -z "$source" ] || cat "$source"; } > "$target"
"""


@dataclass
class Tree:
    """A copy of the sources, with the packages that build it and a fake compiler."""

    folder: Path
    packages: Path

    @property
    def log(self) -> Path:
        return self.folder.parent / "log"

    def build(self, status: int = 0, **environment: str) -> list[str]:
        """Build; return the names of all targets that the compiler was asked for."""
        self.log.unlink(missing_ok=True)
        variables = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "CFLAGS"))}
        variables |= {
            "CC": str(self.folder.parent / "cc"),
            "LOG": str(self.log),
            "TEMPLATES": str(self.folder / "asm/templates"),
            "PYTHONPATH": str(self.packages),
            **environment,
        }
        done = subprocess.run(
            [sys.executable, "setup.py", "build_ext", "--parallel=2"],
            cwd=self.folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=3 * PATIENCE,
            check=False,
        )
        assert done.returncode == status, done.stdout[-6000:]
        self.translated = re.findall(r"Cythonizing pplconv/(\S+)\.pyx", done.stdout)
        return sorted(self.log.read_text().split()) if self.log.exists() else []

    def append(self, name: str, text: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(text)


def modules() -> list[str]:
    folder = ROOT / "pplconv"
    found = (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.pyx"))
    return sorted(path.as_posix() for path in found)


@pytest.fixture(scope="module")
def built_once(tmp_path_factory, packages) -> Tree:
    folder = tmp_path_factory.mktemp("tree")
    compiler = folder / "cc"
    compiler.write_text(COMPILER.replace("TENTHS", str(int(10 * PATIENCE))))
    compiler.chmod(0o755)
    tree = Tree(folder / "source", packages)
    left_out = shutil.ignore_patterns("*.so", "__pycache__", "*.pxd")
    for name in ("asm", "pplconv"):
        shutil.copytree(ROOT / name, tree.folder / name, ignore=left_out)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree.folder)
    for name in modules():
        (tree.folder / f"pplconv/{name}.pyx").write_text(f'"""Module {name}."""\n')
    tree.first = tree.build(MEET="pplconv._kernels.o pplconv.api.conv.o")
    tree.first_translated = tree.translated
    return tree


def test_a_first_build_makes_everything_once(built_once):
    assert sorted(built_once.first_translated) == modules()
    names = built_once.first
    assert len(names) == len(set(names))
    objects = {name for name in names if name.endswith(".o")}
    linked = {name.partition(".")[0] for name in names if name.endswith(".so")}
    assert linked == {name.rpartition("/")[2] for name in modules()}
    dotted = {f"pplconv.{name.replace('/', '.')}.o" for name in modules()}
    assert dotted < objects
    assert any(name.startswith("pplconv_gemm") for name in objects - dotted)


def test_modules_are_compiled_at_the_same_time(built_once):
    """Two of them waited for each other in that build, and it would have failed otherwise."""
    met = {path.name for path in built_once.folder.parent.glob("log.*")}
    assert met == {"log.pplconv._kernels.o", "log.pplconv.api.conv.o"}


def test_nothing_is_made_again_because_files_are_newer(built_once):
    later = time.time() + 10
    for path in built_once.folder.rglob("*"):
        if "build" not in path.relative_to(built_once.folder).parts[:1]:
            os.utime(path, (later, later))
    assert built_once.build() == []
    assert built_once.translated == []


def test_a_changed_kernel_is_compiled_alone(built_once):
    built_once.append("asm/templates/pack_rows.c", "/* changed */\n")
    names = built_once.build()
    # Rows of narrow types are packed by another template, which stays as it is.
    rows = [name for name in built_once.first if name.startswith("pplconv_pack_rows_")]
    kernels = [name for name in rows if re.match(r"pplconv_pack_rows_f\d", name)]
    assert kernels and set(kernels) < set(rows)
    module = [name for name in built_once.first if re.fullmatch(r"_kernels\..*so", name)]
    assert names == sorted(kernels + module)
    assert built_once.translated == []


def test_a_changed_module_is_translated_alone(built_once):
    built_once.append("pplconv/instances/_flat.pyx", "changed = True\n")
    names = built_once.build()
    assert built_once.translated == ["instances/_flat"]
    module = [name for name in built_once.first if re.fullmatch(r"_flat\..*so", name)]
    assert names == sorted(["pplconv.instances._flat.o", *module])


@pytest.mark.parametrize("kind", ["kernel", "module", "link"])
def test_what_a_killed_build_left_is_made_again(built_once, kind):
    """The half-written file is newer than all its sources."""
    pattern = {
        "kernel": r"pplconv_pack_weights_f32_portable\.o",
        "module": r"pplconv\._trial\.o",
        "link": r"_trial\..*so",
    }[kind]
    (name,) = (name for name in built_once.first if re.fullmatch(pattern, name))
    changed = "asm/templates/pack_weights.c" if kind == "kernel" else "pplconv/_trial.pyx"
    comment = "/* {} */\n" if kind == "kernel" else "# {}\ndef f_{}(): pass\n"
    built_once.append(changed, comment.format(kind, kind))
    names = built_once.build(status=-signal.SIGKILL, DIE=name)
    assert name in names
    (left,) = (path for path in built_once.folder.rglob(name) if path.is_file())
    assert left.read_text() == "half\n"
    assert name in built_once.build()
    assert left.read_text() != "half\n"
    assert built_once.build() == []


@pytest.mark.skipif(not any(ISAS[k.isa].dtypes == () for k in kernels(MACHINE)), reason="all old")
def test_what_an_assembler_does_not_know_is_written_as_numbers(built_once):
    """It is probed once if it knows all, else each time; PPLCONV_ENCODE=1 probes nothing."""
    assert built_once.build() == []
    assert built_once.build(REFUSE="probe_*") == []  # the first build found that it knows them
    for record in built_once.folder.rglob("probe_*.made-from"):
        record.unlink()
    names = set(built_once.build(REFUSE="probe_*"))
    asked = {name for name in names if name.startswith("probe_")}
    texts = {path.stem: path.read_text() for path in built_once.folder.rglob("asm/pplconv_*.s")}
    numbers = {f"{n}.o" for n, text in texts.items() if re.search(r"\.(byte|inst) 0x", text)}
    (module,) = (name for name in built_once.first if re.fullmatch(r"_kernels\..*so", name))
    assert asked and numbers
    assert names == asked | numbers | {module}
    assert set(built_once.build(REFUSE="probe_*")) == asked
    assert built_once.build(PPLCONV_ENCODE="1") == []
    assert set(built_once.build()) == names
