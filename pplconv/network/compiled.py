"""`Compiled`: a program with the steps and arrays that it was made of, and its runs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from .._records import record
from ..memory.arrays import empty_aligned
from ..ops.program import Frame, Program
from ..ops.refused import Refused
from .host_steps import refusal, run_host
from .output_arrays import checked_out
from .storage import Array, Banded, Repeat, Shape, Step, Value, as_bits, place_of

if TYPE_CHECKING:
    from .onnx_later import ir

__all__ = ["Compiled", "program_of", "view_of"]


@record(eq=False)
class Compiled:
    """A network compiled for inputs of fixed shapes.

    Parameters
    ----------
    program : Program
        The compiled steps, without those on the host.
    steps : list of Step
        All steps, in order.
    native : list of int
        How many steps of `program` come before each of them.
    inputs, outputs : list of (str, tuple, dtype)
        Name, shape and type of the caller's arrays, in their order: inputs first.
    packed : frozenset
        Keys of its packed weights among those of the session.
    model : onnx_ir.Model or None
        The specialised model that it was compiled from, if there is one.
    planned : dict
        Plans of its convolutions, as `Builder.planned`.
    times : int
        Runs of `program` for the whole batch, in turn, each on its part.
    repeats : list of Repeat
        Steps that take several turns.
    groups : list of Banded
        Steps that run band by band.
    """

    program: Program
    steps: list[Step]
    native: list[int]
    inputs: list[tuple[str, Shape, np.dtype[Any]]]
    outputs: list[tuple[str, Shape, np.dtype[Any]]]
    packed: frozenset[Any]
    model: ir.Model | None
    planned: dict[Any, Any]
    times: int
    repeats: list[Repeat] = field(default_factory=list)
    groups: list[Banded] = field(default_factory=list)
    # What a lower precision would gain, in a line; of a program from a file.
    advice: str = ""
    # Programs of several turns, as the body of a Loop or a Scan; None where they cannot be made.
    repeated: dict[Any, Program | None] = field(default_factory=dict)

    @property
    def working_bytes(self) -> int:
        """Bytes that a run takes besides inputs, outputs and packed weights."""
        return self.program.arena_bytes + self.program.scratch_bytes

    def run(self, arrays: Sequence[Array], seconds: Array | None = None) -> None:
        """Run on the caller's arrays: inputs, then outputs, all contiguous.

        Parameters
        ----------
        arrays : sequence of ndarray
            As `inputs` and `outputs` say.
        seconds : ndarray, optional
            The time of each step is added to it.
        """
        arrays = [as_bits(array) for array in arrays]
        frame = self.program.frame()
        try:
            for turn in range(self.times):
                self._run(frame, [self._part(array, turn) for array in arrays], seconds)
        except Refused as error:
            native = (step for step in self.steps if not step.host)
            step = next(itertools.islice(native, error.step, None))
            raise refusal(step.kind, step.nodes, IndexError(str(error))) from error
        finally:
            self.program.give_back(frame)

    def compute(
        self, arrays: Sequence[Array], given: Mapping[str, Array] | None = None
    ) -> dict[str, Array]:
        """Compute the outputs by name.

        Parameters
        ----------
        arrays : sequence of ndarray
            As `inputs` says, contiguous.
        given : mapping of str to ndarray, optional
            Where to write outputs; the others go into new arrays.

        Raises
        ------
        TypeError, ValueError
            If an output cannot be written to the given array.
        """
        given = given or {}
        outputs = {
            name: checked_out(given[name], name, shape, dtype, arrays) if name in given
            else empty_aligned(shape, dtype)
            for name, shape, dtype in self.outputs
        }  # fmt: skip
        self.run([*arrays, *outputs.values()])
        return outputs

    def time(self, arrays: Sequence[Array]) -> list[float]:
        """Time each step by itself, in seconds."""
        seconds = np.zeros(len(self.steps))
        outputs = [empty_aligned(shape, dtype) for _, shape, dtype in self.outputs]
        self.run([*arrays, *outputs], seconds)
        return seconds.tolist()

    def _part(self, array: Array, turn: int) -> Array:
        if self.times == 1:
            return array
        images = array.shape[0] // self.times
        return array[turn * images : (turn + 1) * images]

    def _run(self, frame: Frame, arrays: Sequence[Array], seconds: Array | None) -> None:
        own = None if seconds is None else np.zeros(len(self.program.steps))
        done = 0
        for index, step in enumerate(self.steps):
            if not step.host:
                continue
            self.program.run(frame, list(arrays), done, self.native[index], own)
            done = self.native[index]
            begin = time.perf_counter()
            run_host(step, lambda value: view_of(value, frame, arrays))
            if seconds is not None:
                seconds[index] += time.perf_counter() - begin
        self.program.run(frame, list(arrays), done, len(self.program.steps), own)
        if seconds is not None and own is not None:
            for index, step in enumerate(self.steps):
                if not step.host:
                    seconds[index] += own[self.native[index]]


def view_of(value: Value, frame: Frame, arrays: Sequence[Array]) -> Array:
    """Give a value's array during a run."""
    known = value.constant
    if known is not None:
        return known
    if not value.size:
        # NumPy refuses strides that reach beyond the memory, even if no element does.
        return np.empty(value.shape, value.dtype)
    memory: Any = frame
    offset = value.buffer.offset + value.offset
    if value.buffer.external is not None:
        memory, offset = arrays[value.buffer.external], value.offset
    array = np.ndarray(value.shape, value.dtype, memory, offset, value.strides)
    if not array.flags.aligned:
        # Only a damaged file says so. Kernels that a step calls read whole elements.
        raise ValueError(f"an array of the program lies at {offset}, between its elements")
    return array


def program_of(
    steps: Sequence[Step], repeats: Sequence[Repeat], arena_bytes: int, sizes: list[int],
    threads: int, most: int, limit: int | None, inputs: int,
) -> tuple[Program, list[int]]:  # fmt: skip
    """Compile steps whose values have their places.

    Parameters
    ----------
    steps : sequence of Step
        All steps, in order.
    repeats : sequence of Repeat
        Steps that take several turns.
    arena_bytes : int
        Size of the arena.
    sizes : list of int
        Bytes of each of the caller's arrays, inputs first.
    threads, most : int
        Size of the team, and how many threads may compute at once in all calls.
    limit : int or None
        Most bytes of scratch.
    inputs : int
        Number of inputs.

    Returns
    -------
    program : Program
        The steps that do not run on the host.
    native : list of int
        How many of these come before each step, and in all.

    Raises
    ------
    ValueError, MemoryError
        As from `Program`.
    """
    native: list[int] = []
    compiled: list[tuple[Any, dict[str, Any]]] = []
    for step in steps:
        native.append(len(compiled))
        if not step.host:
            compiled.append((step.work, {k: place_of(v) for k, v in step.places.items()}))
    native.append(len(compiled))
    turned = [(native[begin], native[end], turns) for begin, end, turns in repeats]
    return Program(compiled, arena_bytes, sizes, threads, most, limit, turned, inputs), native
