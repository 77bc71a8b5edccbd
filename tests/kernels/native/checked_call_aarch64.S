/* watched_call(kernel, args, state): call kernel(args) with every register poisoned that the
 * procedure call standard lets a caller poison, and record what it left behind. The verdict is
 * in C. x18 counts as callee-saved: some systems keep something of their own in it. */
#include "checked_call.h"

    .arch armv8-a
    .local current
    .comm current, 8, 8
    .text
    .globl watched_call
    .hidden watched_call
    .type watched_call, %function

/* x9 = what `current` holds, the state. */
.macro load_state
    adrp x9, current
    ldr x9, [x9, :lo12:current]
.endm

watched_call:
    stp x29, x30, [sp, #-176]!
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    str x18, [sp, #160]
    sub sp, sp, #(8 * ABOVE_WORDS)
    adrp x9, current
    str x2, [x9, :lo12:current]

    ldr x10, =CANARY
    mov x11, #0
1:  add x12, x10, x11
    str x12, [sp, x11, lsl #3]
    add x11, x11, #1
    cmp x11, #ABOVE_WORDS
    b.ne 1b
    mov x12, sp
    mov x11, #BELOW_WORDS
2:  str x10, [x12, #-8]!
    subs x11, x11, #1
    b.ne 2b

    mov x11, sp
    str x11, [x2, #SP_BEFORE]
    mrs x11, fpcr
    str x11, [x2, #FPCR_BEFORE]

    /* All ones: a NaN in every lane, so an accumulator that is not cleared shows. */
    .irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movi v\r\().16b, #0xff
    .endr
    .irp r, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    movi v\r\().16b, #0xff
    .endr

    mov x16, x0
    mov x0, x1
    ldr x11, =SAVED_POISON
    .irp r, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29
    add x\r, x11, #(\r - 18)
    .endr
    /* The lower halves alone are the caller's; the upper ones stay all ones. */
    .irp r, 8, 9, 10, 11, 12, 13, 14, 15
    add x12, x11, #(12 + \r - 8)
    mov v\r\().d[0], x12
    .endr
    .irp r, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 17
    mov x\r, x10
    .endr
    blr x16

    load_state
    mov x10, sp
    str x10, [x9, #SP_AFTER]
    ldr x10, [x9, #SP_BEFORE]
    mov sp, x10
    add x10, x9, #SAVED_AFTER
    stp x18, x19, [x10]
    stp x20, x21, [x10, #16]
    stp x22, x23, [x10, #32]
    stp x24, x25, [x10, #48]
    stp x26, x27, [x10, #64]
    stp x28, x29, [x10, #80]
    stp d8, d9, [x10, #96]
    stp d10, d11, [x10, #112]
    stp d12, d13, [x10, #128]
    stp d14, d15, [x10, #144]
    mrs x10, fpcr
    str x10, [x9, #FPCR_AFTER]
    ldr x10, [x9, #FPCR_BEFORE]
    msr fpcr, x10

    add x12, x9, #ABOVE
    mov x11, #0
3:  ldr x10, [sp, x11, lsl #3]
    str x10, [x12, x11, lsl #3]
    add x11, x11, #1
    cmp x11, #ABOVE_WORDS
    b.ne 3b

    add sp, sp, #(8 * ABOVE_WORDS)
    ldr x18, [sp, #160]
    ldp d14, d15, [sp, #144]
    ldp d12, d13, [sp, #128]
    ldp d10, d11, [sp, #112]
    ldp d8, d9, [sp, #96]
    ldp x27, x28, [sp, #80]
    ldp x25, x26, [sp, #64]
    ldp x23, x24, [sp, #48]
    ldp x21, x22, [sp, #32]
    ldp x19, x20, [sp, #16]
    ldp x29, x30, [sp], #176
    ret
    .size watched_call, . - watched_call
    .ltorg
    .section .note.GNU-stack, "", %progbits
