"""Which instructions stand in which function of a library, and which of them it may have.

The judge is the assembler: what objdump prints is assembled again with ``.arch`` set to the
baseline and the features of the function's instruction set, so that no list of mnemonics has
to be kept here. One thing the text does not show is the encoding (an EVEX instruction may have
a VEX twin of the same text), so the first opcode byte is looked at as well.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

# Suffixes that GCC gives to the pieces and copies it makes of a function.
_CLONE = re.compile(r"\.(?:isra|part|constprop|cold|lto_priv)(?:\.\d+)*")
_FUNCTION = re.compile(r"^([0-9a-f]+) <(.+)>:$")
_ERROR = re.compile(r"^[^:]*:(\d+): Error: (.*)$", re.MULTILINE)
# A direct branch; objdump prints its target as a bare hexadecimal number.
_BRANCH = re.compile(r"^((?:\S+ +)*(?:j|call|loop|xbegin)\S* +)([0-9a-f]+)$")
# Padding, with as many prefixes as it takes to be long enough.
_PADDING = re.compile(r"^(?:data16 |cs )*nop[wl]?\b")
# Segment overrides, operand and address size, lock, repeat.
_PREFIXES = frozenset(bytes.fromhex("26 2e 36 3e 64 65 66 67 f0 f2 f3"))
_VEX, _EVEX = frozenset(b"\xc4\xc5"), frozenset(b"\x62")
# Older CPUs execute these as other instructions of the baseline: as nothing, and as BSF, which
# is what GCC means by it where the baseline is the target.
_HARMLESS = frozenset({"endbr64", "tzcnt"})
# Executed only where CPUID says so.
_EXCEPTIONS = {"pplconv_xgetbv": frozenset({"xgetbv"})}


@dataclass
class Function:
    """One function of a library.

    Parameters
    ----------
    name : str
        Its symbol.
    file : str
        Stem of the source file, "" where the symbol table does not tell.
    instructions : list of (bytes, str)
        Encoding and text (AT&T syntax).
    """

    name: str
    file: str
    instructions: list[tuple[bytes, str]] = field(default_factory=list)

    def owner(self, names: Iterable[str]) -> str | None:
        """Find the one of `names` that this function is, or is a local helper of."""
        base = _CLONE.sub("", self.name)
        for candidate in (base, self.file):
            if candidate in names:
                return candidate
        return None


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise RuntimeError(f"the disassembly tests need {name} of GNU binutils")
    return path


def _source_files(library: Path) -> dict[int, str]:
    """Map addresses of local functions to the stem of the file whose symbols they stand among.

    By address, since two files may have a helper of the same name.
    """
    files, current = {}, ""
    for line in _run(_tool("objdump"), "-t", str(library)).splitlines():
        words = line.split()
        if " df *ABS*" in line:
            current = Path(words[-1]).stem if len(words) > 5 else ""
        elif re.match(r"[0-9a-f]+ l +F ", line):
            files[int(words[0], 16)] = current
    return files


@cache
def functions(library: Path) -> list[Function]:
    """Disassemble every function of a shared library."""
    files = _source_files(library)
    found: list[Function] = []
    for line in _run(_tool("objdump"), "-dw", str(library)).splitlines():
        # An instruction is address, encoding and text, between tabs; there are a million of them.
        _, *words = line.split("\t")
        if words and found:
            text = words[1] if len(words) > 1 else ""
            if "#" in text or "<" in text:
                text = re.sub(r"<.*?>", "", text.split("#")[0])
            text = text.strip()
            if text[:1] in "jclxbdrn":  # branches, with their prefixes
                text = _BRANCH.sub(r"\g<1>0x\g<2>", text)
            found[-1].instructions.append((bytes.fromhex(words[0]), text))
        elif match := _FUNCTION.match(line):
            found.append(Function(match[2], files.get(int(match[1], 16), "")))
    return found


def _first_opcode_byte(encoding: bytes) -> int:
    return next((byte for byte in encoding if byte not in _PREFIXES), 0)


def _rejected(texts: list[str], features: Iterable[str], directory: Path) -> dict[str, str]:
    """Assemble the texts for the baseline plus `features`; map what is refused to the reason."""
    head = [".arch generic64", *(f".arch .{feature}" for feature in features)]
    source = directory / "instructions.s"
    source.write_text("\n".join([*head, *texts]) + "\n")
    command = [_tool("as"), "-o", str(directory / "instructions.o"), str(source)]
    result = subprocess.run(command, capture_output=True, text=True)
    refused = {
        texts[int(line) - len(head) - 1]: reason for line, reason in _ERROR.findall(result.stderr)
    }
    if result.returncode and not refused:
        raise RuntimeError(result.stderr)
    return refused


def violations(
    library: Path, features_of: Mapping[str, tuple[str, ...]], directory: Path
) -> list[str]:
    """List the instructions that functions of `library` may not have.

    Parameters
    ----------
    library : Path
        A shared library with its symbol table.
    features_of : mapping of str to tuple of str
        CPU features beyond the baseline that each kernel may use, by symbol; all other
        functions may use none.
    directory : Path
        For temporary files.
    """
    found: list[str] = []
    users: dict[tuple[str, ...], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for function in functions(library):
        features = features_of.get(function.owner(features_of) or "", ())
        vex = any(name.startswith("avx") for name in features)
        evex = any(name.startswith("avx512") for name in features)
        forbidden = (frozenset() if vex else _VEX) | (frozenset() if evex else _EVEX)
        excused = _HARMLESS | _EXCEPTIONS.get(function.name, frozenset())
        for encoding, text in function.instructions:
            if _first_opcode_byte(encoding) in forbidden:
                found.append(f"{function.name}: {text} ({encoding.hex(' ')})")
            # A branch's prefix for control-flow enforcement is a hint.
            text = text.removeprefix("notrack ").removeprefix("bnd ")
            if text and text.split()[0] not in excused and not _PADDING.match(text):
                users[features][text].add(function.name)
    for features, texts in users.items():
        for text, reason in _rejected(list(texts), features, directory).items():
            found += [f"{name}: {text} ({reason})" for name in sorted(texts[text])]
    return found
