"""Writes the stubs of compiled layers and functions from the table of arguments.

    python -m tools.stubs           # writes them
    python -m tools.stubs --check   # lists differing stubs, and fails

Arguments and the attributes of layers come from `pplconv.arguments.signatures`, and docstrings from
the compiled objects: editors show those of stubs. Methods and attributes of shapes, which the table
does not have, are listed here.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pplconv
from pplconv.arguments.signatures import REQUIRED, SIGNATURES, Argument

FOLDER = Path(__file__).resolve().parents[1] / "pplconv" / "api"
LINE = 100
# Modules of the names in annotations; names with a leading underscore come from `layer`.
MODULES = {
    "Any": "typing", "SupportsFloat": "typing", "SupportsIndex": "typing", "TypeAlias": "typing",
    "Iterable": "collections.abc", "Sequence": "collections.abc",
    "NDArray": "numpy.typing", "DTypeLike": "numpy.typing",
    "Method": ".._literals", "TransposedPaddingWord": ".._literals",
    "Layer": ".layer", "QConv2d": ".quantized_layer",
    "TransposedPlan": "..ops.transposed.transposed_report",
    "_TransposedPadding": ".transposed_layer",
}  # fmt: skip
# Attributes that `Layer` gives to all layers.
SHARED = {
    "weight", "bias", "activation", "precision", "search", "search_seconds", "search_context",
    "max_workspace", "threads",
}  # fmt: skip


@dataclass(frozen=True)
class Stub:
    """A stub file.

    Parameters
    ----------
    name : str
        Of the function or layer; the table has its signature.
    docstring : str
        Of the module.
    shapes : dict
        Attributes of a layer that the table does not have, with their types.
    before, methods, after : str
        Text before the class or function, inside the class, and at the end.
    """

    name: str
    docstring: str
    shapes: Mapping[str, str] | None = None
    before: str = ""
    methods: str = ""
    after: str = ""


_OF_DTYPE = "An array of a known dtype gives an array of that dtype."
_CHANNELS = {
    "weight_shape": "tuple[int, int, int, int]", "in_channels": "int", "out_channels": "int",
    "kernel_size": "tuple[int, int]",
}  # fmt: skip
STUBS = {
    "function.pyi": Stub("conv2d", f"Types of `conv2d`. {_OF_DTYPE}"),
    "transposed_function.pyi": Stub(
        "conv_transpose2d", f"Types of `conv_transpose2d`. {_OF_DTYPE}"
    ),
    "matmul.pyi": Stub(
        "matmul", "Types of `matmul`. Arrays of one dtype give an array of that dtype."
    ),
    "linear.pyi": Stub(
        "Linear",
        f"Types of `Linear`. {_OF_DTYPE}",
        {"weight_shape": "tuple[int, int]", "in_features": "int", "out_features": "int"},
    ),
    "conv.pyi": Stub(
        "Conv2d",
        f"Types of `Conv2d`. {_OF_DTYPE}",
        _CHANNELS,
        methods='''
    def quantize(
        self,
        samples: _ArrayLike | Iterable[_ArrayLike | tuple[_ArrayLike, _ArrayLike]],
        *,
        method: Method = "minmax",
        percentile: float = 99.99,
        per_channel: bool = True,
        symmetric: bool = True,
        x_dtype: DTypeLike = "uint8",
        out_dtype: DTypeLike | None = None,
    ) -> QConv2d: ...
''',
        after="\ndef _unpickle(*values: Any) -> Conv2d: ...\n",
    ),
    "transposed_layer.pyi": Stub(
        "ConvTranspose2d",
        f"Types of `ConvTranspose2d`. {_OF_DTYPE}",
        _CHANNELS,
        before='''
_TransposedPadding: TypeAlias = (
    SupportsIndex
    | tuple[_IntOrPair, _IntOrPair]
    | list[int]
    | list[tuple[int, int]]
    | list[list[int]]
    | TransposedPaddingWord
)
''',
        methods='''
    def __call__(
        self,
        input: _ImagesLike[_Scalar],
        residual: _ArrayLike | None = None,
        out: NDArray[_Scalar] | None = None,
        output_size: _IntOrPair | None = None,
    ) -> NDArray[_Scalar]: ...
    def plan_for(  # type: ignore[override]
        self, input_shape: Sequence[SupportsIndex], output_size: _IntOrPair | None = None
    ) -> TransposedPlan: ...
''',
    ),
}  # fmt: skip


def _argument(name: str, row: Argument) -> str:
    default = "" if row.default is REQUIRED else f" = {_literal(row.default)}"
    return f"{name}: {row.annotation}{default},"


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def arguments(name: str) -> list[str]:
    """Give the arguments of a function or layer, a line each."""
    signature = SIGNATURES[name]
    rows = signature.arguments
    first, rest = signature.positional.split(), signature.keywords.split()
    return [
        *(_argument(each, rows[each]) for each in first),
        "*,",
        *(_argument(each, rows[each]) for each in rest),
    ]


def _docstring(name: str) -> str:
    """Give the docstring of an object as a stub has it."""
    found = inspect.getdoc(getattr(pplconv, name)) or ""
    found = f'"""{found}\n"""' if "\n" in found else f'"""{found}"""'
    return textwrap.indent("r" * ("\\" in found) + found, "    ") + "\n"


def _function(name: str) -> str:
    lines = "".join(f"    {line}\n" for line in arguments(name))
    return f"\ndef {name}(\n{lines}) -> NDArray[_Scalar]:\n{_docstring(name)}"


def _layer(stub: Stub) -> str:
    lines = "".join(f"        {line}\n" for line in ["self,", *arguments(stub.name)])
    signature = SIGNATURES[stub.name]
    kept = {**signature.arguments}
    attributes = dict(stub.shapes or {}) | {
        name: str(kept[name].kept) for name in signature.kept.split() if name not in SHARED
    }
    properties = "".join(
        f"    @property\n    def {name}(self) -> {kind}: ...\n" for name, kind in attributes.items()
    )
    init = f"    def __init__(\n{lines}    ) -> None: ...\n"
    head = f"\nclass {stub.name}(Layer):\n{_docstring(stub.name)}\n"
    return f"{head}{init}{properties}{stub.methods[1:]}"


def _imports(body: str, own: set[str]) -> str:
    """Import the words of a body, as isort writes it."""
    words = {word for word in re.findall(r"[A-Za-z_]\w*", body) if word not in own}
    found: dict[str, list[str]] = {}
    for word in sorted(words):
        module = MODULES.get(word, ".layer" if word in _LAYER_WORDS else None)
        if module is not None:
            found.setdefault(module, []).append(word)
    groups: list[list[str]] = [[], [], []]
    for module in sorted(found, key=_order):
        place = 2 if module.startswith(".") else 1 if module.startswith("numpy") else 0
        groups[place].append(_import(module, found[module]))
    return "\n".join("".join(group) for group in groups if group)


def _order(module: str) -> tuple[int, str]:
    """Sort key: modules of higher rooms come first."""
    dots = len(module) - len(module.lstrip("."))
    return -dots, module


def _import(module: str, names: Sequence[str]) -> str:
    # Constants, classes, all others.
    ordered = sorted(names, key=lambda name: (not name.lstrip("_")[0].isupper(), name))
    line = f"from {module} import {', '.join(ordered)}\n"
    if len(line) <= LINE + 1:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in ordered) + ")\n"


# Names that `layer.pyi` defines for all stubs.
_LAYER_WORDS = set(re.findall(r"\b_[A-Z]\w*", (FOLDER / "layer.pyi").read_text(encoding="utf-8")))


def text(name: str) -> str:
    """Give the text of a stub file."""
    stub = STUBS[name]
    body = stub.before
    body += _function(stub.name) if stub.shapes is None else _layer(stub)
    body += stub.after
    own = set(re.findall(r"^(?:class |def )?(\w+)(?:: TypeAlias|\()", body, re.MULTILINE))
    code = re.sub(r'r?"""(?s:.)*?"""', "", body)
    return f'"""{stub.docstring}"""\n\n{_imports(code, own)}{body}'


def differing() -> list[str]:
    """List the stub files that differ from the table."""
    return [name for name in STUBS if (FOLDER / name).read_text(encoding="utf-8") != text(name)]


def main(argv: Sequence[str] | None = None) -> int:
    """Write the stubs, or check them."""
    parser = argparse.ArgumentParser(prog="python -m tools.stubs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if one differs")
    options = parser.parse_args(argv)
    found = differing()
    if not options.check:
        for name in found:
            (FOLDER / name).write_text(text(name), encoding="utf-8")
    for name in found:
        print(f"{name}: {'differs' if options.check else 'written'}")
    return int(options.check and bool(found))


if __name__ == "__main__":
    sys.exit(main())
