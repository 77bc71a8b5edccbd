# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A list of steps that one team runs from the first to the last, without the GIL.

A step is a work and the places of its arrays. Intermediate arrays lie in an arena, at offsets
chosen beforehand; inputs and outputs are the caller's arrays. The phases of all steps form one list
for the team, so a step costs a wait for the other threads and nothing else.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

from pplconv.ops.prepared cimport Activation, PackedWeights, Prepared
from pplconv.ops.quantized.rescaling cimport Rescaling
from pplconv.memory.arrays cimport address_of
from pplconv.memory.workspace cimport borrow, give_back
from pplconv.schedules.base cimport Schedule
from pplconv.schedules.finish cimport Finish
from pplconv.schedules.team cimport leave_team, take_team
from pplconv.schedules.team_loop cimport Phase, flushed, run_team
from pplconv.schedules.work cimport MOST_ARRAYS, MOST_PHASES, Run, Tensors, Work, run_one

from pplconv.schedules.work import COUNT

cdef extern from "pplconv_schedules.h" nogil:
    int64_t pplconv_clock()

cdef enum:
    LINE = 64
    MOST_EXTERNALS = 256


cdef inline char *at(const Place *place, char *const *bases) noexcept nogil:
    if place.base < 0:
        return NULL
    if place.base == 0:
        return <char *> <size_t> place.offset
    return bases[place.base] + place.offset


cdef inline Place known(const void *address) noexcept:
    # The place of what does not move; NULL is none.
    cdef Place place
    place.base, place.offset = -1 if address == NULL else 0, <int64_t> address
    return place


cdef inline Place behind(Place place, int64_t elements) noexcept:
    # Some elements of four bytes behind another place.
    place.offset += elements * <int64_t> sizeof(int32_t)
    return place


cdef class Frame:
    """The memory of one run: the team's scratch, the arena, and the steps' arguments.

    It exports the arena as a buffer.
    """

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        if self.buffer is None:
            raise BufferError("the run has ended")
        PyBuffer_FillInfo(buffer, self, self.arena, self.arena_bytes, False, flags)


cdef class Program:
    """A compiled list of steps.

    Parameters
    ----------
    steps : sequence of (Work or Prepared, dict)
        The dict says where the arrays are. A schedule of a convolution has ``x``, ``y``,
        ``residual`` or None, ``weights``, and the objects ``bias`` (ndarray or None) and
        ``activation`` (`pplconv.ops.prepared.Activation` or None). Operations after the activation
        are in ``finish`` (`pplconv.schedules.finish.Finish`), with ``after``, an array that is
        added, or None. Sums of integers have ``rescaling``
        (`ops.quantized.rescaling.Rescaling`) in the place of a bias; what it says is computed is
        in ``offsets``, and multipliers that are computed, one for each channel, in ``multiplier``.
        Any other work has ``arrays``, a list of places.
        ``weights`` may be a `PackedWeights`. A place is an ndarray, a constant that is kept;
        ``("arena", offset, size)``; or ``("external", number, offset, size)``.
    arena_bytes : int
        Size of the arena.
    external_bytes : list of int
        Size of each of the caller's arrays.
    threads, most : int
        Size of the team, and how many threads may compute at once over all calls.
    most_scratch : int, optional
        Bytes of scratch of the whole team; the team has fewer threads where they would take more.
        One thread always runs, even if its scratch is larger.

    Raises
    ------
    ValueError
        If a step reads or writes beyond an array or the arena.
    MemoryError
        If memory cannot be had.
    """

    def __cinit__(self, steps, int64_t arena_bytes, list external_bytes, int threads, int most,
                  most_scratch=None):
        cdef Work work
        cdef int64_t i
        self.steps = tuple(steps)
        self.works = []
        for step, _ in self.steps:
            self.works.append((<Prepared> step).schedule if isinstance(step, Prepared) else step)
        self.count = len(self.works)
        self.kept = []
        self.external_bytes = external_bytes
        self.arena_bytes = arena_bytes
        self.threads, self.most = threads, most
        if len(external_bytes) + 2 > MOST_EXTERNALS:
            raise ValueError(f"a network has at most {MOST_EXTERNALS - 2} inputs and outputs")
        if arena_bytes < 0 or arena_bytes % LINE or threads < 1:
            raise ValueError("an arena is whole lines of cache, and a team at least one thread")
        self.bounds = <Bound *> calloc(max(self.count, 1), sizeof(Bound))
        if self.bounds == NULL:
            raise MemoryError
        self.phase_count = 0
        for i in range(self.count):
            work = <Work?> self.works[i]
            self.bind(&self.bounds[i], work, self.steps[i][1])
            self.phase_count += work.phases * work.rounds
            if work.shared_scratch + work.thread_scratch < 0:
                raise MemoryError("scratch is beyond what can be addressed")
            self.shared = max(self.shared, work.shared_scratch)
            self.thread = max(self.thread, work.thread_scratch)
        # The team counts phases as an int.
        if self.phase_count >= COUNT:
            raise MemoryError("a program has more phases than a team can count")
        if most_scratch is not None and self.thread > 0:
            fitting = max((most_scratch - self.shared) // self.thread, 1)
            self.threads = min(self.threads, fitting)
        self.scratch_bytes = self.shared + self.threads * self.thread

    def __dealloc__(self):
        free(self.bounds)

    cdef int place(self, Place *found, object place, int64_t size) except -1:
        """Check a place with `size` bytes in use."""
        cdef int64_t room
        if isinstance(place, tuple):
            kind, *numbers = place
            if kind == "arena":
                found.base = 1
                found.offset, room = numbers
                if found.offset < 0 or found.offset + max(room, size) > self.arena_bytes:
                    raise ValueError("a step reaches beyond the arena")
            else:
                number, found.offset, room = numbers
                found.base = 2 + <int64_t> number
                if (not 0 <= number < len(self.external_bytes) or found.offset < 0
                        or found.offset + max(room, size) > self.external_bytes[number]):
                    raise ValueError("a step reaches beyond the caller's array")
        else:
            found.base = 0
            found.offset = <int64_t> address_of(place, &room)
            self.kept.append(place)
        if size > room:
            raise ValueError(f"a step takes {size} bytes of an array of {room}")
        return 0

    cdef int bind(self, Bound *b, Work work, dict places) except -1:
        cdef Schedule schedule
        cdef Activation activation
        cdef PackedWeights packed
        cdef Finish finish
        cdef Rescaling rescaling
        cdef int64_t size
        cdef int i
        b.job, b.phases, b.rounds = work.job, work.phases, work.rounds
        for i in range(work.phases):
            b.steps[i] = work.steps[i]
        b.x.base = b.y.base = b.residual.base = b.weights.base = b.after.base = -1
        b.bias.base = b.multiplier.base = b.offsets.base = b.x_zero.base = -1
        if "arrays" in places:
            if isinstance(work, Schedule):
                raise ValueError("a convolution has its arrays by name")
            b.array_count = len(places["arrays"])
            if b.array_count > MOST_ARRAYS:
                raise ValueError(f"a step has at most {MOST_ARRAYS} arrays")
            for i in range(MOST_ARRAYS):
                if i < b.array_count:
                    self.place(&b.arrays[i], places["arrays"][i], work.extents[i])
                elif work.extents[i]:
                    raise ValueError("a step lacks an array")
            return 0
        schedule = <Schedule?> work
        self.place(&b.x, places["x"], schedule.input_bytes())
        self.place(&b.y, places["y"], schedule.output_bytes())
        if places.get("residual") is not None:
            self.place(&b.residual, places["residual"], schedule.output_bytes())
        weights = places["weights"]
        if isinstance(weights, PackedWeights):
            packed = weights
            if packed.size < schedule.packed_bytes():
                raise ValueError("packed weights are smaller than the plan's")
            b.weights.base, b.weights.offset = 0, <int64_t> packed.data
            b.filters = packed.filters
            self.kept.append(packed)
        else:
            self.place(&b.weights, weights, schedule.packed_bytes())
        if schedule.reads_filters and b.filters == NULL:
            raise ValueError("the plan's loops read the weights before packing as well")
        if places.get("bias") is not None:
            b.bias = known(address_of(places["bias"], &size))
            if size < schedule.shape.groups * schedule.shape.oc * schedule.shape.size.bias:
                raise ValueError("the bias has fewer elements than there are output channels")
            self.kept.append(places["bias"])
        rescales = places.get("rescaling") is not None
        if rescales != schedule.shape.exact:
            raise ValueError("sums of integers, and no others, are rescaled")
        if rescales:
            rescaling = <Rescaling?> places["rescaling"]
            rescaling.check(schedule)
            b.quantization = &rescaling.quantization
            b.multiplier = known(rescaling.multipliers)
            if places.get("multiplier") is not None:
                self.place(&b.multiplier, places["multiplier"],
                           rescaling.channels * <int64_t> sizeof(float))
            elif rescaling.lacks_multiplier:
                raise ValueError("outputs that are no sums have a multiplier, known or computed")
            if (rescaling.computed is None) != (places.get("offsets") is None):
                raise ValueError("offsets are computed where a zero point is, and nowhere else")
            if rescaling.computed is None:
                b.bias, b.offsets = known(rescaling.whole), known(rescaling.offsets)
                b.x_zero = known(&rescaling.x_zero)
            else:
                size = len(rescaling.computed[0]) * <int64_t> sizeof(int32_t)
                self.place(&b.x_zero, places["offsets"], size)
                b.bias = behind(b.x_zero, 1)
                if rescaling.offsets != NULL:
                    b.offsets = behind(b.bias, rescaling.channels)
            self.kept.append(rescaling)
        if places.get("activation") is not None:
            activation = <Activation?> places["activation"]
            b.clip, b.follow = activation.clip, activation.follow
            self.kept.append(activation)
        if places.get("finish") is not None:
            finish = <Finish?> places["finish"]
            if (schedule.shape.converts_out
                    or finish.element != schedule.shape.size.destination) or (
                    finish.channels >= 0
                    and finish.channels != schedule.shape.groups * schedule.shape.oc):
                raise ValueError("what follows an activation is not for these outputs")
            size = finish.count
            if places.get("after") is not None:
                self.place(&b.after, places["after"], schedule.output_bytes())
                size += 1
            if b.follow.count:
                b.code[0] = b.follow.code[0]
            for i in range(size):
                b.code[b.follow.count + i] = finish.code[i]
            b.follow.code, b.follow.count = b.code, b.follow.count + <int> size
            b.follow.scale, b.follow.offset = finish.scale, finish.offset
            self.kept.append(finish)
        return 0

    cdef int64_t list_bytes(self) noexcept nogil:
        """Bytes of the steps' arguments: tensors with their arrays, runs, phases."""
        cdef int64_t step = (sizeof(Tensors) + MOST_ARRAYS * sizeof(char *)
                             + MOST_PHASES * sizeof(Run))
        return self.count * step + self.phase_count * <int64_t> sizeof(Phase)

    cdef int64_t fill(self, Frame frame, char *const *bases, int64_t begin,
                      int64_t end) noexcept nogil:
        """Write each step's pointers, and list the phases; gives their number."""
        cdef Tensors *tensors = <Tensors *> frame.lists
        cdef Run *runs = <Run *> (tensors + self.count)
        cdef Run *alone = NULL
        cdef Phase *phases = <Phase *> (runs + self.count * MOST_PHASES)
        cdef char **arrays = <char **> (phases + self.phase_count)
        cdef Phase *phase = phases
        cdef Bound *b
        cdef Tensors *t
        cdef int64_t i, k, again
        for i in range(begin, end):
            b, t = &self.bounds[i], &tensors[i]
            t.x, t.y = at(&b.x, bases), at(&b.y, bases)
            t.residual, t.weights = at(&b.residual, bases), at(&b.weights, bases)
            t.filters, t.bias, t.clip = b.filters, at(&b.bias, bases), b.clip
            t.follow = b.follow
            t.multiplier, t.quantization = at(&b.multiplier, bases), b.quantization
            t.offsets, t.x_zero = at(&b.offsets, bases), <const int32_t *> at(&b.x_zero, bases)
            t.after = at(&b.after, bases)
            t.shared = frame.scratch
            t.arrays = arrays
            for k in range(b.array_count):
                arrays[k] = at(&b.arrays[k], bases)
            arrays += MOST_ARRAYS
            for k in range(b.phases):
                runs[k].task, runs[k].job, runs[k].tensors = b.steps[k].task, b.job, t
                runs[k].after = NULL
            if b.rounds == 1 and b.phases == 1 and b.steps[0].tasks == 1:
                if alone != NULL:
                    # Both steps have one task: the thread that did the last step goes on.
                    alone.after = runs
                    alone = runs
                    runs += MOST_PHASES
                    continue
                alone = runs
            else:
                alone = NULL
            for again in range(b.rounds):
                for k in range(b.phases):
                    phase.run, phase.job = run_one, &runs[k]
                    phase.tasks = b.steps[k].tasks
                    phase.first = again * phase.tasks
                    phase += 1
            runs += MOST_PHASES
        return phase - phases

    def frame(self):
        """Borrow the memory of one run; `give_back` returns it."""
        cdef Frame frame = Frame.__new__(Frame)
        frame.program = self
        frame.buffer = borrow(self.scratch_bytes + self.arena_bytes + self.list_bytes())
        frame.scratch = frame.buffer.data
        frame.arena = frame.scratch + self.scratch_bytes
        frame.lists = frame.arena + self.arena_bytes
        frame.arena_bytes = self.arena_bytes
        return frame

    def give_back(self, Frame frame not None):
        """End a run; once is enough."""
        if frame.buffer is not None:
            give_back(frame.buffer)
            frame.buffer = None

    def run(self, Frame frame not None, list externals, int64_t begin, int64_t end,
            object seconds=None):
        """Run steps `begin` to `end` - 1.

        Parameters
        ----------
        frame : Frame
            From `frame`, the same for all parts of a run.
        externals : list of ndarray
            The caller's arrays, contiguous, of the sizes that the program was made for; None where
            none of these steps needs one.
        begin, end : int
            Which steps.
        seconds : ndarray of float64, optional
            Receives the time of each step. Steps are then run one by one.

        Raises
        ------
        ValueError
            If an array is smaller than the program was made for.
        """
        cdef char *bases[MOST_EXTERNALS]
        cdef int64_t size, phases, i, before, after
        cdef Phase *phase
        cdef int team
        if frame.program is not self or frame.buffer is None:
            raise ValueError("the frame is another program's, or the run has ended")
        if not 0 <= begin <= end <= self.count:
            raise ValueError("no such steps")
        if len(externals) != len(self.external_bytes):
            raise ValueError("a run has all arrays of its program")
        if seconds is not None and len(seconds) < self.count:
            raise ValueError("seconds has an element for each step")
        bases[0], bases[1] = NULL, frame.arena
        # Held during the run, so that nobody resizes them.
        held = [None if array is None else memoryview(array) for array in externals]
        for i, array in enumerate(externals):
            bases[2 + i] = NULL
            if array is not None:
                bases[2 + i] = <char *> address_of(array, &size)
                if size < self.external_bytes[i]:
                    raise ValueError("an array is smaller than its program was made for")
        team = take_team(self.threads, self.most)
        try:
            with nogil:
                phase = <Phase *> (<Run *> (<Tensors *> frame.lists + self.count)
                                   + self.count * MOST_PHASES)
                if seconds is None:
                    phases = self.fill(frame, bases, begin, end)
                    run_team(phase, <int> phases, 1, flushed(), frame.scratch + self.shared,
                             self.thread, team)
                else:
                    for i in range(begin, end):
                        phases = self.fill(frame, bases, i, i + 1)
                        before = pplconv_clock()
                        run_team(phase, <int> phases, 1, flushed(), frame.scratch + self.shared,
                                 self.thread, team)
                        after = pplconv_clock()
                        with gil:
                            seconds[i] = (after - before) * 1e-9
        finally:
            leave_team(team)
            del held
