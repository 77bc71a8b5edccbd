"""The instructions of each function of a library, and those that its level does not allow.

The assembler decides: objdump's output is assembled again for the baseline and the features of
the function's instruction set, so that no list of mnemonics has to be kept here. The subclasses
for each machine are in ``disassembly_x86_64.py``, ``disassembly_aarch64.py`` and
``disassembly_armv7l.py``.
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

# Suffixes that GCC gives to parts and copies of a function.
_CLONE = re.compile(r"\.(?:isra|part|constprop|cold|lto_priv)(?:\.\d+)*")
_FUNCTION = re.compile(r"^([0-9a-f]+) <(.+)>:$")
_ERROR = re.compile(r"^[^:]*:(\d+): Error: (.*)$", re.MULTILINE)


@dataclass
class Function:
    """One function of a library.

    Parameters
    ----------
    name : str
        Its symbol.
    file : str
        Stem of the source file, "" if the symbol table does not have it.
    instructions : list of (bytes, str)
        Encoding as objdump prints it, and text.
    """

    name: str
    file: str
    instructions: list[tuple[bytes, str]] = field(default_factory=list)

    def owner(self, names: Iterable[str]) -> str | None:
        """Find the name in `names` of this function, or of the kernel whose local helper it is."""
        base = _CLONE.sub("", self.name)
        for candidate in (base, self.file):
            if candidate in names:
                return candidate
        return None


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Judge:
    """Reads libraries of one machine; a subclass for each machine."""

    machine: str

    def tool(self, name: str) -> str:
        """Path of a tool of GNU binutils (under emulation, of the cross tools)."""
        path = shutil.which(name)
        if path is None:
            raise RuntimeError(f"the disassembly tests need {name} of GNU binutils")
        return path

    @cache  # noqa: B019  (one judge for each machine lives as long as the process)
    def functions(self, library: Path) -> list[Function]:
        """Disassemble every function of a shared library."""
        files = self._source_files(library)
        found: list[Function] = []
        for line in _run(self.tool("objdump"), "-dw", str(library)).splitlines():
            # A line is address, encoding and text, separated by tabs; there are a million lines.
            _, *words = line.split("\t")
            if words and found and words[0] != "...":  # zeros between functions
                text = self.clean(" ".join(words[1:]))
                found[-1].instructions.append((bytes.fromhex(words[0]), text))
            elif match := _FUNCTION.match(line):
                found.append(Function(match[2], files.get(int(match[1], 16), "")))
        return found

    def violations(
        self, library: Path, features_of: Mapping[str, tuple[str, ...]], directory: Path
    ) -> list[str]:
        """List the instructions of `library` that its functions may not have.

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
        for function in self.functions(library):
            own = features_of.get(function.owner(features_of) or "", ())
            for at, (encoding, text) in enumerate(function.instructions):
                features = own + self.asked(function, at)
                if reason := self.forbidden(encoding, text, features):
                    found.append(f"{function.name}: {text} ({reason})")
                elif judged := self.judged(function.name, text):
                    users[features][judged].add(function.name)
        for features, texts in users.items():
            for text, reason in self._rejected(list(texts), features, directory).items():
                found += [f"{name}: {text} ({reason})" for name in sorted(texts[text])]
        return found

    def clean(self, text: str) -> str:
        """Turn objdump's text into text that an assembler accepts."""
        raise NotImplementedError

    def asked(self, function: Function, at: int) -> tuple[str, ...]:
        """Features that the instruction at an index may use because the code before it tests them.

        Found from the instructions: shipped libraries have no names of local functions.
        """
        return ()

    def forbidden(self, encoding: bytes, text: str, features: tuple[str, ...]) -> str:
        """Reason to refuse an instruction without asking the assembler; "" if there is none."""
        return ""

    def judged(self, name: str, text: str) -> str:
        """Text for the assembler to judge; "" if the instruction is always allowed."""
        return text

    def head(self, features: tuple[str, ...]) -> list[str]:
        """Directives that allow the baseline and `features`, and nothing else."""
        raise NotImplementedError

    def adds_products(self, text: str) -> bool:
        """Whether an instruction adds products to a register."""
        raise NotImplementedError

    def products(self, function: Function) -> tuple[list[str], list[str]]:
        """Give the instructions that add products, and all from the first to the last of them."""
        texts = [text for _, text in function.instructions]
        found = [i for i, text in enumerate(texts) if self.adds_products(text)]
        return [texts[i] for i in found], texts[found[0] : found[-1]] if found else []

    def _source_files(self, library: Path) -> dict[int, str]:
        """Map the address of each local function to the stem of its source file.

        Addresses are the keys, since two files may have a helper of the same name.
        """
        files, current = {}, ""
        for line in _run(self.tool("objdump"), "-t", str(library)).splitlines():
            words = line.split()
            if " df *ABS*" in line:
                current = Path(words[-1]).stem if len(words) > 5 else ""
            elif re.match(r"[0-9a-f]+ l +F ", line):
                files[int(words[0], 16)] = current
        return files

    def _rejected(
        self, texts: list[str], features: tuple[str, ...], directory: Path
    ) -> dict[str, str]:
        """Assemble the texts; map each refused text to the reason."""
        head = self.head(features)
        source = directory / "instructions.s"
        source.write_text("\n".join([*head, *texts]) + "\n")
        command = [self.tool("as"), "-o", str(directory / "instructions.o"), str(source)]
        result = subprocess.run(command, capture_output=True, text=True)
        refused = {
            texts[int(line) - len(head) - 1]: reason
            for line, reason in _ERROR.findall(result.stderr)
        }
        if result.returncode and not refused:
            raise RuntimeError(result.stderr)
        return refused
