"""Types reach the users: stubs are installed, say what is true, and satisfy a strict checker."""

from __future__ import annotations

import ast
import inspect
import subprocess
from importlib import resources
from pathlib import Path

import pytest

import pplconv
from tests.programs import output, ran

RIGHT = '''
"""A program that uses everything public."""

import numpy as np
from numpy.typing import NDArray

import pplconv

x: NDArray[np.float32] = np.ones((1, 4, 8, 8), np.float32)
w: NDArray[np.float32] = np.ones((6, 2, 3, 3), np.float32)
b: NDArray[np.float32] = np.ones(6, np.float32)
out: NDArray[np.float32] = np.empty((1, 6, 8, 8), np.float32)

y = pplconv.conv2d(x, w, b, 1, "same", 1, 2, activation=("clip", 0.0, 6.0), residual=out)
pplconv.conv2d(x, w, b, stride=(1, 2), padding=(1, 0), dilation=(1, 1), groups=2)
pplconv.conv2d(x, w, padding=((1, 1), (0, 2)), groups=2, layout="NCHW", algorithm="im2col")
pplconv.conv2d(x.tolist(), w.tolist(), groups=2, tolerance=1e-4, threads=2)
pplconv.conv2d(x, w, groups=2, max_workspace=1 << 20)
conv = pplconv.Conv2d(
    w, b, padding=1, groups=2, activation="relu", input_shape=(1, 4, 8, 8), search="estimate"
)
z: np.ndarray[tuple[int, ...], np.dtype[np.float32]] | NDArray[np.generic] = conv(x, residual=y)
conv(x, None, out)
pplconv.conv2d(x, w, groups=2, activation=("prelu", b))
pplconv.conv2d(x, w, groups=2, activation=("leaky_relu", 0.1))
pplconv.Conv2d(w, groups=2, activation="silu")
pplconv.Conv2d(w, groups=2, search="measure", search_seconds=0.01, max_workspace=1 << 24)
pplconv.Conv2d(w, groups=2, search="measure", search_seconds=0.01, search_context="cold")
pplconv.Conv2d(w, groups=2, sparse=False)
pplconv.Conv2d(w, groups=2, sparse="auto", block=(1, 4), weight_shape=(6, 2, 3, 3))
pplconv.Linear(w[0, 0], sparse="auto", block=(1, 8))
zeros: bool | str = conv.sparse
plan: pplconv.Plan = conv.plan_for((1, 4, 8, 8))
sizes: tuple[int, int, int, int] = conv.weight_shape
kernel: tuple[int, int] = conv.kernel_size
channels: int = conv.in_channels + conv.out_channels + conv.groups
pairs: tuple[tuple[int, int], tuple[int, int]] = (conv.stride, conv.dilation)
weights: NDArray[np.float32] = conv.weight
biases: NDArray[np.float32] | None = conv.bias
settings: tuple[str, float, int | None] = (conv.algorithm, conv.tolerance, conv.threads)
again = pplconv.Conv2d(conv.weight, activation=conv.activation, layout=conv.layout)
pplconv.conv2d(x, w, groups=2, stride=np.array([1, 2]), padding=np.array(1))
with pplconv.runtime.team(1):
    conv(x)
count: int = plan.scratch_bytes + plan.packed_weight_bytes + plan.threads
text: str = plan.problem + plan.algorithm + plan.isa + plan.kernel + plan.bits
cycles: float = sum(plan.cost.values())
measured: float | None = plan.seconds
names: tuple[str, ...] = tuple(plan.runners_up)
version: str = pplconv.__version__
blocked: NDArray[np.float32] = pplconv.to_blocked(x, 8)
planes: NDArray[np.float32] = pplconv.from_blocked(pplconv.to_blocked(x), channels=4)
pplconv.from_blocked(pplconv.to_blocked(x.tolist(), block=2))
pplconv.show_config()
q: NDArray[np.uint8] = np.ones((1, 4, 8, 8), np.uint8)
qw: NDArray[np.int8] = np.ones((6, 2, 3, 3), np.int8)
pplconv.qconv2d(q, 0.5, 0, qw, np.ones(6), None, 0.25, np.uint8(3), groups=2, activation="relu")
pplconv.conv2d_integer(q, qw, 3, [1, 2, 3, 4, 5, 6], groups=2, padding="same", threads=1)
pplconv.qmatmul(q, 0.5, 0, q, 0.5, 128, out_dtype=np.float32)
pplconv.matmul_integer(q, q, 1, 2)
sums = pplconv.QConv2d(qw, groups=2, out_dtype="int32")
decibels: float | None = sums.signal_to_noise
qy: np.ndarray[tuple[int, ...], np.dtype[np.generic]] = sums(q)
sampled: pplconv.QConv2d = conv.quantize([x, x], method="mse", x_dtype=np.int8)
scale, zero_point = pplconv.quant.observe(x, "percentile", percentile=99)
codes, scales, zero_points = pplconv.quant.quantize_weights(w)
back = pplconv.quant.dequantize(codes, scales, zero_points, axis=0)
ratio: float = pplconv.quant.signal_to_noise(w, back)
'''

WRONG = """
import numpy as np

import pplconv

x = np.ones((1, 4, 8, 8), np.float32)
pplconv.conv2d(x, x, layout=3)  # error
pplconv.conv2d(x, x, stride="two")  # error
pplconv.conv2d(x, x, None, 1, 0, 1, 1, "relu")  # error
pplconv.conv2d(x, x, search="measure")  # error
pplconv.conv2d(x, x, max_workspace=0.5)  # error
pplconv.conv2d(x, x, activation="tanhshrink")  # error
conv = pplconv.Conv2d(x)
conv(x, x, x, x)  # error
conv.plan_for(3)  # error
conv.plan_for((1, 4, 8, 8)).mr = 3  # error
conv.stride = (1, 1)  # error
conv.weight = x  # error
conv.colour  # error
pplconv.to_blocked(x, block="all")  # error
pplconv.from_blocked(x, 1, 2)  # error
pplconv.conv2d(x, x, layout="NCHW16c")  # error
pplconv.Convolution  # error
pplconv.Conv2d(x, block=4)  # error
pplconv.conv2d(x, x, sparse=True)  # error
pplconv.qconv2d(x, 1.0, 0, x)  # error
pplconv.QConv2d(x, layout="NCHWc")  # error
pplconv.QConv2d(x, activation="silu")  # error
pplconv.matmul_integer(x, x, threads="all")  # error
"""


def mypy(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "consumer.py").write_text(text)
    options = ["--strict", "--cache-dir", str(folder / "cache"), "--config-file", "/dev/null"]
    return ran("-m", "mypy", *options, "consumer.py", cwd=folder)


@pytest.mark.slow
def test_a_right_program_passes_a_strict_checker(tmp_path):
    done = mypy(RIGHT, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_wrong_program_does_not(tmp_path):
    done = mypy(WRONG, tmp_path)
    reported = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    marked = {n for n, line in enumerate(WRONG.splitlines(), 1) if line.endswith("# error")}
    assert reported == marked, done.stdout + done.stderr


def test_the_right_program_runs(tmp_path):
    (tmp_path / "consumer.py").write_text(RIGHT)
    output("consumer.py", cwd=tmp_path)


def test_marker_and_stubs_are_installed():
    package = resources.files("pplconv")
    assert (package / "py.typed").is_file()
    # Stubs of compiled modules that Python modules import; only Cython sees the others.
    stubs = ["_kernels.pyi", "ops/blocked.pyi", *(f"api/{name}" for name in STUBS.values())]
    for stub in stubs:
        assert package.joinpath(*stub.split("/")).is_file(), stub


SIGNATURES = {
    "conv2d": "input weight bias stride padding dilation groups * activation residual layout "
    "algorithm tolerance precision threads max_workspace padding_mode out",
    "Conv2d": "weight bias stride padding dilation groups * activation layout algorithm "
    "tolerance precision input_shape search search_seconds max_workspace threads "
    "search_context sparse block weight_shape padding_mode",
    "conv_transpose2d": "input weight bias stride padding output_padding groups dilation * "
    "output_size activation residual layout algorithm tolerance precision threads max_workspace "
    "out",
    "ConvTranspose2d": "weight bias stride padding output_padding groups dilation * activation "
    "layout algorithm tolerance precision input_shape search search_seconds max_workspace threads "
    "search_context",
}
STUBS = {
    "conv2d": "function.pyi",
    "Conv2d": "conv.pyi",
    "conv_transpose2d": "transposed_function.pyi",
    "ConvTranspose2d": "transposed_layer.pyi",
}
DEFAULTS = {
    "bias": None,
    "stride": 1,
    "padding": 0,
    "output_padding": 0,
    "output_size": None,
    "dilation": 1,
    "groups": 1,
    "activation": None,
    "residual": None,
    "layout": "NCHW",
    "algorithm": "auto",
    "tolerance": None,
    "precision": None,
    "threads": None,
    "out": None,
    "input_shape": None,
    "search": "estimate",
    "search_seconds": 0.5,
    "max_workspace": None,
    "search_context": "hot",
    "sparse": "auto",
    "block": None,
    "weight_shape": None,
    "padding_mode": "zeros",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_at_run_time(name):
    """What ``help`` and ``inspect`` show."""
    signature = inspect.signature(getattr(pplconv, name))
    positional, keywords = (part.split() for part in SIGNATURES[name].split("*"))
    parameters = signature.parameters
    assert [*parameters] == positional + keywords
    for parameter in parameters.values():
        expected = DEFAULTS.get(parameter.name, inspect.Parameter.empty)
        assert parameter.default == expected
        assert (parameter.kind is parameter.KEYWORD_ONLY) == (parameter.name in keywords)


@pytest.mark.parametrize("name", SIGNATURES)
def test_stubs_have_the_signatures_of_the_code(name):
    """Names, order, keyword-only parameters and defaults, in every overload."""
    public = name
    text = (resources.files("pplconv") / "api" / STUBS[name]).read_text(encoding="utf-8")
    body = ast.parse(text).body
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            body, name = node.body, "__init__"
            break
    nodes = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == name]
    assert nodes
    positional, keywords = (part.split() for part in SIGNATURES[public].split("*"))
    for node in nodes:
        arguments = [a.arg for a in node.args.args if a.arg != "self"]
        assert arguments == positional
        assert [a.arg for a in node.args.kwonlyargs] == keywords
        values = [ast.literal_eval(value) for value in node.args.defaults + node.args.kw_defaults]
        defaulted = [key for key in positional + keywords if key in DEFAULTS]
        assert values == [DEFAULTS[key] for key in defaulted]


def public_callables():
    """Functions of the package, and methods of its classes, by name."""
    for name in pplconv.__all__:
        value = getattr(pplconv, name)
        if inspect.isroutine(value):
            yield name, value
        elif inspect.isclass(value) and not issubclass(value, Exception):
            for key in dir(value):
                if key[0] != "_" and callable(each := getattr(value, key)):
                    yield f"{name}.{key}", each


@pytest.mark.parametrize(("name", "value"), [*public_callables()])
def test_what_users_call_tells_its_signature(name, value):
    """Modules of such functions are compiled with ``binding=True``."""
    assert inspect.signature(value).parameters
