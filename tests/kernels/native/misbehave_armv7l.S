/* Functions that break one rule each, to see that the checker notices; names are rule_*. */
    .syntax unified
    .arch armv7-a
    .fpu neon
    .arm
    .text

.macro rule name
    .globl rule_\name
    .type rule_\name, %function
rule_\name:
.endm

rule nothing
    bx lr

rule clobbers_scratch /* allowed: every register that the caller must not count on */
    .irp r, 0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15
    vmov.i32 q\r, #0
    .endr
    .irp r, 0, 1, 2, 3, 12
    mov r\r, #0
    .endr
    cmp r0, #0
    str r0, [sp, #-128]
    bx lr

.irp r, 4, 5, 6, 7, 8, 9, 10, 11
rule r\r
    add r\r, r\r, #1
    bx lr
.endr

.irp r, 8, 9, 10, 11, 12, 13, 14, 15
rule d\r
    vmov.i32 d\r, #0
    bx lr
.endr

rule loses_stack
    sub sp, sp, #16
    bx lr

rule writes_above
    mov r0, #0
    str r0, [sp, #16]
    bx lr

rule changes_rounding
    vmrs r0, fpscr
    eor r0, r0, #0x400000
    vmsr fpscr, r0
    bx lr

rule flushes_denormals
    vmrs r0, fpscr
    orr r0, r0, #0x1000000
    vmsr fpscr, r0
    bx lr

rule raises_inexact /* allowed: flags of comparisons and exceptions say what happened */
    vmrs r0, fpscr
    orr r0, r0, #0xf0000000
    orr r0, r0, #0x1f
    vmsr fpscr, r0
    bx lr

rule is_illegal
    udf #0

rule loops
    b rule_loops

/* The argument of the others is a structure of two pointers: an input and an output. */
rule reads_first_pointer
    ldr r0, [r0]
    ldrb r0, [r0]
    bx lr

rule writes_first_pointer
    ldr r0, [r0]
    mov r1, #0
    strb r1, [r0]
    bx lr

rule writes_arguments
    mov r1, #0
    str r1, [r0]
    bx lr

    .section .note.GNU-stack, "", %progbits
