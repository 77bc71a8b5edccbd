"""Files of compiled networks that callers name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import planner
from ..._version import __version__
from ...memory.mapping import unchanged
from ..compiled import Compiled
from ..interface import Declared, Interface, ModelMetadata, NodeArg
from ..opened import AnyNetwork, Opened
from ..plan_settings import Settings
from ..programs import Found
from .container import Content, Damaged, read, write
from .kept_network import KeptNetwork
from .records import read_program, written_program
from .written_objects import OtherKernels, Reader, Writer

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Contradicted", "OfFile", "interface_in", "open_kept", "save"]

# Settings that plans are made with; all others are those of runs.
_PLANNED = ("tolerance", "precision", "search", "sparse")


class Contradicted(ValueError):
    """An argument of a session that is not what a file was compiled with."""


def save(
    path: str | os.PathLike[str], name: str, network: AnyNetwork,
    interface: Interface, keys: Sequence[Any] | None, portable: bool,
) -> None:  # fmt: skip
    """Write the programs of a session, as `InferenceSession.save` describes."""
    known = network.programs.all()
    chosen = [(key, found) for key, found in known if keys is None or key in keys]
    if not chosen:
        raise ValueError("shapes: the session has compiled no program yet, say for which shapes")
    blocks: list[npt.NDArray[np.uint8]] = []
    programs, team = [], planner.team_size(network.settings.threads)
    for (shapes, constants, _), (program, fired) in chosen:
        if not isinstance(program, Compiled):
            raise ValueError(
                "model: sizes or branches depend on data, so parts of the network are compiled "
                "while it runs: no file can hold it"
            )
        advice = network.advice(program)
        made = written_program((shapes, constants), program, fired, team, advice, blocks)
        programs.append(made)
    settings = {name: getattr(network.settings, name) for name in (*_PLANNED, "threads")}
    index = {
        "name": name, "settings": settings, "programs": programs,
        **written_interface(interface, blocks),
    }  # fmt: skip
    if portable:
        from .models import written_model

        index["model"] = written_model(network.with_model(), blocks)
    write(os.path.realpath(os.fsdecode(path)), index, blocks, 0o666)


def written_interface(interface: Interface, blocks: list[npt.NDArray[np.uint8]]) -> dict[str, Any]:
    """Describe an interface, and the version that writes the file."""
    writer = Writer(blocks)
    root = writer.value(interface)
    return {"pplconv": __version__, "interface": {"root": root, "objects": writer.objects}}


def interface_in(content: Content) -> Interface:
    """Read the interface of a file.

    Raises
    ------
    Damaged
        If there is none, or the file is another version's.
    """
    version = content.index.get("pplconv")
    if version != __version__:
        raise Damaged(f"was compiled by pplconv {version}, this is {__version__}: compile it again")
    described = content.index["interface"]
    found = Reader(content.blocks, described["objects"], 1).value(described["root"])
    if not isinstance(found, Interface) or not _is_sound(found):
        raise Damaged("has no interface")
    return found


def _is_sound(found: Any) -> bool:
    """Tell whether the parts of an interface are of the types that they should be."""
    args, sets = (found.inputs, found.outputs), (found.containers, found.shape_inputs)
    return (
        all(isinstance(each, list) for each in (*args, found.declared))
        and all(isinstance(each, frozenset) for each in sets)
        and isinstance(found.metadata, ModelMetadata)
        and isinstance(found.nodes, int)
        and all(map(_is_sound_arg, (*found.inputs, *found.outputs)))
        and all(map(_is_sound_input, found.declared))
        and [arg.name for arg in found.inputs] == [each.name for each in found.declared]
    )


def _is_sound_arg(arg: Any) -> bool:
    kinds = ((arg.name, str), (arg.type, str), (arg.shape, list))
    return isinstance(arg, NodeArg) and all(isinstance(each, kind) for each, kind in kinds)


def _is_sound_input(given: Any) -> bool:
    known = isinstance(given, Declared) and isinstance(given.dtype, np.dtype)
    return known and isinstance(given.shape, (tuple, type(None)))


def open_kept(model: Any, settings: Settings, kept: int, digest: str | None = None) -> Opened:
    """Open a file that `save` wrote.

    Parameters
    ----------
    model : str, os.PathLike or bytes
        The file, or its bytes.
    settings : Settings
        Of the session's arguments. The file decides the settings of plans.
    kept : int
        Number of programs to keep in memory.
    digest : str, optional
        Of its index, if it has to be a certain file.

    Raises
    ------
    ValueError
        If the file is damaged, or an argument contradicts it.
    OSError
        If it cannot be read.
    """
    is_path = isinstance(model, (str, os.PathLike))
    shown = os.fsdecode(model) if is_path else "model"
    try:
        content = read(shown if is_path else bytes(model))
        if digest not in (None, content.digest):
            raise Damaged("is not the file that the session was opened with")
        index = content.index
        interface, name = interface_in(content), index["name"]
        settings = _settings(index["settings"], settings, shown)
        programs = {_key_of(one, content): one for one in index["programs"]}
        if not isinstance(name, str):
            raise Damaged("has no name")
    except Damaged as error:
        raise ValueError(f"{shown}: the file {error}") from error
    except (MemoryError, Contradicted):
        raise
    except Exception as error:
        raise ValueError(f"{shown}: the file is damaged: {_text(error)}") from error
    source = OfFile(shown, model, content, programs, kept, settings)
    behind = source.network if "model" in index else None
    network = KeptNetwork(interface, source, settings, kept, behind)
    return Opened(name, network, interface, None)


def _settings(described: Mapping[str, Any], given: Settings, shown: str) -> Settings:
    """Give the settings of a session; refuse arguments that the file's plans do not have.

    Raises
    ------
    ValueError
        The message names the argument.
    """
    usual = Settings()
    words = {name: described[name] for name in _PLANNED}
    own = Settings.checked(
        given.threads or described["threads"], words["tolerance"], words["precision"],
        words["search"], given.max_workspace, words["sparse"], given.max_memory,
    )  # fmt: skip
    for name in _PLANNED:
        asked = getattr(given, name)
        if asked not in (getattr(usual, name), getattr(own, name)):
            raise Contradicted(
                f"{name}: {shown} was compiled with {getattr(own, name)!r}, not with {asked!r}"
            )
    return own


def _key_of(described: Mapping[str, Any], content: Content) -> Any:
    found = Reader(content.blocks, [], 1).value(described["key"])
    hash(found)
    return found


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


class OfFile:
    """The programs of a file.

    Parameters
    ----------
    shown : str
        Its path, for messages.
    model : str, os.PathLike or bytes
        The file, or its bytes.
    content : Content
        What it holds.
    programs : dict
        Descriptions of its programs, by shapes and constants.
    kept : int
        Number of programs that a session keeps in memory.
    settings : Settings
        Of the session.
    """

    def __init__(
        self, shown: str, model: Any, content: Content, programs: dict[Any, Any], kept: int,
        settings: Settings,
    ) -> None:  # fmt: skip
        self._shown, self._model, self._content = shown, model, content
        self._programs, self._kept, self._settings = programs, kept, settings

    def find(self, key: Any, settings: Settings, interface: Interface) -> Found | None:
        """Compile a program of the file; None if it has none for these shapes."""
        described = self._programs.get(key[:2])
        if described is None:
            return None
        for block in self._content.blocks[:1]:
            unchanged(block)
        try:
            return read_program(described, self._content.blocks, settings, interface)
        except MemoryError:
            raise
        except Exception as error:
            if "model" in self._content.index and isinstance(error, OtherKernels):
                return None
            raise ValueError(f"{self._shown}: cannot use the program: {_text(error)}") from error

    def has(self, key: Any) -> bool:
        """See `Source`."""
        return key[:2] in self._programs

    def add(self, key: Any, found: Found, advice: str) -> None:
        """Leave the file as it is."""

    def refusal(self, key: Any) -> str:
        """See `Source`."""
        known = "; ".join(str([*shapes]) for shapes, _ in self._programs)
        return (
            f"feed: {self._shown} has programs for inputs of the shapes {known}, not for "
            f"{[*key[0]]}: compile it for these, too, or save it with portable=True"
        )

    def reopening(self) -> tuple[Any, ...]:
        """See `Source`."""
        model = self._model
        if isinstance(model, (str, os.PathLike)):
            model = os.path.abspath(os.fsdecode(model))
        return model, self._settings, self._kept, self._content.digest

    def network(self) -> Any:
        """Make the network of the model that the file has."""
        from .models import network_of

        model, blocks = self._content.index["model"], self._content.blocks
        try:
            return network_of(model, blocks, self._settings, self._kept)
        except (MemoryError, ImportError):
            raise
        except Exception as error:
            raise ValueError(f"{self._shown}: the file is damaged: {_text(error)}") from error
