"""Literal types of arguments match the tables at run time, are used everywhere, and err briefly."""

from __future__ import annotations

import ast
from importlib import resources
from pathlib import Path
from typing import get_args

import pytest
from mypy import api as checker

import pplconv
from pplconv import _literals, planner
from pplconv.algorithms import ALGORITHMS
from pplconv.api import signals
from pplconv.arguments import checks
from pplconv.imaging import borders, filter_arguments, signal, transforms
from pplconv.network import plan_settings
from pplconv.ops import extension, volume_images
from pplconv.ops.transposed import transposed_problem
from pplconv.problem import LAYOUTS
from pplconv.quant import observing

PACKAGE = Path(str(resources.files("pplconv")))

TABLES = {
    "Algorithm": ("auto", *ALGORITHMS),
    "Search": planner.SEARCHES,
    "SearchContext": planner.SEARCH_CONTEXTS,
    "Layout": LAYOUTS,
    "PlainLayout": [layout for layout in LAYOUTS if layout != "NCHWc"],
    "Precision": [word for word in checks.PRECISIONS if word is not None],
    "PaddingWord": checks._PADDING_WORDS,
    "TransposedPaddingWord": transposed_problem._WORDS,
    "PaddingMode": extension.PADDING_MODES,
    "SignalLayout": signals.LAYOUTS,
    "VolumeLayout": volume_images.LAYOUTS,
    "Border": borders.BORDERS,
    "FilterMode": filter_arguments.MODES,
    "FilterMethod": transforms.METHODS,
    "SignalMode": signal.MODES,
    "SignalBoundary": signal.BOUNDARIES,
    "Fallback": plan_settings.FALLBACKS,
    "Method": observing.METHODS,
}


@pytest.mark.parametrize("name", TABLES)
def test_types_have_the_words_of_the_tables(name):
    words = get_args(getattr(_literals, name))
    assert len(set(words)) == len(words)
    assert set(words) == set(TABLES[name])


def test_every_type_is_compared():
    text = (PACKAGE / "_literals.py").read_text(encoding="utf-8")
    defined = {node.target.id for node in ast.parse(text).body if isinstance(node, ast.AnnAssign)}
    assert defined == {*TABLES, "Sparse"}


WORDS = {
    "algorithm",
    "search",
    "search_context",
    "layout",
    "precision",
    "sparse",
    "method",
    "padding_mode",
    "border",
    "mode",
    "boundary",
}
PUBLIC = [
    "api/conv.pyi", "api/function.pyi", "api/conv1d.py", "api/linear.pyi", "api/matmul.pyi",
    "api/transposed_function.pyi", "api/transposed_layer.pyi", "api/conv_transpose1d.py",
    "api/volume_functions.py", "api/volume_layer.py", "api/quantized_function.py",
    "api/quantized_layer.py", "network/session.py", "network/calibration.py", "quant/observing.py",
    "imaging/filtering.py", "imaging/signal.py",
]  # fmt: skip


@pytest.mark.parametrize("name", PUBLIC)
def test_no_public_word_is_any_text(name):
    tree = ast.parse((PACKAGE / name).read_text(encoding="utf-8"))
    loose = [
        f"{node.name}({argument.arg})"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and (not node.name.startswith("_") or node.name == "__init__")
        for argument in (*node.args.args, *node.args.kwonlyargs)
        if argument.arg in WORDS and ast.unparse(argument.annotation or node.args) == "str"
    ]
    assert loose == []


HEAD = """
import numpy as np
import numpy.typing
import pplconv
x = np.ones((1, 4, 8, 8), np.float32)
conv = pplconv.Conv2d(x)
up = pplconv.ConvTranspose2d(x)
v = np.ones((1, 4, 3, 8, 8), np.float32)
volumes = pplconv.Conv3d(v)
"""
# A wrong call, and what its one line must name.
WRONG = {
    'pplconv.conv2d(x, x, strid=2)': ['"strid"', '"stride"'],
    'pplconv.conv2d(x, x, colour=1)': ['"colour"'],
    'pplconv.conv2d(x)': ['"weight"'],
    'pplconv.conv2d(x, x, algorithm="winogard")': ['"algorithm"', "'winograd'"],
    'pplconv.conv2d(x, x, layout="NHCW")': ['"layout"', "'NHWC'"],
    'pplconv.conv2d(x, x, padding="sane")': ['"padding"', "'same'"],
    'pplconv.conv2d(x, x, precision="half")': ['"precision"', "'fp16'"],
    'pplconv.conv2d(x, x, threads="all")': ['"threads"'],
    'pplconv.Conv2d(x, search="fast")': ['"search"', "'measure'"],
    'pplconv.Conv2d(x, search_context="warm")': ['"search_context"', "'cold'"],
    'pplconv.Conv2d(x, sparse="maybe")': ['"sparse"', "'auto'"],
    'pplconv.Linear(x, serach="measure")': ['"serach"', '"search"'],
    'pplconv.conv_transpose2d(x, x, algorithm=3)': ['"algorithm"', "'direct'"],
    'pplconv.conv_transpose2d(x, x, padding="same")': ['"padding"', "'same_upper'"],
    'pplconv.matmul(x, x, thread=1)': ['"thread"', '"threads"'],
    'pplconv.qconv2d(x, 1, 0, x, 1, 0, algorithm="fft")': ['"algorithm"', "'im2col'"],
    'pplconv.InferenceSession("m.onnx", search="fast")': ['"search"', "'estimate'"],
    'pplconv.to_blocked(x, blok=8)': ['"blok"', '"block"'],
    'conv(x, residul=x)': ['"residul"', '"residual"'],
    'pplconv.conv3d(v, v, layout="NCHW")': ['"layout"', "'NDHWC'"],
    'pplconv.conv_transpose3d(v, v, layout="NCHW")': ['"layout"', "'NDHWC'"],
    'pplconv.conv_transpose1d(x[0], x[0], strid=2)': ['"strid"', '"stride"'],
    'pplconv.Conv3d(v, serach="measure")': ['"serach"', '"search"'],
    'volumes(v, residul=v)': ['"residul"', '"residual"'],
    'up(x, output_siz=3)': ['"output_siz"', '"output_size"'],
    'conv.quantize(x, method="most")': ['"method"', "'minmax'"],
}  # fmt: skip
RIGHT = {
    "pplconv.conv2d(x, x)": "float32",
    "pplconv.conv2d(x.astype(np.float16), x)": "float16",
    "pplconv.conv2d(x.tolist(), x)": "Any",
    "pplconv.conv2d([[[[1.0]]]], x)": "Any",
    "pplconv.matmul(x, x)": "float32",
    "pplconv.matmul(x.astype(np.float64), x.astype(np.float64))": "float64",
    "conv(x)": "float32",
    "conv(x.tolist())": "Any",
    "up(x.astype(np.float64))": "float64",
    "pplconv.conv_transpose2d(x, x)": "float32",
    "pplconv.to_blocked(x)": "float32",
    "pplconv.from_blocked(x.tolist())": "Any",
}


def check(lines: list[str], folder: Path) -> dict[int, list[str]]:
    """Return mypy's messages by line."""
    (folder / "mypy.ini").write_text("[mypy]\n")
    (folder / "program.py").write_text(HEAD + "\n".join(lines) + "\n")
    out, errors, _ = checker.run([
        "--strict", "--no-error-summary", "--cache-dir", str(folder / "cache"), "--config-file",
        str(folder / "mypy.ini"), "--no-pretty", str(folder / "program.py"),
    ])  # fmt: skip
    assert errors == ""
    found: dict[int, list[str]] = {}
    for line in out.splitlines():
        _, number, words = line.split(":", 2)
        found.setdefault(int(number) - HEAD.count("\n") - 1, []).append(words.strip())
    return found


@pytest.mark.slow
def test_errors_of_a_checker_are_a_line_that_names_the_argument(tmp_path):
    found = check(list(WRONG), tmp_path)
    assert sorted(found) == list(range(len(WRONG)))
    for number, (call, names) in enumerate(WRONG.items()):
        errors = [words for words in found[number] if words.startswith("error: ")]
        assert len(errors) == 1, (call, found[number])
        assert "overload" not in " ".join(found[number])
        assert all(name in errors[0] for name in names), (call, errors)
        assert len(errors[0]) < 440, (call, errors)


@pytest.mark.slow
def test_results_have_the_type_of_the_input(tmp_path):
    dtypes = sorted({dtype for dtype in RIGHT.values() if dtype != "Any"})
    calls = [f"reveal_type({call})" for call in RIGHT]
    # The name that a checker gives each type depends on the version of NumPy.
    named = [
        f"def of_{dtype}(y: np.typing.NDArray[np.{dtype}]) -> None: reveal_type(y)"
        for dtype in dtypes
    ]
    found = check([*calls, *named], tmp_path)
    types = {d: found[len(calls) + n][0] for n, d in enumerate(dtypes)}
    for number, (call, dtype) in enumerate(RIGHT.items()):
        (words,) = found[number]
        if dtype == "Any":
            assert "dtype[Any]" in words, (call, words)
        else:
            assert words == types[dtype] and "Any]]" not in words.partition("dtype")[2], call


CALLS = {
    "conv2d": (lambda x: pplconv.conv2d(x, x, strid=2), "strid"),
    "Conv2d": (lambda x: pplconv.Conv2d(x, serach="measure"), "serach"),
    "Linear": (lambda x: pplconv.Linear(x, thread=2), "thread"),
    "matmul": (lambda x: pplconv.matmul(x, x, thread=2), "thread"),
    "qconv2d": (lambda x: pplconv.qconv2d(x, 1, 0, x, 1, 0, strid=2), "strid"),
    "conv_transpose2d": (lambda x: pplconv.conv_transpose2d(x, x, strid=2), "strid"),
}


@pytest.mark.parametrize("name", CALLS)
def test_errors_at_run_time_are_short_and_name_the_argument(name, rng):
    call, argument = CALLS[name]
    x = rng.standard_normal((1, 1, 3, 3)).astype("f")
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{argument}'") as caught:
        call(x)
    assert len(str(caught.value)) < 120
