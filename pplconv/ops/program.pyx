# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A list of steps that one team runs from the first to the last, without the GIL.

A step is a work and the places of its arrays. Intermediate arrays lie in an arena, at offsets
chosen beforehand; inputs and outputs are the caller's arrays. The phases of all steps form one list
for the team, so a step costs a wait for the other threads and nothing else.

A range of steps may be repeated. Its steps take several turns, one turn after the other, and some
of its arrays move on by a number of bytes with each turn. Each run has its own pointers, so nothing
has to be restored.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from pplconv.ops.prepared cimport Activation, PackedWeights, Prepared
from pplconv.ops.quantized.rescaling cimport Rescaling
from pplconv.ops.repeated_steps cimport (
    advance, at, behind, in_turn, known, moved, run_loop, run_turned,
)
from pplconv.memory.arrays cimport address_of, lies_within
from pplconv.memory.workspace cimport borrow, give_back
from pplconv.schedules.base cimport Schedule, ceil_div, output_pixels
from pplconv.schedules.finish cimport Finish
from pplconv.schedules.team cimport leave_team, take_team
from pplconv.schedules.team_loop cimport Phase, flushed, run_team
from pplconv.schedules.work cimport MOST_ARRAYS, MOST_PHASES, Run, Tensors, Work, run_one

from pplconv.ops.refused import Refused
from pplconv.schedules.work import COUNT, SIZE

cdef extern from "pplconv_schedules.h" nogil:
    int64_t pplconv_clock()

cdef enum:
    LINE = 64
    # Bytes in which a step says that it refuses an index, and which.
    REFUSAL = 8
    # Their addresses stand on the stack of a run: 32 KiB.
    MOST_EXTERNALS = 4096


cdef inline bint is_alone(const Bound *b) noexcept nogil:
    return b.rounds == 1 and b.phases == 1 and b.steps[0].tasks == 1


cdef inline Segment *listed(Segment *segment, const Phase *begin, const Phase *end,
                            int64_t rounds) noexcept nogil:
    if begin == end:
        return segment
    segment.phases, segment.count, segment.rounds = begin, <int> (end - begin), rounds
    return segment + 1


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
        ``residual`` or None, ``weights``, ``bias`` or None, and the object ``activation``
        (`pplconv.ops.prepared.Activation` or None). Operations after the activation
        are in ``finish`` (`pplconv.schedules.finish.Finish`), with ``after``, an array that is
        added, or None. Sums of integers have ``rescaling``
        (`ops.quantized.rescaling.Rescaling`) in the place of a bias; what it says is computed is
        in ``offsets``, and multipliers that are computed, one for each channel, in ``multiplier``.
        Where weights keep zero points, ``window_sums`` has the sums of windows, int32.
        Any other work has ``arrays``, a list of places, None for arrays that it does not have.
        ``weights`` may be a `PackedWeights`. A place is an ndarray, a constant that is kept;
        ``("arena", offset, size)``; ``("external", number, offset, size)``; or ``("refusals",)``,
        two int32 in which the step says that it refuses an index, and which. In a repeat it may
        be ``("each", place, stride)``, the place of the first turn and the bytes from one turn to
        the next, where a constant is ``("constant", ndarray, offset)``.
    arena_bytes : int
        Size of the arena.
    external_bytes : list of int
        Size of each of the caller's arrays.
    threads, most : int
        Size of the team, and how many threads may compute at once over all calls.
    most_scratch : int, optional
        Bytes of scratch of the whole team; the team has fewer threads where they would take more.
        One thread always runs, even if its scratch is larger.
    repeats : sequence of tuple
        Ranges of steps that are repeated, in order and apart: begin, end, and number of turns; then
        the place of a byte, if there is one that ends them when it is 0 after a turn.
    inputs : int, optional
        How many of the caller's arrays, the first ones, no step may write.

    Raises
    ------
    ValueError
        If a step reads or writes beyond an array or the arena in any turn, writes a constant or an
        input, or ranges of steps are empty or overlap.
    MemoryError
        If memory cannot be had.
    """

    def __cinit__(self, steps, int64_t arena_bytes, list external_bytes, int threads, int most,
                  most_scratch=None, repeats=(), int64_t inputs=0):
        cdef Work work
        cdef int64_t i, r
        self.steps = tuple(steps)
        self.works = []
        for step, _ in self.steps:
            self.works.append((<Prepared> step).schedule if isinstance(step, Prepared) else step)
        self.count = len(self.works)
        self.kept, self.refusing = [], []
        self.external_bytes = external_bytes
        self.arena_bytes = arena_bytes
        self.threads, self.most, self.inputs = threads, most, inputs
        if len(external_bytes) + 2 > MOST_EXTERNALS:
            raise ValueError(f"a network has at most {MOST_EXTERNALS - 2} inputs and outputs")
        if arena_bytes < 0 or arena_bytes % LINE or threads < 1:
            raise ValueError("an arena is whole lines of cache, and a team at least one thread")
        self.bounds = <Bound *> calloc(max(self.count, 1), sizeof(Bound))
        if self.bounds == NULL:
            raise MemoryError
        self.take_repeats(list(repeats))
        # A repeat has two phases more: one that moves its arrays on, or one for all turns.
        self.phase_count = 2 * self.repeat_count
        r = 0
        for i in range(self.count):
            work = <Work?> self.works[i]
            while r < self.repeat_count and self.repeats[r].end <= i:
                r += 1
            self.turns, self.bound = 1, i
            if r < self.repeat_count and self.repeats[r].begin <= i:
                self.turns = self.repeats[r].turns
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
        free(self.repeats)

    cdef int take_repeats(self, list repeats) except -1:
        cdef int64_t r, done = 0
        self.repeat_count = len(repeats)
        self.repeats = <Repeat *> calloc(max(self.repeat_count, 1), sizeof(Repeat))
        if self.repeats == NULL:
            raise MemoryError
        for r, (begin, end, turns, *stops) in enumerate(repeats):
            if not done <= begin < end <= self.count:
                raise ValueError("repeats are ranges of steps, in order and apart")
            if not 1 <= turns < COUNT:
                raise ValueError("a repeat has at least one turn, and no more than can be counted")
            self.repeats[r].begin, self.repeats[r].end = begin, end
            self.repeats[r].turns = turns
            self.repeats[r].stop.base = -1
            for stop in stops:
                self.repeats[r].stop.stride = 0
                self.place_in(&self.repeats[r].stop, stop, 1, 0, 1, False)
            done = end
        return 0

    cdef int place(self, Place *found, object place, int64_t size, int64_t unit,
                   bint written=False) except -1:
        """Check a place with `size` bytes in use, in all turns if it moves.

        It lies at a multiple of `unit` bytes.
        """
        cdef int64_t low, high
        # Without checks of bounds, there is no first of an empty one.
        if not (isinstance(place, tuple) and place and place[0] == "each"):
            found.stride = 0
            return self.place_in(found, place, size, 0, unit, written)
        _, place, stride = place
        if not -SIZE < stride < SIZE:
            raise MemoryError("a stride is beyond what the loops can address")
        # Python's integers do not wrap around.
        reach = stride * (<object> self.turns - 1)
        if not -SIZE < reach < SIZE:
            raise MemoryError("an array of all turns is beyond what the loops can address")
        low, high = min(reach, 0), max(reach, 0)
        if stride % unit:
            raise ValueError("a stride is whole elements")
        found.stride = stride
        self.move_count += 1
        return self.place_in(found, place, size + high, low, unit, written)

    cdef int place_in(self, Place *found, object place, int64_t size, int64_t low, int64_t unit,
                      bint written) except -1:
        """Check a place with `size` bytes in use, and `-low` bytes before them."""
        cdef int64_t room
        if isinstance(place, tuple):
            kind, *numbers = place
            if kind == "constant":
                array, offset = numbers
                found.base, found.offset = 0, <int64_t> address_of(array, &room)
                if not 0 <= offset + low <= offset <= room:
                    raise ValueError("a step reaches beyond a constant")
                found.offset += <int64_t> offset
                room -= offset
                self.kept.append(array)
            elif kind == "refusals":
                # Behind the arena, a pair for each step.
                found.base, room = 1, REFUSAL
                found.offset = self.arena_bytes + self.bound * REFUSAL
                self.refusing.append(self.bound)
            elif kind == "arena":
                found.base = 1
                found.offset, room = numbers
                if not lies_within(found.offset, low, max(room, size), self.arena_bytes):
                    raise ValueError("a step reaches beyond the arena")
            else:
                number, found.offset, room = numbers
                if (not 0 <= number < len(self.external_bytes)
                        or not lies_within(found.offset, low, max(room, size),
                                           self.external_bytes[number])):
                    raise ValueError("a step reaches beyond the caller's array")
                found.base = 2 + <int64_t> number
        else:
            found.base = 0
            found.offset = <int64_t> address_of(place, &room)
            self.kept.append(place)
        if size > room:
            raise ValueError(f"a step takes {size} bytes of an array of {room}")
        if found.offset % unit:
            raise ValueError(f"a step takes elements of {unit} bytes at {found.offset}")
        if written and (found.base == 0 or 2 <= found.base < 2 + self.inputs):
            raise ValueError("a step writes a constant or an input")
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
        b.bias.base = b.multiplier.base = b.offsets.base = b.x_zero.base = b.window_sums.base = -1
        if "arrays" in places:
            if isinstance(work, Schedule):
                raise ValueError("a convolution has its arrays by name")
            b.array_count = len(places["arrays"])
            if b.array_count > MOST_ARRAYS:
                raise ValueError(f"a step has at most {MOST_ARRAYS} arrays")
            for i in range(MOST_ARRAYS):
                if i < b.array_count and places["arrays"][i] is not None:
                    self.place(&b.arrays[i], places["arrays"][i], work.extents[i],
                               max(work.units[i], <int64_t> 1), work.written >> i & 1)
                    continue
                b.arrays[i].base = -1
                if work.extents[i]:
                    raise ValueError("a step lacks an array")
            return 0
        schedule = <Schedule?> work
        sizes = &schedule.shape.size
        self.place(&b.x, places["x"], schedule.input_bytes(), sizes.source)
        self.place(&b.y, places["y"], schedule.output_bytes(), sizes.destination, True)
        if places.get("residual") is not None:
            self.place(&b.residual, places["residual"], schedule.output_bytes(),
                       sizes.destination)
        weights = places["weights"]
        if isinstance(weights, PackedWeights):
            packed = weights
            if packed.size < schedule.packed_bytes():
                raise ValueError("packed weights are smaller than the plan's")
            if schedule.reads_filters and packed.filter_bytes < schedule.filter_bytes():
                raise ValueError("weights before packing are smaller than the plan's")
            schedule.check_packed(packed.data)
            b.weights.base, b.weights.offset = 0, <int64_t> packed.data
            b.filters = packed.filters
            self.kept.append(packed)
        elif schedule.count != NULL:
            raise ValueError("the places of sparse weights are checked beforehand")
        else:
            self.place(&b.weights, weights, schedule.packed_bytes(), LINE)
        if schedule.reads_filters and b.filters == NULL:
            raise ValueError("the plan's loops read the weights before packing as well")
        if places.get("bias") is not None:
            self.place(&b.bias, places["bias"],
                       schedule.shape.groups * schedule.shape.oc * sizes.bias, sizes.bias)
        rescales = places.get("rescaling") is not None
        if rescales != schedule.shape.exact:
            raise ValueError("sums of integers, and no others, are rescaled")
        if rescales:
            rescaling = <Rescaling?> places["rescaling"]
            rescaling.check(schedule)
            rescaling.check_places(places)
            b.quantization = &rescaling.quantization
            b.multiplier = known(rescaling.multipliers)
            if places.get("multiplier") is not None:
                self.place(&b.multiplier, places["multiplier"],
                           rescaling.channels * <int64_t> sizeof(float), sizeof(float))
            if rescaling.computed is None:
                b.bias, b.offsets = known(rescaling.whole), known(rescaling.offsets)
                b.x_zero = known(&rescaling.x_zero)
            else:
                size = len(rescaling.computed[0]) * <int64_t> sizeof(int32_t)
                self.place(&b.x_zero, places["offsets"], size, sizeof(int32_t))
                if b.x_zero.stride:
                    raise ValueError("computed offsets stay in place")
                b.bias = behind(b.x_zero, 1)
                if rescaling.offsets != NULL:
                    b.offsets = behind(b.bias, rescaling.channels)
            if rescaling.weight_zeros != NULL:
                b.weight_zeros = rescaling.weight_zeros
                self.place(&b.window_sums, places["window_sums"],
                           output_pixels(&schedule.shape) * <int64_t> sizeof(int32_t),
                           sizeof(int32_t))
            self.kept.append(rescaling)
        if places.get("activation") is not None:
            activation = <Activation?> places["activation"]
            activation.check(schedule)
            b.clip, b.follow = activation.clip, activation.follow
            self.kept.append(activation)
        if places.get("finish") is not None:
            finish = <Finish?> places["finish"]
            if ((schedule.shape.converts_out and not schedule.shape.stored)
                    or finish.element != sizes.bias) or (
                    finish.channels >= 0
                    and finish.channels != schedule.shape.groups * schedule.shape.oc):
                raise ValueError("what follows an activation is not for these outputs")
            size = finish.count
            if places.get("after") is not None:
                self.place(&b.after, places["after"], schedule.output_bytes(), sizes.destination)
                size += 1
            if b.follow.count:
                b.code[0] = b.follow.code[0]
            for i in range(size):
                b.code[b.follow.count + i] = finish.code[i]
            b.follow.code, b.follow.count = b.code, b.follow.count + <int> size
            b.follow.scale, b.follow.offset = finish.scale, finish.offset
            self.kept.append(finish)
        return 0

    cdef int64_t refusal_bytes(self) noexcept nogil:
        return ceil_div(self.count * REFUSAL, LINE) * LINE

    cdef int64_t list_bytes(self) noexcept nogil:
        """Bytes of the steps' arguments: tensors with their arrays, runs, phases, repeats."""
        cdef int64_t step = (sizeof(Tensors) + MOST_ARRAYS * sizeof(char *)
                             + MOST_PHASES * sizeof(Run))
        return (self.count * step
                + self.phase_count * <int64_t> (sizeof(Phase) + sizeof(Turned))
                + self.repeat_count * <int64_t> (sizeof(Loop) + 2 * sizeof(Segment))
                + self.move_count * <int64_t> sizeof(Move) + <int64_t> sizeof(Segment))

    cdef void lay_out(self, Frame frame, Lists *l) noexcept nogil:
        """Find the lists in the memory of a run."""
        l.scratch, l.tensors = frame.scratch, <Tensors *> frame.lists
        l.runs = <Run *> (l.tensors + self.count)
        l.phases = <Phase *> (l.runs + self.count * MOST_PHASES)
        l.arrays = <char **> (l.phases + self.phase_count)
        l.turned = <Turned *> (l.arrays + self.count * MOST_ARRAYS)
        l.loops = <Loop *> (l.turned + self.phase_count)
        l.moves = <Move *> (l.loops + self.repeat_count)
        l.segments = <Segment *> (l.moves + self.move_count)

    cdef void point(self, const Lists *l, int64_t i, char *const *bases,
                    int64_t turn) noexcept nogil:
        """Write the pointers of one step in one turn."""
        cdef Bound *b = &self.bounds[i]
        cdef Tensors *t = &l.tensors[i]
        cdef Run *runs = l.runs + i * MOST_PHASES
        cdef char **arrays = l.arrays + i * MOST_ARRAYS
        cdef int64_t k
        t.x, t.y = in_turn(&b.x, bases, turn), in_turn(&b.y, bases, turn)
        t.residual = in_turn(&b.residual, bases, turn)
        t.weights = in_turn(&b.weights, bases, turn)
        t.filters, t.bias, t.clip = b.filters, in_turn(&b.bias, bases, turn), b.clip
        t.follow = b.follow
        t.multiplier = in_turn(&b.multiplier, bases, turn)
        t.quantization = b.quantization
        t.offsets, t.x_zero = at(&b.offsets, bases), <const int32_t *> at(&b.x_zero, bases)
        t.window_sums = in_turn(&b.window_sums, bases, turn)
        t.weight_zeros = b.weight_zeros
        t.after = in_turn(&b.after, bases, turn)
        t.shared, t.arrays = l.scratch, arrays
        for k in range(b.array_count):
            arrays[k] = in_turn(&b.arrays[k], bases, turn)
        for k in range(b.phases):
            runs[k].task, runs[k].job, runs[k].tensors = b.steps[k].task, b.job, t
            runs[k].after = NULL

    cdef Move *moving(self, const Lists *l, int64_t i, Move *moves) noexcept nogil:
        """List the pointers of one step that move; gives the end of the list."""
        cdef Bound *b = &self.bounds[i]
        cdef Tensors *t = &l.tensors[i]
        cdef int64_t k
        moves = moved(moves, <char **> &t.x, &b.x)
        moves = moved(moves, &t.y, &b.y)
        moves = moved(moves, <char **> &t.residual, &b.residual)
        moves = moved(moves, <char **> &t.weights, &b.weights)
        moves = moved(moves, <char **> &t.bias, &b.bias)
        moves = moved(moves, <char **> &t.multiplier, &b.multiplier)
        moves = moved(moves, <char **> &t.window_sums, &b.window_sums)
        moves = moved(moves, <char **> &t.after, &b.after)
        for k in range(b.array_count):
            moves = moved(moves, l.arrays + i * MOST_ARRAYS + k, &b.arrays[k])
        return moves

    cdef int64_t fill(self, const Lists *l, char *const *bases, int64_t begin, int64_t end,
                      int64_t turn, int64_t most) noexcept nogil:
        """Write each step's pointers, and list the phases; gives the number of segments.

        If `turn` is not negative, steps run for this turn of their repeat alone. Repeats take at
        most `most` turns.
        """
        cdef Phase *phase = l.phases
        cdef const Phase *first = phase
        cdef Turned *turned = l.turned
        cdef Move *moves = l.moves
        cdef Segment *segment = l.segments
        cdef Run *alone = NULL
        cdef Run *runs
        cdef Repeat *repeat
        cdef Loop *loop
        cdef Bound *b
        cdef bint together
        cdef int64_t i = begin, r = 0, k, again, stop = -1
        loop = NULL
        while r < self.repeat_count and self.repeats[r].begin < begin:
            r += 1
        while i < end:
            if turn < 0 and r < self.repeat_count and self.repeats[r].begin == i:
                repeat, loop = &self.repeats[r], &l.loops[r]
                loop.turn, loop.turns, loop.moves = 0, min(repeat.turns, most), moves
                loop.stop, loop.stopped = at(&repeat.stop, bases), False
                together = True
                for k in range(i, repeat.end):
                    self.point(l, k, bases, 0)
                    moves = self.moving(l, k, moves)
                    together = together and is_alone(&self.bounds[k])
                loop.move_count = moves - loop.moves
                r += 1
                if together:
                    for k in range(i, repeat.end - 1):
                        l.runs[k * MOST_PHASES].after = l.runs + (k + 1) * MOST_PHASES
                    loop.body = l.runs + i * MOST_PHASES
                    runs = &loop.run
                    runs.task, runs.job, runs.tensors, runs.after = run_loop, loop, NULL, NULL
                    loop = NULL
                    i = repeat.end
                    if alone != NULL:
                        alone.after = runs
                    else:
                        phase.run, phase.job, phase.tasks, phase.first = run_one, runs, 1, 0
                        phase += 1
                    alone = runs
                    continue
                segment = listed(segment, first, phase, 1)
                first, alone, stop = phase, NULL, repeat.end
            if loop == NULL:
                self.point(l, i, bases, turn if turn > 0 else 0)
            b, runs = &self.bounds[i], l.runs + i * MOST_PHASES
            if is_alone(b) and alone != NULL:
                # Both steps have one task: the thread that did the last step goes on.
                alone.after = runs
                alone = runs
            else:
                alone = runs if is_alone(b) else NULL
                for again in range(b.rounds):
                    for k in range(b.phases):
                        phase.run, phase.job = run_one, &runs[k]
                        phase.tasks = b.steps[k].tasks
                        phase.first = again * phase.tasks
                        if loop != NULL:
                            turned.run, turned.loop, turned.tasks = &runs[k], loop, phase.tasks
                            phase.run, phase.job = run_turned, turned
                            turned += 1
                        phase += 1
            i += 1
            if i == stop:
                phase.run, phase.job, phase.tasks, phase.first = advance, loop, 1, 0
                phase += 1
                segment = listed(segment, first, phase, loop.turns)
                first, loop, alone, stop = phase, NULL, NULL, -1
        segment = listed(segment, first, phase, 1)
        return segment - l.segments

    def frame(self):
        """Borrow the memory of one run; `give_back` returns it."""
        cdef Frame frame = Frame.__new__(Frame)
        frame.program = self
        frame.buffer = borrow(self.scratch_bytes + self.arena_bytes + self.refusal_bytes()
                              + self.list_bytes())
        frame.scratch = frame.buffer.data
        frame.arena = frame.scratch + self.scratch_bytes
        frame.lists = frame.arena + self.arena_bytes + self.refusal_bytes()
        if self.refusing:
            memset(frame.arena + self.arena_bytes, 0, self.refusal_bytes())
        frame.arena_bytes = self.arena_bytes
        return frame

    def give_back(self, Frame frame not None):
        """End a run; once is enough."""
        if frame.buffer is not None:
            give_back(frame.buffer)
            frame.buffer = None

    def run(self, Frame frame not None, list externals, int64_t begin, int64_t end,
            object seconds=None, int64_t most=COUNT):
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
            The time of each step, in all its turns, is added. Steps are then run one by one.
        most : int, optional
            Most turns that a repeat takes.

        Returns
        -------
        int
            The turns that the last of the repeats has taken; 0 if there is none.

        Raises
        ------
        ValueError
            If an array is smaller than the program was made for, a part of a repeat would run, or
            it would take no turn.
        Refused
            If a step refuses an index.
        """
        cdef char *bases[MOST_EXTERNALS]
        cdef int64_t size, segments, i, r, k, turn, taken = 0
        cdef Repeat *repeat
        cdef Lists lists
        cdef const char *stop
        cdef const int32_t *refusal
        cdef int team
        if frame.program is not self or frame.buffer is None:
            raise ValueError("the frame is another program's, or the run has ended")
        if not 0 <= begin <= end <= self.count or most < 1:
            raise ValueError("no such steps, or no turn")
        for r in range(self.repeat_count):
            repeat = &self.repeats[r]
            if repeat.begin < begin < repeat.end or repeat.begin < end < repeat.end:
                raise ValueError("a repeat runs as a whole")
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
                self.lay_out(frame, &lists)
                if seconds is None:
                    segments = self.fill(&lists, bases, begin, end, -1, most)
                    self.run_segments(frame, lists.segments, segments, team)
                    for r in range(self.repeat_count):
                        if begin <= self.repeats[r].begin < end:
                            taken = lists.loops[r].turn
            if seconds is not None:
                i, r = begin, 0
                while i < end:
                    while r < self.repeat_count and self.repeats[r].end <= i:
                        r += 1
                    if r == self.repeat_count or self.repeats[r].begin > i:
                        seconds[i] += self.timed(frame, &lists, bases, i, 0, team)
                        i += 1
                        continue
                    repeat = &self.repeats[r]
                    stop = at(&repeat.stop, bases)
                    for turn in range(min(repeat.turns, most)):
                        for k in range(i, repeat.end):
                            seconds[k] += self.timed(frame, &lists, bases, k, turn, team)
                        taken = turn + 1
                        if stop != NULL and stop[0] == 0:
                            break
                    i = repeat.end
        finally:
            leave_team(team)
            del held
        for step in self.refusing:
            refusal = <const int32_t *> (frame.arena + self.arena_bytes) + 2 * <int64_t> step
            if refusal[0]:
                raise Refused(step, refusal[0], refusal[1])
        return taken

    cdef void run_segments(self, Frame frame, const Segment *segments, int64_t count,
                           int team) noexcept nogil:
        cdef int64_t i
        for i in range(count):
            run_team(segments[i].phases, segments[i].count, segments[i].rounds, flushed(),
                     frame.scratch + self.shared, self.thread, team)

    cdef double timed(self, Frame frame, const Lists *l, char *const *bases, int64_t step,
                      int64_t turn, int team) noexcept:
        """Run one step in one turn; gives the seconds."""
        cdef int64_t segments, before, after
        with nogil:
            segments = self.fill(l, bases, step, step + 1, turn, 1)
            before = pplconv_clock()
            self.run_segments(frame, l.segments, segments, team)
            after = pplconv_clock()
        return (after - before) * 1e-9
