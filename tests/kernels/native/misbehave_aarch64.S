/* Functions that break one rule each, to see that the checker notices; names are rule_*. */
    .arch armv8-a
    .text

.macro rule name
    .globl rule_\name
    .type rule_\name, %function
rule_\name:
.endm

rule nothing
    ret

rule clobbers_scratch /* allowed: every register that the caller must not count on */
    .irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17
    mov x\r, #0
    .endr
    .irp r, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    movi v\r\().16b, #0
    .endr
    cmp x0, #0
    str x0, [sp, #-128]
    ret

rule clobbers_upper_halves /* allowed: of v8 to v15 the lower halves alone are the caller's */
    .irp r, 8, 9, 10, 11, 12, 13, 14, 15
    mov v\r\().d[1], xzr
    .endr
    ret

.irp r, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29
rule x\r
    add x\r, x\r, #1
    ret
.endr

.irp r, 8, 9, 10, 11, 12, 13, 14, 15
rule d\r
    movi v\r\().16b, #0
    ret
.endr

rule loses_stack
    sub sp, sp, #16
    ret

rule writes_above
    str xzr, [sp, #16]
    ret

rule changes_rounding
    mrs x0, fpcr
    eor x0, x0, #0x400000
    msr fpcr, x0
    ret

rule flushes_denormals
    mrs x0, fpcr
    orr x0, x0, #0x1000000
    msr fpcr, x0
    ret

rule raises_inexact /* allowed: the exception bits say what happened */
    mov x0, #0x1f
    msr fpsr, x0
    ret

rule is_illegal
    udf #0

rule loops
    b rule_loops

/* The argument of the others is a structure of two pointers: an input and an output. */
rule reads_first_pointer
    ldr x0, [x0]
    ldrb w0, [x0]
    ret

rule writes_first_pointer
    ldr x0, [x0]
    strb wzr, [x0]
    ret

rule writes_arguments
    str xzr, [x0]
    ret

    .section .note.GNU-stack, "", %progbits
