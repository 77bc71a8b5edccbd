"""A session is made without ``sympy``, which `onnx_ir` gets when it asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import children

SESSION = """
import sys
import numpy as np, onnx, onnx.helper as h
import pplconv
value = lambda name: h.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 3])
graph = h.make_graph([h.make_node("Relu", ["x"], ["y"])], "g", [value("x")], [value("y")])
model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
session = pplconv.InferenceSession(model)
(y,) = session.run(None, {"x": np.array([[-1.0, 2.0, -3.0]], np.float32)})
assert y.tolist() == [[0.0, 2.0, 0.0]]
"""


def run(code: str) -> str:
    """Run a program in a process of its own, and give what it prints."""
    # Beside this file, since the root of the repository holds sources of the package.
    here = Path(__file__).parent
    done = children.python("-W", "ignore", "-c", code, cwd=here, env=children.environment())
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_session_needs_no_sympy():
    assert run(SESSION + "print('sympy' in sys.modules)") == "False"


def test_named_dimensions_can_be_computed():
    code = SESSION + (
        "import onnx_ir as ir\n"
        "print(ir.SymbolicDim('n') + 1, ir.SymbolicDim('max(a, b)') * 2,"
        " ir.SymbolicDim('floor(n / 2)') + ir.SymbolicDim('m'), sep='; ')\n"
        "import sympy\n"
        "print(sympy.Symbol('n') + 1 == sympy.sympify('1 + n'), sympy.__spec__.name)"
    )
    names, same = run(code).splitlines()
    assert names.split("; ")[:2] == ["n + 1", "2*Max(a, b)"]
    assert "floor(n/2)" in names
    assert same == "True sympy"


@pytest.mark.parametrize("first", ["sympy", "sympy.core", "onnx_ir"])
def test_what_was_imported_before_stays(first):
    code = (
        f"import sys, {first}\nbefore = sys.modules[{first!r}]\n{SESSION}"
        f"print(sys.modules[{first!r}] is before, type(sys.modules['sympy']).__name__)"
    )
    assert run(code) == "True module"


def test_others_that_import_it_meanwhile_get_the_real_one():
    code = (
        "import sys\n"
        "seen = []\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'onnx_ir._metadata' or name == 'onnx_ir.traversal':\n"
        "            import sympy.core.numbers\n"
        "            seen.append((sympy, sympy.core.numbers.pi))\n"
        "sys.meta_path.append(Finder())\n"
        "sys.meta_path.insert(0, sys.meta_path.pop())\n"
        f"{SESSION}"
        "import sympy\n"
        "print(bool(seen), all(own is sympy and pi is sympy.pi for own, pi in seen))\n"
        "import onnx_ir as ir\n"
        "print(ir.SymbolicDim('n') + 1, ir._core.sympy.Symbol is sympy.Symbol)"
    )
    assert run(code).splitlines() == ["True True", "n + 1 True"]
