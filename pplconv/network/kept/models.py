"""The prepared model in a file of programs, for shapes and CPUs that it has no program for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..network import Network, Shared
from ..plan_settings import FALLBACKS, Settings
from ..preparing import Prepared
from ..session_pickles import Sent, put_together, taken_apart
from .written_objects import Reader, Writer

__all__ = ["network_of", "written_model"]


def written_model(network: Network, blocks: list[npt.NDArray[np.uint8]]) -> dict[str, Any]:
    """Describe a prepared model, and add its weights to the blocks of a file."""
    sent = taken_apart(network.model)
    writer = Writer(blocks)
    root = writer.value((sent.arrays, network.fired, network.shared.fallback))
    proto = writer.block(np.frombuffer(sent.proto, np.uint8))
    return {"proto": proto, "root": root, "objects": writer.objects}


def network_of(
    described: Mapping[str, Any], blocks: Sequence[npt.NDArray[np.uint8]], settings: Settings,
    kept: int,
) -> Network:  # fmt: skip
    """Make the network of a model that `written_model` described.

    Raises
    ------
    Exception
        Of any kind, if the description is no model.
    """
    reader = Reader(blocks, described["objects"], 1)
    arrays, fired, fallback = reader.value(described["root"])
    if fallback not in FALLBACKS:
        raise ValueError(f"no such fallback: {fallback!r}")
    model = put_together(Sent(blocks[described["proto"]].tobytes(), arrays))
    return Network(Prepared(model, fired), Shared(settings, fallback), kept)
