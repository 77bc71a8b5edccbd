"""GEMM microkernels for AVX-512 and AVX2+FMA, every tile from one description.

The tile C[MR, NR] lives in registers for the whole sum. Each step of k loads one row of B
(NR elements, in vectors) and broadcasts MR elements of A from memory; a broadcast load
costs a load slot, not an arithmetic one, so the FMA units are the only full resource. A is
addressed by two strides, one of which is one element: a packed panel, or planes of an image
(its rows), or channels-last pixels (its k), so 1x1 convolution needs no packing at all. The
inner loop exists for either kind, as integer additions share ports with FMAs on Intel's
cores: with the near stride as a displacement, a turn of several steps has one for each of A,
B and the prefetch.

Each element of C is one chain of FMAs in ascending k that starts from zero (or from what C
holds), so the bits do not depend on the tile: see "The same bits for any team" in
``docs/architecture.md``.

The tile shapes follow the register-allocation arithmetic of the OpenPPL Arm Server slides
(MR * NR + NR + temporaries <= registers).
"""

from __future__ import annotations

from collections.abc import Callable

from asm.contract import FLAGS, GEMM
from asm.registry import ISAS, Kernel
from asm.x86_64.emit import CALLEE_SAVED, Vector, Writer, frame

# Row r of A lies r * a_rs from its pointer. Odd multiples have an index register each, the
# even ones come from those by scale, so one pointer serves 14 rows.
_MULTIPLES = {1: "rcx", 3: "r8", 5: "r11", 7: "rbx", 9: "rbp", 11: "r12", 13: "r13"}
ROWS_PER_POINTER = 14
_A_POINTERS = ("r10", "r14")


Address = Callable[[int, int], str]  # row, step of the turn
RowAction = Callable[[int, int, str, bool], None]  # row, vector, address, tail


def _row_address(pointer: str, row: int, displacement: int) -> str:
    """Address in A's row `row`, counted from its pointer."""
    if row == 0:
        return f"[{pointer} + {displacement}]"
    scale = row & -row
    return f"[{pointer} + {_MULTIPLES[row // scale]}*{scale} + {displacement}]"


class _Gemm:
    """Emits one kernel; the methods follow the order of the code."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.v = Vector(kernel.dtype, kernel.isa)
        self.w = Writer()
        self.mr = kernel.mr
        self.nv = kernel.vectors
        registers = ISAS[kernel.isa].vector_registers
        self.b = [self.mr * self.nv + j for j in range(self.nv)]
        self.temps = list(range(self.mr * self.nv + self.nv, registers))
        # One vector of B: the broadcast goes into the FMA itself, which frees a register
        # and an instruction. With more, one broadcast feeds several FMAs.
        self.embedded = self.v.masked and self.nv == 1
        if not self.embedded and not self.temps:
            raise ValueError(f"{kernel.symbol} does not fit {registers} registers")
        self.pointers = _A_POINTERS[: -(-self.mr // ROWS_PER_POINTER)]
        self.multiples = [m for m in _MULTIPLES if m == 1 or m < min(self.mr, ROWS_PER_POINTER)]
        taken = {_MULTIPLES[m] for m in self.multiples} | set(self.pointers)
        free = [r for r in ("r15", "r14", "r13", "r12", "rbp", "rbx") if r not in taken]
        # Few FMAs a step: more steps a turn, so that the turn itself costs little.
        self.unroll = 2 if self.mr * self.nv > 12 else 4
        # Addresses of tail masks on AVX2; AVX-512 has registers of its own for them.
        masks = 0 if self.v.masked else self.nv
        wanted = masks + 1 + (self.unroll > 2)
        if len(free) < wanted:
            raise ValueError(f"{kernel.symbol} needs more general registers than there are")
        self.masks, self.ahead = free[:masks], free[masks]
        self.b_three = free[masks + 1] if self.unroll > 2 else ""
        self.c_row = free[wanted] if len(free) > wanted else ""
        scratch = ("r14", "r15") if self.v.masked else ()
        used = {*taken, *self.masks, self.ahead, self.b_three, self.c_row, *scratch}
        self.saved = [r for r in CALLEE_SAVED if r in used]

    def acc(self, m: int, j: int) -> str:
        return self.v.reg(m * self.nv + j)

    def field(self, name: str) -> str:
        return f"[rdi + {GEMM.offset(name)}]"

    def flag(self, name: str, target: str) -> None:
        """Jump to `target` unless the flag is set."""
        self.w(f"test dword ptr {self.field('flags')}, {FLAGS[name]}")
        self.w(f"jz .L{target}")

    def generate(self) -> str:
        w = self.w
        for r in self.saved:
            w(f"push {r}")
        self.prologue()
        self.start()
        self.sum()
        w.label("epilogue")
        self.epilogue()
        w("vzeroupper")
        for r in reversed(self.saved):
            w(f"pop {r}")
        w("ret")
        return frame(self.kernel, self.contract(), w.lines, self.rodata())

    def contract(self) -> list[str]:
        k, v = self.kernel, self.v
        return [
            f"{k.symbol}: {GEMM.summary}.",
            f"struct {GEMM.struct} * in rdi; every pointer may be unaligned; k = 0 gives the",
            "epilogue of zero. Reads and writes nothing outside A[MR, k], B[k, n] (B[k, NR] with",
            "B_PADDED), C[MR, n], residual[MR, n], bias and clip; prefetches C and the rows of B",
            "that lie b_ahead further on.",
            "",
            f"{v.reg(0)}-{self.acc(self.mr - 1, self.nv - 1)} C, row by row, {self.nv} a row",
            f"{v.reg(self.b[0])}-{v.reg(self.b[-1])} B",
            f"{', '.join(v.reg(t) for t in self.temps[:2]) or 'none'} broadcasts of A",
            f"{', '.join(self.pointers)} A, rows {ROWS_PER_POINTER} apart; "
            + ", ".join(f"{_MULTIPLES[m]} {m} a_rs" for m in self.multiples),
            f"rsi B, rdx b_ks, r9 a_ks, rax k, {self.ahead} B to prefetch; "
            + ("k1-k4 tail masks" if v.masked else f"{', '.join(self.masks)} tail masks"),
        ]

    def rodata(self) -> list[str]:
        if self.v.masked:
            return []
        word = ".long" if self.v.size == 4 else ".quad"
        ones, zeros = (", ".join([x] * self.v.lanes) for x in ("-1", "0"))
        return [
            ".section .rodata",
            ".p2align 5",
            ".Lmask_window:",
            f"    {word} {ones}",
            f"    {word} {zeros}",
        ]

    def prologue(self) -> None:
        """Load the arguments, make the tail masks."""
        w, v = self.w, self.v
        if v.masked:
            w("mov r14, -1")
            w(f"mov r15, {self.field('n')}")
            w("bzhi r14, r14, r15")
            for j in range(self.nv):
                w(f"kmovw k{j + 1}, r14d")
                if j + 1 < self.nv:
                    w(f"shr r14, {v.lanes}")
        else:
            self.window_masks()
        w(f"mov {self.pointers[0]}, {self.field('a')}")
        w(f"mov rsi, {self.field('b')}")
        w(f"mov rdx, {self.field('b_ks')}")
        w(f"mov rcx, {self.field('a_rs')}")
        w(f"mov r9, {self.field('a_ks')}")
        for m in self.multiples[1:]:
            before = _MULTIPLES[m - 2]
            w(f"lea {_MULTIPLES[m]}, [{before} + rcx*2]")
        if len(self.pointers) > 1:
            w(f"lea {self.pointers[1]}, [{self.pointers[0]} + rcx]")
            w(f"add {self.pointers[1]}, {_MULTIPLES[13]}")
        w(f"mov {self.ahead}, {self.field('b_ahead')}")
        w(f"add {self.ahead}, rsi")

    def window_masks(self) -> None:
        """Point each vector's mask register at its window of ones followed by zeros."""
        w, v = self.w, self.v
        for j, r in enumerate(self.masks):
            # lanes of vector j: clamp(n - j * lanes, 0, lanes); rdi still holds the arguments
            w(f"mov rax, {self.field('n')}")
            if j:
                w(f"sub rax, {j * v.lanes}")
                w(f"mov {r}d, 0")
                w(f"cmovs rax, {r}")
            w(f"mov {r}d, {v.lanes}")
            w(f"cmp rax, {r}")
            w(f"cmovg rax, {r}")
            w("neg rax")
            w(f"lea {r}, .Lmask_window[rip + {v.bytes}]")
            w(f"lea {r}, [{r} + rax*{v.size}]")

    def start(self) -> None:
        """Zero the accumulators, or load them from C."""
        w, v = self.w, self.v
        self.flag("ACCUMULATE", "zero")
        w(f"mov rax, {self.field('c')}")
        self.rows_of_c(self.load)
        w("jmp .Lstarted")
        w.label("zero")
        for m in range(self.mr):
            for j in range(self.nv):
                r = m * self.nv + j
                if r < 16:
                    w(f"vxorps xmm{r}, xmm{r}, xmm{r}")
                else:
                    w(f"vpxord {v.reg(r)}, {v.reg(r)}, {v.reg(r)}")
        w.label("started")

    def rows_of_c(self, action: RowAction, stride: str = "c_rs") -> None:
        """Run `action(m, j, address, tail)` over the tile: whole rows, else masked ones."""
        w, name = self.w, f"{action.__name__}"
        w(f"cmp qword ptr {self.field('n')}, {self.kernel.nr}")
        w(f"jne .L{name}_tail")
        for tail in (False, True):
            if tail:
                w.label(f"{name}_tail")
            for m in range(self.mr):
                for j in range(self.nv):
                    action(m, j, f"[rax + {j * self.v.bytes}]", tail)
                if m + 1 < self.mr:
                    w(f"add rax, {self.field(stride)}")
            if not tail:
                w(f"jmp .L{name}_done")
        w.label(f"{name}_done")

    def masked_load(self, target: str, address: str, j: int) -> None:
        w, v = self.w, self.v
        if v.masked:
            w(f"vmovu{v.suffix} {target}{{k{j + 1}}}{{z}}, {address}")
        else:
            w(f"vmovups {target}, [{self.masks[j]}]")
            w(f"vmaskmov{v.suffix} {target}, {target}, {address}")

    def load(self, m: int, j: int, address: str, tail: bool) -> None:
        if tail:
            self.masked_load(self.acc(m, j), address, j)
        else:
            self.w(f"vmovu{self.v.suffix} {self.acc(m, j)}, {address}")

    def sum(self) -> None:
        """Run over k: whole turns where B can be read in whole vectors, then step by step."""
        w = self.w
        w(f"mov rax, {self.field('k')}")
        w(f"test dword ptr {self.field('flags')}, {FLAGS['B_PADDED']}")
        w("jnz .Lwhole")
        w(f"cmp qword ptr {self.field('n')}, {self.kernel.nr}")
        w("jne .Ltail_steps")
        w.label("whole")
        w(f"shr rax, {self.unroll.bit_length() - 1}")
        w("jz .Lrest")
        if self.b_three:
            w(f"lea {self.b_three}, [rdx + rdx*2]")
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
        w(f"mov rax, {self.field('k')}")
        w(f"and rax, {self.unroll - 1}")
        self.steps("whole_steps", tail=False)
        w("jmp .Lepilogue")
        self.steps("tail_steps", tail=True)

    def near_row(self, m: int, u: int) -> str:
        """Element (m, k + u) of A where rows are neighbours."""
        step = ("", " + r9", " + r9*2", " + r8")[u]
        return f"[{self.pointers[0]}{step} + {m * self.v.size}]"

    def near_k(self, m: int, u: int) -> str:
        """Element (m, k + u) of A where the elements of a row are neighbours."""
        pointer = self.pointers[m // ROWS_PER_POINTER]
        return _row_address(pointer, m % ROWS_PER_POINTER, u * self.v.size)

    def turns(self, name: str, address: Address) -> None:
        """Run rax turns; the first ones fetch the lines of C, a row a turn.

        All of C at once would keep the loads of B waiting.
        """
        w = self.w
        if self.c_row:
            w(f"mov {self.c_row}, {self.field('c')}")
            w("push rax")
            w(f"cmp rax, {self.mr}")
            w(f"jbe .L{name}_few")
            w(f"mov eax, {self.mr}")
            w.label(f"{name}_few")
            w("sub [rsp], rax")
            w(".p2align 5")
            w.label(f"{name}_first")
            for j in range(0, self.nv * self.v.bytes, 64):
                w(f"prefetcht0 [{self.c_row} + {j}]")
            w(f"add {self.c_row}, {self.field('c_rs')}")
            self.turn(address)
            w("dec rax")
            w(f"jnz .L{name}_first")
            w("pop rax")
            w("test rax, rax")
            w(f"jz .L{name}_end")
        w(".p2align 5")
        w.label(f"{name}_turn")
        self.turn(address)
        w("dec rax")
        w(f"jnz .L{name}_turn")
        w.label(f"{name}_end")

    def turn(self, address: Address) -> None:
        """Several steps, the pointers moved once."""
        w = self.w
        for u in range(self.unroll):
            step = ("", " + rdx", " + rdx*2", f" + {self.b_three}")[u]
            self.k_step([address(m, u) for m in range(self.mr)], step, tail=False)
        scale = {2: "*2", 4: "*4"}[self.unroll]
        w(f"lea rsi, [rsi + rdx{scale}]")
        w(f"lea {self.ahead}, [{self.ahead} + rdx{scale}]")
        for pointer in self.pointers:
            w(f"lea {pointer}, [{pointer} + r9{scale}]")

    def steps(self, name: str, *, tail: bool) -> None:
        """Run rax single steps, whatever the strides of A are."""
        w = self.w
        w.label(name)
        w("test rax, rax")
        w("jle .Lepilogue")
        w.label(f"{name}_one")
        self.k_step([self.near_k(m, 0) for m in range(self.mr)], "", tail=tail)
        w("add rsi, rdx")
        w(f"add {self.ahead}, rdx")
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
                w(f"vfmadd231{v.suffix} {self.acc(m, 0)}, {operands}")
                continue
            t = v.reg(self.temps[m % min(2, len(self.temps))])
            w(f"{v.broadcast} {t}, {row}")
            for j, r in enumerate(self.b):
                w(f"vfmadd231{v.suffix} {self.acc(m, j)}, {t}, {v.reg(r)}")

    def epilogue(self) -> None:
        """Bias, residual, clip, and the one store. B's registers are free by now."""
        w, v = self.w, self.v
        spare = [*self.b, *self.temps]
        self.flag("BIAS_ROW", "no_bias_row")
        w(f"mov rax, {self.field('bias')}")
        for m in range(self.mr):
            t = v.reg(spare[m % len(spare)])
            w(f"{v.broadcast} {t}, [rax + {m * v.size}]")
            for j in range(self.nv):
                w(f"vadd{v.suffix} {self.acc(m, j)}, {self.acc(m, j)}, {t}")
        w.label("no_bias_row")
        self.flag("BIAS_COLUMN", "no_bias_column")
        w(f"mov rax, {self.field('bias')}")
        for j in range(self.nv):
            t = v.reg(self.b[j])
            # A masked load serves the whole row too, and this is not the inner loop.
            self.masked_load(t, f"[rax + {j * v.bytes}]", j)
            for m in range(self.mr):
                w(f"vadd{v.suffix} {self.acc(m, j)}, {self.acc(m, j)}, {t}")
        w.label("no_bias_column")
        self.flag("RESIDUAL", "no_residual")
        w(f"mov rax, {self.field('residual')}")
        self.rows_of_c(self.add_residual, "residual_rs")
        w.label("no_residual")
        self.flag("CLIP", "no_clip")
        w(f"mov rax, {self.field('clip')}")
        lo, hi = (v.reg(r) for r in spare[:2])
        w(f"{v.broadcast} {lo}, [rax]")
        w(f"{v.broadcast} {hi}, [rax + {v.size}]")
        for m in range(self.mr):
            for j in range(self.nv):
                # The second source is returned when either is NaN: NaN passes through.
                w(f"vmax{v.suffix} {self.acc(m, j)}, {lo}, {self.acc(m, j)}")
                w(f"vmin{v.suffix} {self.acc(m, j)}, {hi}, {self.acc(m, j)}")
        w.label("no_clip")
        w(f"mov rax, {self.field('c')}")
        self.rows_of_c(self.store)

    def add_residual(self, m: int, j: int, address: str, tail: bool) -> None:
        w, v, a = self.w, self.v, self.acc(m, j)
        if not tail:
            w(f"vadd{v.suffix} {a}, {a}, {address}")
        elif v.masked:
            w(f"vadd{v.suffix} {a}{{k{j + 1}}}, {a}, {address}")
        else:
            t = v.reg(self.b[j])
            self.masked_load(t, address, j)
            w(f"vadd{v.suffix} {a}, {a}, {t}")

    def store(self, m: int, j: int, address: str, tail: bool) -> None:
        w, v, a = self.w, self.v, self.acc(m, j)
        if not tail:
            w(f"vmovu{v.suffix} {address}, {a}")
        elif v.masked:
            w(f"vmovu{v.suffix} {address}{{k{j + 1}}}, {a}")
        else:
            t = v.reg(self.b[j])
            w(f"vmovups {t}, [{self.masks[j]}]")
            w(f"vmaskmov{v.suffix} {address}, {t}, {a}")


def generate(kernel: Kernel) -> str:
    """Assembly text of the GEMM microkernel that `kernel` describes."""
    return _Gemm(kernel).generate()
