"""GEMM microkernels for AVX-512 and AVX2+FMA, every type and tile from one description.

The tile C[MR, NR] lives in registers for the whole sum. Each step of k loads one row of B
(NR elements, in vectors) and broadcasts MR elements of A from memory; a broadcast load
costs a load slot, not an arithmetic one, so the FMA units are the only full resource. A is
addressed by two strides, one of which is one element: a packed panel, or planes of an image
(its rows), or channels-last pixels (its k), so 1x1 convolution needs no packing at all. Each of the
two cases has its own inner loop, because integer additions share ports with FMAs on Intel's cores:
where the stride of one element is a displacement, a turn of several steps needs only one addition
for each of A, B and the prefetch.

The sum may be made of segments, each with a place of its own in A and B (the batch-reduce
form of libxsmm and of oneDNN): the taps of a k x k convolution are segments of the image in place,
so it needs no im2col. A segment costs a dozen integer instructions, which the core executes beside
the FMAs of the previous segment.

Each element of C is one chain of FMAs in ascending k, segment after segment, that starts from
zero (or from what C holds), so the bits do not depend on the tile: see "The same bits for any
team" in ``docs/architecture.md``.

With narrow types, a step multiplies a group of neighbouring k that is as wide as a sum. Such a
group is broadcast, and loaded in vectors, as one element (``products.py``).

The tile shapes follow the register-allocation arithmetic of the OpenPPL Arm Server slides
(MR * NR + NR + temporaries <= registers).
"""

from __future__ import annotations

from collections.abc import Callable
from textwrap import wrap

from asm.contract import FLAGS, GEMM
from asm.fitting import require
from asm.registry import Kernel
from asm.x86_64.emit import CALLEE_SAVED, frame
from asm.x86_64.gemm_tile import Tile

# Row r of A lies r * a_rs from its pointer. Odd multiples have an index register each, the
# even ones come from those by scale, so one pointer serves 14 rows.
_MULTIPLES = {1: "rcx", 3: "r8", 5: "r11", 7: "rbx", 9: "rbp", 11: "r12", 13: "r13"}
ROWS_PER_POINTER = 14
_A_POINTERS = ("r10", "r14")

# Values that change once a segment, or once in each of the first turns, lie below the stack
# pointer: the ABI keeps 128 bytes there for a function that calls nothing, and no register is left.
_SEGMENT = "qword ptr [rsp - 8]"  # address of the next segment
_SEGMENTS_LEFT = "qword ptr [rsp - 16]"
_C_ROW = "qword ptr [rsp - 24]"  # row of C to prefetch next
_C_ROWS_LEFT = "qword ptr [rsp - 32]"
_FIRST_TURNS = "qword ptr [rsp - 40]"  # turns that prefetch a row of C each
_OTHER_TURNS = "qword ptr [rsp - 48]"
_AHEAD_TURN = "qword ptr [rsp - 56]"  # distance that the prefetches of B advance in a turn

Address = Callable[[int, int], str]  # row, step of the turn


def row_multiples(rows: int) -> dict[int, str]:
    """Registers of the multiples of the rows' distance that `rows` rows of a tile need."""
    return {m: r for m, r in _MULTIPLES.items() if m == 1 or m < min(rows, ROWS_PER_POINTER)}


def row_address(pointer: str, row: int, displacement: int) -> str:
    """Address in A's row `row`, counted from its pointer."""
    if row == 0:
        return f"[{pointer} + {displacement}]"
    scale = row & -row
    return f"[{pointer} + {_MULTIPLES[row // scale]}*{scale} + {displacement}]"


class _Gemm(Tile):
    """Emits one kernel; the methods follow the order of the code."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        pointers = -(-self.mr // ROWS_PER_POINTER)
        require(kernel, pointers, len(_A_POINTERS), "general registers that point to rows of A")
        self.pointers = _A_POINTERS[:pointers]
        self.multiples = list(row_multiples(self.mr))
        taken = {_MULTIPLES[m] for m in self.multiples} | set(self.pointers)
        free = [r for r in ("r11", "r15", "r14", "r13", "r12", "rbp", "rbx") if r not in taken]
        # Small tiles have few FMAs a step, so their turns have more steps: less loop overhead.
        self.unroll = 2 if self.mr * self.nv > 12 else 4
        masks = 0 if self.v.masked else self.nv
        wanted = masks + 1 + (self.unroll > 2)
        require(kernel, len(taken) + wanted, len(taken) + len(free), "general registers")
        self.masks, self.ahead = free[:masks], free[masks]
        self.b_three = free[masks + 1] if self.unroll > 2 else ""
        # Small tiles have registers to count the first turns in; large tiles have the time to count
        # them in memory.
        self.c_row = free[wanted] if len(free) > wanted else _C_ROW
        self.first_turns = free[wanted + 1] if len(free) > wanted + 1 else _FIRST_TURNS
        used = {*taken, *free[: wanted + 2]}
        self.saved = [r for r in CALLEE_SAVED if r in used]

    def generate(self) -> str:
        w = self.w
        for r in self.saved:
            w(f"push {r}")
        self.tail_masks()
        self.start()
        self.strides()
        self.sum()
        self.epilogue()
        w("vzeroupper")
        for r in reversed(self.saved):
            w(f"pop {r}")
        w("ret")
        return frame(self.kernel, self.contract(), w.lines, self.rodata())

    def contract(self) -> list[str]:
        k, v = self.kernel, self.v
        means = f"What a step of {k.kr} k does to a sum: {self.multiply.means}."
        return [
            f"{k.symbol}: {GEMM.summary}.",
            f"struct {GEMM.struct} * in rdi; every pointer may be unaligned; k = 0 gives the",
            "epilogue of zero. Reads and writes nothing outside the segments and, of each segment,",
            "A[MR, k] and B[k, n] (B[k, NR] with B_PADDED), C[MR, n], residual[MR, n], bias and",
            "clip; prefetches C and the rows of B that lie b_ahead further on.",
            *(wrap(means, 90) if self.multiply.means else ()),
            "",
            f"{v.reg(0)}-{self.acc(self.mr - 1, self.nv - 1)} C, row by row, {self.nv} a row",
            f"{v.reg(self.b[0])}-{v.reg(self.b[-1])} B"
            + (f", {v.reg(self.ones)} ones of 16 bits" if self.multiply.widen else ""),
            f"{', '.join(v.reg(t) for t in self.temps[:2]) or 'none'} broadcasts of A"
            + (", products" if self.multiply.add else ""),
            f"{', '.join(self.pointers)} A, rows {ROWS_PER_POINTER} apart; "
            + ", ".join(f"{_MULTIPLES[m]} {m} a_rs" for m in self.multiples),
            f"rsi B, rdx b_ks, r9 a_ks, rax steps of k, {self.ahead} B to prefetch; "
            + ("k1-k4 tail masks" if v.masked else f"{', '.join(self.masks)} tail masks"),
        ]

    def start(self) -> None:
        """Zero the accumulators, or load them from C."""
        w = self.w
        self.flag("ACCUMULATE", "zero")
        self.rows_of("c", self.load)
        w(f"mov {_C_ROWS_LEFT}, 0")
        w("jmp .Lstarted")
        w.label("zero")
        self.zero()
        w(f"mov rax, {self.field('c')}")
        w(f"mov {self.c_row}, rax")
        w(f"mov {_C_ROWS_LEFT}, {self.mr}")
        w.label("started")

    def strides(self) -> None:
        """Load the strides, which stay the same for the whole sum."""
        w = self.w
        w(f"mov rdx, {self.field('b_ks')}")
        w(f"mov rcx, {self.field('a_rs')}")
        w(f"mov r9, {self.field('a_ks')}")
        for m in self.multiples[1:]:
            before = _MULTIPLES[m - 2]
            w(f"lea {_MULTIPLES[m]}, [{before} + rcx*2]")
        if self.b_three:
            w(f"lea {self.b_three}, [rdx + rdx*2]")
        w(f"mov rax, {self.field('b_ahead_ks')}")
        w(f"shl rax, {self.unroll.bit_length() - 1}")
        w(f"mov {_AHEAD_TURN}, rax")
        if self.multiply.widen:
            w(f"mov eax, {0x10001}")
            w(f"vmovd xmm{self.temps[0]}, eax")
            w(f"vpbroadcastd {self.v.reg(self.ones)}, xmm{self.temps[0]}")

    def sum(self) -> None:
        """Run over the segments; without any, A and B are the only one."""
        w = self.w
        first = self.pointers[0]
        w(f"mov {first}, {self.field('a')}")
        w(f"mov rsi, {self.field('b')}")
        w(f"mov rax, {self.field('segments')}")
        w(f"mov {_SEGMENT}, rax")
        w(f"mov rax, {self.field('segment_count')}")
        w(f"mov {_SEGMENTS_LEFT}, rax")
        w("test rax, rax")
        w("jz .Lsegment")
        w.label("next_segment")
        w(f"mov rax, {_SEGMENT}")
        w(f"mov {first}, {self.field('a')}")
        w(f"mov rsi, {self.field('b')}")
        w(f"add {first}, [rax]")
        w("add rsi, [rax + 8]")
        w(f"add {_SEGMENT}, 16")
        w.label("segment")
        if len(self.pointers) > 1:
            w(f"lea {self.pointers[1]}, [{first} + rcx]")
            w(f"add {self.pointers[1]}, {_MULTIPLES[13]}")
        w(f"mov {self.ahead}, {self.field('b_ahead')}")
        w(f"add {self.ahead}, rsi")
        self.segment()
        w.label("segment_done")
        w(f"dec {_SEGMENTS_LEFT}")
        w("jg .Lnext_segment")

    def segment(self) -> None:
        """Run over k: whole turns where B can be read in whole vectors, then step by step."""
        w = self.w
        self.steps_of_k()
        w(f"test dword ptr {self.field('flags')}, {FLAGS['B_PADDED']}")
        w("jnz .Lwhole")
        w(f"cmp qword ptr {self.field('n')}, {self.kernel.nr}")
        w("jne .Ltail_steps")
        w.label("whole")
        w(f"shr rax, {self.unroll.bit_length() - 1}")
        w("jz .Lrest")
        w(f"cmp rcx, {self.v.size}")
        w("jne .Lnear_k")
        if self.unroll > 2:
            w("lea r8, [r9 + r9*2]")
        self.turns("rows", self.near_row)
        if self.unroll > 2:
            w("lea r8, [rcx + rcx*2]")
        w("jmp .Lrest")
        w.label("near_k")
        self.turns("k", self.near_k)
        w.label("rest")
        self.steps_of_k()
        w(f"and rax, {self.unroll - 1}")
        self.steps("whole_steps", tail=False)
        w("jmp .Lsegment_done")
        self.steps("tail_steps", tail=True)

    def steps_of_k(self) -> None:
        """Put into rax how many steps a segment's sum takes: whole groups of k."""
        kr = self.kernel.kr
        self.w(f"mov rax, {self.field('k')}")
        if kr > 1:
            self.w(f"add rax, {kr - 1}")
            self.w(f"shr rax, {kr.bit_length() - 1}")

    def near_row(self, m: int, u: int) -> str:
        """Element (m, k + u) of A where rows are neighbours."""
        step = ("", " + r9", " + r9*2", " + r8")[u]
        return f"[{self.pointers[0]}{step} + {m * self.v.size}]"

    def near_k(self, m: int, u: int) -> str:
        """Element (m, k + u) of A where the elements of a row are neighbours."""
        pointer = self.pointers[m // ROWS_PER_POINTER]
        return row_address(pointer, m % ROWS_PER_POINTER, u * self.v.size)

    def turns(self, name: str, address: Address) -> None:
        """Run rax turns; the first turns of the sum prefetch C, one row a turn.

        Prefetches of all of C at once would delay the loads of B.
        """
        w = self.w
        w(f"cmp {_C_ROWS_LEFT}, 0")
        w(f"je .L{name}_fetched")
        w(f"mov {_OTHER_TURNS}, rax")
        w(f"cmp rax, {_C_ROWS_LEFT}")
        w(f"cmova rax, {_C_ROWS_LEFT}")
        w(f"mov {self.first_turns}, rax")
        w(f"sub {_OTHER_TURNS}, rax")
        w(f"sub {_C_ROWS_LEFT}, rax")
        w(".p2align 5")
        w.label(f"{name}_first")
        self.fetch_row_of_c()
        self.turn(address)
        w(f"dec {self.first_turns}")
        w(f"jnz .L{name}_first")
        w(f"mov rax, {_OTHER_TURNS}")
        w("test rax, rax")
        w(f"jz .L{name}_end")
        w(".p2align 5")
        w.label(f"{name}_fetched")
        self.turn(address)
        w("dec rax")
        w(f"jnz .L{name}_fetched")
        w.label(f"{name}_end")

    def fetch_row_of_c(self) -> None:
        """Prefetch a row of C, and go on to the next."""
        w = self.w
        w(f"mov rax, {self.c_row}")
        for j in range(self.nv):
            w("prefetcht0 [rax]")
            if j + 1 < self.nv:
                w(f"add rax, {self.field('c_vs')}")
        if self.c_row == _C_ROW:
            w(f"mov rax, {self.field('c_rs')}")
            w(f"add {self.c_row}, rax")
        else:
            w(f"add {self.c_row}, {self.field('c_rs')}")

    def turn(self, address: Address) -> None:
        """Several steps, the pointers moved once."""
        w = self.w
        for u in range(self.unroll):
            step = ("", " + rdx", " + rdx*2", f" + {self.b_three}")[u]
            self.k_step([address(m, u) for m in range(self.mr)], step, tail=False)
        scale = {2: "*2", 4: "*4"}[self.unroll]
        w(f"lea rsi, [rsi + rdx{scale}]")
        w(f"add {self.ahead}, {_AHEAD_TURN}")
        for pointer in self.pointers:
            w(f"lea {pointer}, [{pointer} + r9{scale}]")

    def steps(self, name: str, *, tail: bool) -> None:
        """Run rax single steps, whatever the strides of A are."""
        w = self.w
        w.label(name)
        w("test rax, rax")
        w("jz .Lsegment_done")
        w.label(f"{name}_one")
        self.k_step([self.near_k(m, 0) for m in range(self.mr)], "", tail=tail)
        w("add rsi, rdx")
        w(f"add {self.ahead}, {self.field('b_ahead_ks')}")
        for pointer in self.pointers:
            w(f"add {pointer}, r9")
        w("dec rax")
        w(f"jnz .L{name}_one")

    def k_step(self, rows: list[str], b_step: str, *, tail: bool) -> None:
        """One step of k: a row of B, and every row of A broadcast against it."""
        w, v = self.w, self.v
        for j, r in enumerate(self.b):
            address = f"[rsi{b_step} + {j * v.bytes}]"
            if tail:
                self.masked_load(v.reg(r), address, j)
            else:
                w(f"vmovu{v.suffix} {v.reg(r)}, {address}")
        for line in range(0, self.nv * v.bytes, 64):
            w(f"prefetcht0 [{self.ahead}{b_step} + {line}]")
        for m, row in enumerate(rows):
            if self.embedded:
                operands = f"{v.reg(self.b[0])}, {row}{v.embedded}"
                w(f"{self.instruction} {self.acc(m, 0)}, {operands}")
            else:
                self.multiply_row(m, row)

    def multiply_row(self, m: int, address: str) -> None:
        """Broadcast an element of A, and multiply the row of B by it."""
        w, v, multiply = self.w, self.v, self.multiply
        t = v.reg(self.temps[m % min(2, len(self.temps))])
        product = v.reg(self.temps[(m + 1) % min(2, len(self.temps))])
        w(f"{v.broadcast} {t}, {address}")
        for j, r in enumerate(self.b):
            acc, b = self.acc(m, j), v.reg(r)
            if not multiply.add:
                w(f"{self.instruction} {acc}, {t}, {b}")
                continue
            target = product if j + 1 < self.nv else t
            w(f"{self.instruction} {target}, {t}, {b}")
            if multiply.widen:
                w(f"{multiply.widen} {target}, {target}, {v.reg(self.ones)}")
            w(f"{multiply.add} {acc}, {acc}, {target}")


def generate(kernel: Kernel) -> str:
    """Assembly text of the GEMM microkernel that `kernel` describes."""
    return _Gemm(kernel).generate()
