"""Keys, entries and processes to test wisdom with."""

from __future__ import annotations

import subprocess
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from pplconv.wisdom import Division, Entry, Key, WisdomWarning
from pplconv.wisdom.store import Store
from tests.patience import PATIENCE
from tests.programs import finding, started

CHOICE = {"algorithm": "winograd", "variant": "F(4x4,3x3)"}


def key(number: int = 0, **changes: Any) -> Key:
    fields = {
        "problem": f"mb1g1ic{number + 1}ih8iw8oc8oh8ow8kh3kw3sh1sw1ph1pw1dh0dw0",
        "dtype": "f32",
        "layout": "NCHW",
        "epilogue": "none",
        "tolerance": 1e-5,
        "cpu": "x86_64 GenuineIntel 6/85 Example CPU",
        "isa": "avx512",
    }
    return Key(**{**fields, **changes})


def division(number: int = 0, seconds: float = 1e-3, search: str = "measure") -> Division:
    return Division({"k_block": 64 + number, "pixels_inner": True}, seconds, search)


def entry(*teams: int, number: int = 0, choice: Mapping[str, Any] = CHOICE) -> Entry:
    return Entry(choice, {team: division(number) for team in teams or (1,)})


def fresh(path: Path) -> Mapping[Key, Entry]:
    """Return the entries that a new process would find."""
    return Store(str(path)).entries()


@contextmanager
def caught() -> Iterator[list[str]]:
    """Collect the texts of wisdom's warnings; any other warning is a failure."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield texts
    for warning in found:
        assert warning.category is WisdomWarning, warning
        texts.append(str(warning.message))


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Run Python code in a process that finds this package and these helpers."""
    return started("-c", finding(code), *arguments)


def finish(process: subprocess.Popen[str], status: int = 0) -> list[str]:
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == status, errors
    return output.splitlines()


texts = st.text(st.sampled_from('aZ09 "\\/_{}[],:~'), min_size=1, max_size=6)
names = st.sampled_from(["algorithm", "variant", "k_block", "_x", "N2"])
scalars = st.one_of(st.booleans(), st.integers(0, 2**53), texts)
divisions = st.builds(
    Division,
    st.dictionaries(names, scalars, max_size=4),
    st.floats(1e-9, 1e6),
    st.sampled_from(["measure", "exhaustive"]),
)
keys = st.builds(
    Key, texts, texts, texts, texts, st.floats(0, 1e300, allow_nan=False), texts, texts
)
entries = st.builds(
    Entry,
    st.dictionaries(names, scalars, min_size=1, max_size=4),
    st.dictionaries(st.integers(1, 65536), divisions, min_size=1, max_size=3),
)
collections = st.dictionaries(keys, entries, max_size=3)
