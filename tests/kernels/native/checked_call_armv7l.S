/* watched_call(kernel, args, state): call kernel(args) with every register poisoned that the
 * procedure call standard lets a caller poison, and record what it left behind. The verdict is
 * in C. */
#include "checked_call.h"

    .syntax unified
    .arch armv7-a
    .fpu neon
    .arm
    .local current
    .comm current, 4, 4
    .text
    .globl watched_call
    .hidden watched_call
    .type watched_call, %function

/* register = the address of `current`, which holds the state; code may lie anywhere. */
.macro place_of_current register
    ldr \register, 8f
9:  add \register, pc, \register
    b 7f
8:  .word current - (9b + 8)
7:
.endm

watched_call:
    push {r4-r11, lr}
    sub sp, sp, #4
    vpush {d8-d15}
    sub sp, sp, #(8 * ABOVE_WORDS)
    place_of_current r3
    str r2, [r3]

    movw r4, #(CANARY_LOW & 0xffff)
    movt r4, #(CANARY_LOW >> 16)
    movw r5, #(CANARY_HIGH & 0xffff)
    movt r5, #(CANARY_HIGH >> 16)
    mov r6, #0
1:  add r7, r4, r6
    add r8, sp, r6, lsl #3
    str r7, [r8]
    str r5, [r8, #4]
    add r6, r6, #1
    cmp r6, #ABOVE_WORDS
    bne 1b
    mov r8, sp
    mov r6, #BELOW_WORDS
2:  str r5, [r8, #-4]!
    str r4, [r8, #-4]!
    subs r6, r6, #1
    bne 2b

    mov r6, sp
    str r6, [r2, #SP_BEFORE]
    vmrs r6, fpscr
    str r6, [r2, #FPSCR_BEFORE]

    mov r12, r0
    mov r0, r1
    movw r3, #(SAVED_POISON & 0xffff)
    movt r3, #(SAVED_POISON >> 16)
    /* All ones: a NaN in every lane, so an accumulator that is not cleared shows. */
    .irp r, 0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15
    vmov.i8 q\r, #0xff
    .endr
    .irp r, 8, 9, 10, 11, 12, 13, 14, 15
    add r1, r3, #\r
    vmov d\r, r1, r1
    .endr
    .irp r, 4, 5, 6, 7, 8, 9, 10, 11
    add r\r, r3, #(\r - 4)
    .endr
    mov r1, r3
    mov r2, r3
    mov lr, r3
    blx r12

    place_of_current r12
    ldr r12, [r12]
    mov r0, sp
    str r0, [r12, #SP_AFTER]
    ldr r0, [r12, #SP_BEFORE]
    mov sp, r0
    add r0, r12, #SAVED_AFTER
    stmia r0!, {r4-r11}
    vstmia r0!, {d8-d15}
    vmrs r1, fpscr
    str r1, [r12, #FPSCR_AFTER]
    ldr r1, [r12, #FPSCR_BEFORE]
    vmsr fpscr, r1

    add r0, r12, #ABOVE
    mov r1, sp
    mov r2, #(2 * ABOVE_WORDS)
3:  ldr r3, [r1], #4
    str r3, [r0], #4
    subs r2, r2, #1
    bne 3b

    add sp, sp, #(8 * ABOVE_WORDS)
    vpop {d8-d15}
    add sp, sp, #4
    pop {r4-r11, pc}
    .size watched_call, . - watched_call
    .section .note.GNU-stack, "", %progbits
