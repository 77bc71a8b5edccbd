"""Convolution problems: one line each, as oneDNN's benchdnn writes them, read and checked.

``mb1g1ic3ih224iw224oc32oh112ow112kh3kw3sh2sw2ph1pw1dh0dw0n"mobilenet:conv1*3"`` is a layer that
occurs 3 times in the network ``mobilenet``. As in benchdnn, ``dh0`` means dilation 1, a missing
``iw``, ``ow``, ``kw``, ``sw``, ``pw`` or ``dw`` equals its vertical counterpart, a missing stride
is 1, a missing padding or dilation 0, and ``ph``, ``pw`` pad both sides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

SHAPES = Path(__file__).resolve().parent / "shapes"

# Two-letter fields first, so that "g" cannot be taken out of a longer word.
_FIELD = re.compile(r"(mb|ic|ih|iw|oc|oh|ow|kh|kw|sh|sw|ph|pw|dh|dw|g)(\d+)")
_NAME = re.compile(r'n"(?:(?P<net>[^":*]+):)?(?P<layer>[^":*]+)(?:\*(?P<count>\d+))?"$')
_REQUIRED = ("mb", "ic", "ih", "oc", "kh")


class ProblemError(ValueError):
    """A problem string that cannot be read, or that contradicts itself."""


@dataclass(frozen=True)
class Problem:
    """One 2-D convolution: its sizes, and where it comes from.

    Attributes
    ----------
    mb, groups, ic, ih, iw, oc, kh, kw : int
        Batch, groups, input channels, height and width, output channels, kernel height and width.
    sh, sw, ph, pw : int
        Stride, and padding on both sides, vertical and horizontal.
    dh, dw : int
        Dilation as in PyTorch: 1 is a dense kernel (benchdnn's ``dh0``).
    net, layer : str
        Names, for grouping and printing; may be empty.
    count : int
        How often the layer occurs in the network: the weight of its time in a total.
    """

    mb: int
    groups: int
    ic: int
    ih: int
    iw: int
    oc: int
    kh: int
    kw: int
    sh: int = 1
    sw: int = 1
    ph: int = 0
    pw: int = 0
    dh: int = 1
    dw: int = 1
    net: str = ""
    layer: str = ""
    count: int = 1

    @property
    def oh(self) -> int:
        """Output height."""
        return _out_size(self.ih, self.kh, self.sh, self.ph, self.dh)

    @property
    def ow(self) -> int:
        """Output width."""
        return _out_size(self.iw, self.kw, self.sw, self.pw, self.dw)

    @property
    def input_shape(self) -> tuple[int, int, int, int]:
        """(N, C, H, W) of the input."""
        return (self.mb, self.ic, self.ih, self.iw)

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """(oc, ic/groups, kh, kw) of the weight."""
        return (self.oc, self.ic // self.groups, self.kh, self.kw)

    @property
    def output_shape(self) -> tuple[int, int, int, int]:
        """(N, C, H, W) of the output."""
        return (self.mb, self.oc, self.oh, self.ow)

    @property
    def reduction(self) -> int:
        """Products in the sum of one output element: ic/groups · kh · kw."""
        return self.ic // self.groups * self.kh * self.kw

    @property
    def flops(self) -> int:
        """Floating-point operations of the direct sum, padding included: 2 a product."""
        return 2 * self.mb * self.oc * self.oh * self.ow * self.reduction

    @property
    def compulsory_bytes(self) -> int:
        """Bytes of float32 that any algorithm must move: inputs that count, weights, outputs.

        A strided 1x1, for one, never looks at most of its input.
        """
        rows = _touched(self.ih, self.oh, self.kh, self.sh, self.ph, self.dh)
        columns = _touched(self.iw, self.ow, self.kw, self.sw, self.pw, self.dw)
        inputs = self.mb * self.ic * rows * columns
        weights = self.oc * self.reduction
        return 4 * (inputs + weights + self.mb * self.oc * self.oh * self.ow)

    @property
    def kind(self) -> str:
        """Class for subtotals: ``stem``, ``1x1``, ``3x3``, ``depthwise`` or ``other``.

        Winograd serves ``3x3``: stride 1 and dilation 1.
        """
        if self.groups > 1 and self.groups == self.ic:
            return "depthwise"
        if self.ic <= 4:
            return "stem"
        if (self.kh, self.kw) == (1, 1):
            return "1x1"
        steps = (self.sh, self.sw, self.dh, self.dw)
        return "3x3" if (self.kh, self.kw) == (3, 3) and steps == (1, 1, 1, 1) else "other"

    @property
    def name(self) -> str:
        """``net:layer``, or the sizes where the problem has no name."""
        named = ":".join(part for part in (self.net, self.layer) if part)
        return named or self.sizes

    @property
    def sizes(self) -> str:
        """The benchdnn string without the name: the sizes decide the work."""
        return (
            f"mb{self.mb}g{self.groups}"
            f"ic{self.ic}ih{self.ih}iw{self.iw}"
            f"oc{self.oc}oh{self.oh}ow{self.ow}"
            f"kh{self.kh}kw{self.kw}sh{self.sh}sw{self.sw}ph{self.ph}pw{self.pw}"
            f"dh{self.dh - 1}dw{self.dw - 1}"
        )

    def __str__(self) -> str:
        """Give the whole benchdnn string; `parse` reads it back."""
        if not self.layer:
            return self.sizes
        prefix = f"{self.net}:" if self.net else ""
        return f'{self.sizes}n"{prefix}{self.layer}*{self.count}"'


def _out_size(size: int, kernel: int, stride: int, pad: int, dilation: int) -> int:
    return (size + 2 * pad - ((kernel - 1) * dilation + 1)) // stride + 1


def _touched(size: int, out: int, kernel: int, stride: int, pad: int, dilation: int) -> int:
    """Positions along one axis that some output looks at."""
    return len(
        {
            place
            for tap in range(kernel)
            for start in range(out)
            if 0 <= (place := start * stride - pad + tap * dilation) < size
        }
    )


def parse(text: str) -> Problem:
    """Read one problem string.

    Parameters
    ----------
    text : str
        The string; surrounding blanks are ignored.

    Returns
    -------
    Problem

    Raises
    ------
    ProblemError
        If a field is unknown, missing, given twice or impossible, or if ``oh`` or ``ow`` is not
        the one that the other sizes give.
    """
    fields, name = _split(text.strip())
    missing = [key for key in _REQUIRED if key not in fields]
    if missing:
        raise ProblemError(f"{', '.join(missing)} missing")
    groups = fields.get("g", 1)
    stride, pad, dilation = fields.get("sh", 1), fields.get("ph", 0), fields.get("dh", 0)
    problem = Problem(
        mb=fields["mb"],
        groups=groups,
        ic=fields["ic"],
        ih=fields["ih"],
        iw=fields.get("iw", fields["ih"]),
        oc=fields["oc"],
        kh=fields["kh"],
        kw=fields.get("kw", fields["kh"]),
        sh=stride,
        sw=fields.get("sw", stride),
        ph=pad,
        pw=fields.get("pw", pad),
        dh=dilation + 1,
        dw=fields.get("dw", dilation) + 1,
        net=name.get("net") or "",
        layer=name.get("layer") or "",
        count=int(name.get("count") or 1),
    )
    _check(problem, fields)
    return problem


def _split(text: str) -> tuple[dict[str, int], dict[str, str | None]]:
    """Cut `text` into its number fields and the parts of its name."""
    start = text.find('n"')
    numbers, quoted = (text, "") if start < 0 else (text[:start], text[start:])
    name: dict[str, str | None] = {}
    if quoted:
        match = _NAME.match(quoted)
        if match is None:
            raise ProblemError(f'{quoted!r} is no name: expected n"net:layer*count"')
        name = match.groupdict()
    fields: dict[str, int] = {}
    position = 0
    while position < len(numbers):
        match = _FIELD.match(numbers, position)
        if match is None:
            raise ProblemError(f"{numbers[position:]!r} starts with no known field")
        key = match[1]
        if key in fields:
            raise ProblemError(f"{key} given twice")
        fields[key] = int(match[2])
        position = match.end()
    return fields, name


def _check(problem: Problem, fields: dict[str, int]) -> None:
    positive = ("mb", "groups", "ic", "ih", "iw", "oc", "kh", "kw", "sh", "sw", "count")
    for key in positive:
        if getattr(problem, key) < 1:
            raise ProblemError(f"{key} is {getattr(problem, key)}, expected at least 1")
    for key in ("ic", "oc"):
        if getattr(problem, key) % problem.groups:
            raise ProblemError(f"{key}{getattr(problem, key)} is no multiple of g{problem.groups}")
    for key, given in (("oh", fields.get("oh")), ("ow", fields.get("ow", fields.get("oh")))):
        expected = getattr(problem, key)
        if expected < 1:
            raise ProblemError(f"the kernel is larger than the padded input: {key} would be empty")
        if given is not None and given != expected:
            raise ProblemError(f"{key} is {given}, but the other sizes give {expected}")


def load(path: Path) -> list[Problem]:
    """Read a file of problems: one a line, blank lines and ``#`` comments allowed.

    Raises
    ------
    ProblemError
        Naming file and line, if a line is wrong or a named layer occurs twice.
    """
    problems: list[Problem] = []
    seen: dict[tuple[str, str], int] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            problem = parse(text)
            key = (problem.net, problem.layer)
            if problem.layer and key in seen:
                raise ProblemError(f"{problem.name} already stands in line {seen[key]}")
        except ProblemError as error:
            raise ProblemError(f"{path.name}, line {number}: {error}") from None
        seen[key] = number
        problems.append(problem)
    return problems


def load_nets(directory: Path = SHAPES) -> dict[str, list[Problem]]:
    """Read every ``*.txt`` of `directory`: the problems by network, in file order."""
    nets: dict[str, list[Problem]] = {}
    for path in sorted(directory.glob("*.txt")):
        for problem in load(path):
            nets.setdefault(problem.net or path.stem, []).append(problem)
    return nets


def select(
    nets: dict[str, list[Problem]], names: Iterable[str] = (), layers: str = ""
) -> dict[str, list[Problem]]:
    """Choose networks by name and layers by regular expression.

    Parameters
    ----------
    nets : dict of str to list of Problem
        As `load_nets` gives it.
    names : iterable of str
        Networks to keep; none means all.
    layers : str
        Regular expression searched in ``net:layer`` and in the class (``1x1``, ``depthwise``, …);
        empty means all.

    Raises
    ------
    ProblemError
        If a name is unknown, the expression is invalid, or nothing is left.
    """
    wanted = list(names) or list(nets)
    unknown = [name for name in wanted if name not in nets]
    if unknown:
        raise ProblemError(f"unknown net {', '.join(unknown)}: expected some of {', '.join(nets)}")
    try:
        pattern = re.compile(layers)
    except re.error as error:
        raise ProblemError(f"layers: {layers!r} is no regular expression: {error}") from None
    chosen = {
        name: [p for p in nets[name] if pattern.search(p.name) or pattern.search(p.kind)]
        for name in wanted
    }
    chosen = {name: problems for name, problems in chosen.items() if problems}
    if not chosen:
        raise ProblemError(f"layers: {layers!r} matches no layer of {', '.join(wanted)}")
    return chosen


def batched(nets: dict[str, list[Problem]], mb: int) -> dict[str, list[Problem]]:
    """Give the same networks at batch size `mb`; names and counts stay."""
    return {net: [replace(one, mb=mb) for one in problems] for net, problems in nets.items()}
