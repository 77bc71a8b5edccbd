"""A session is made without ``sympy`` and others, which `onnx` and `onnx_ir` get when they ask."""

from __future__ import annotations

import importlib.metadata
import sys
import types
from pathlib import Path

import onnx
import onnx.helper
import pytest

from pplconv.network import spared_imports
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


def test_a_session_imports_nothing_that_saves_models_or_reads_metadata():
    spared = {
        "argparse", "concurrent.futures", "email", "google.protobuf.internal.python_message",
        "google.protobuf.json_format", "google.protobuf.text_format", "pathlib", "subprocess",
        "tarfile", "zipfile",
    }  # fmt: skip
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    x, y = (onnx.helper.make_tensor_value_info(name, 1, [2]) for name in "xy")
    graph = onnx.helper.make_graph([node], "g", [x], [y])
    opsets = [onnx.helper.make_opsetid("", 17)]
    content = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    code = (
        "import sys\nimport numpy as np\nbefore = set(sys.modules)\nimport pplconv\n"
        f"session = pplconv.InferenceSession({content!r})\n"
        "(y,) = session.run(None, {'x': np.array([-1, 2], np.float32)})\n"
        "assert y.tolist() == [0, 2]\n"
        "print(*{*sys.modules} - before)"
    )
    assert spared.isdisjoint(run(code).split())


def test_onnx_has_the_version_of_its_metadata():
    told = run(f"{SESSION}print(onnx.__version__)")
    assert told == importlib.metadata.version("onnx")


@pytest.mark.parametrize(
    ("folders", "version"),
    [
        (["some-1.2.dist-info", "other-3.dist-info"], "1.2"),
        ([], None),
        (["some-1.2.dist-info", "some-1.3.dist-info"], None),
        (["some-1.2.egg-info"], None),
    ],
)
def test_a_version_is_read_where_one_distribution_lies_beside_the_package(
    folders, version, tmp_path, monkeypatch
):
    for folder in folders:
        (tmp_path / folder).mkdir()
        number = folder.split("-")[1].rpartition(".")[0]
        text = f"Metadata-Version: 2.1\nName: some\nVersion: {number}\n\nVersion: 7\n"
        (tmp_path / folder / "METADATA").write_text(text)
    module = types.ModuleType("some")
    module.__file__ = str(tmp_path / "some" / "__init__.py")
    monkeypatch.setitem(sys.modules, "some", module)
    assert spared_imports._version("some") == version


def test_no_version_is_made_up_without_its_field(tmp_path, monkeypatch):
    (tmp_path / "some-1.dist-info").mkdir()
    module = types.ModuleType("some")
    module.__file__ = str(tmp_path / "some" / "__init__.py")
    monkeypatch.setitem(sys.modules, "some", module)
    assert spared_imports._version("some") is None
    (tmp_path / "some-1.dist-info" / "METADATA").write_text("Name: some\n\nVersion: 7\n")
    assert spared_imports._version("some") is None


def test_modules_ask_for_what_they_were_not_given():
    code = SESSION + (
        "import argparse, concurrent.futures, tarfile, uuid\n"
        "import onnx.gen_proto, onnx.utils, onnx_ir.external_data as data\n"
        "print(onnx.gen_proto.argparse.ArgumentParser is argparse.ArgumentParser,"
        " data.concurrent.futures.Future is concurrent.futures.Future,"
        " onnx.utils.tarfile.open is tarfile.open,"
        " onnx.external_data_helper.uuid.uuid1 is uuid.uuid1,"
        " onnx.importlib.metadata.PackageNotFoundError.__name__)"
    )
    assert run(code).split() == ["True"] * 4 + ["PackageNotFoundError"]


@pytest.mark.parametrize("implementation", ["upb", "python"])
def test_models_are_texts_by_protobuf(implementation):
    code = (
        "import os, sys\n"
        f"os.environ['PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION'] = {implementation!r}\n"
        "from pplconv.network import spared_imports\n"
        f"{SESSION}import onnx.serialization as s\n"
        "before = 'google.protobuf.json_format' in sys.modules\n"
        "for kind in 'json', 'textproto':\n"
        "    text = s.registry.get(kind).serialize_proto(model)\n"
        "    print(s.registry.get(kind).deserialize_proto(text, onnx.ModelProto()) == model)\n"
        "import google.protobuf.json_format as real\n"
        "from google.protobuf.internal import api_implementation as used\n"
        "print(s.google.protobuf.json_format.Parse is real.Parse, used.Type(), before)"
    )
    assert run(code).split() == ["True", "True", "True", implementation, "False"]


def test_models_are_saved_as_without_pplconv(tmp_path):
    code = SESSION + (
        "import onnx_ir as ir\n"
        f"place = {str(tmp_path / 'saved.onnx')!r}\n"
        "kept = ir.from_proto(model)\n"
        "weights = ir.Tensor(np.arange(6.0), name='w')\n"
        "value = ir.Value(name='w', const_value=weights, type=ir.TensorType(weights.dtype),"
        " shape=ir.Shape([6]))\n"
        "kept.graph.register_initializer(value)\n"
        "ir.save(kept, place, external_data='saved.data')\n"
        "again = onnx.load(place)\n"
        "print(onnx.numpy_helper.to_array(again.graph.initializer[0]).tolist())"
    )
    assert run(code) == "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]"


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
