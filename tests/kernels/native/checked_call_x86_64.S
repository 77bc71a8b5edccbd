/* watched_call(kernel, args, state): call kernel(args) with every register poisoned that the
 * System V ABI lets a caller poison, and record what it left behind. The verdict is in C. */
#include "checked_call.h"

    .intel_syntax noprefix
    .local current
    .comm current, 8, 8
    .text
    .globl watched_call
    .hidden watched_call
    .type watched_call, @function
watched_call:
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    push rdx
    sub rsp, 8 * ABOVE_WORDS
    mov [rip + current], rdx

    movabs rax, CANARY
    xor ecx, ecx
1:  lea r8, [rax + rcx]
    mov [rsp + 8 * rcx], r8
    inc rcx
    cmp rcx, ABOVE_WORDS
    jne 1b
    mov rcx, -BELOW_WORDS
2:  mov [rsp + 8 * rcx], rax
    inc rcx
    jnz 2b

    mov [rdx + SP_BEFORE], rsp
    stmxcsr [rdx + MXCSR_BEFORE]
    fnstenv [rdx + X87_BEFORE]
    fldenv [rdx + X87_BEFORE] /* fnstenv masks the exceptions */

    /* All ones: a NaN in every lane, so an accumulator that is not cleared shows. */
    cmp qword ptr [rdx + LEVEL], 1
    je 4f
    ja 5f
    .irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    pcmpeqd xmm\r, xmm\r
    .endr
    jmp 6f
4:  vpcmpeqd xmm0, xmm0, xmm0
    vinsertf128 ymm0, ymm0, xmm0, 1
    .irp r, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vmovaps ymm\r, ymm0
    .endr
    jmp 6f
5:  .irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vpternlogd zmm\r, zmm\r, zmm\r, 0xff
    .endr
    .irp r, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    vpternlogd zmm\r, zmm\r, zmm\r, 0xff
    .endr
    .irp r, 1, 2, 3, 4, 5, 6, 7
    kmovq k\r, rax
    .endr

6:  mov r11, rdi
    mov rdi, rsi
    movabs rbx, RBX_POISON
    movabs rbp, RBP_POISON
    movabs r12, R12_POISON
    movabs r13, R13_POISON
    movabs r14, R14_POISON
    movabs r15, R15_POISON
    mov rcx, rax
    mov rdx, rax
    mov rsi, rax
    mov r8, rax
    mov r9, rax
    mov r10, rax
    call r11

    mov rcx, [rip + current]
    mov [rcx + SP_AFTER], rsp
    mov rsp, [rcx + SP_BEFORE]
    pushfq
    pop rax
    mov [rcx + FLAGS_AFTER], rax
    cld
    mov [rcx + SAVED_AFTER], rbx
    mov [rcx + SAVED_AFTER + 8], rbp
    mov [rcx + SAVED_AFTER + 16], r12
    mov [rcx + SAVED_AFTER + 24], r13
    mov [rcx + SAVED_AFTER + 32], r14
    mov [rcx + SAVED_AFTER + 40], r15
    stmxcsr [rcx + MXCSR_AFTER]
    fnstenv [rcx + X87_AFTER]
    ldmxcsr [rcx + MXCSR_BEFORE]
    fldenv [rcx + X87_BEFORE]

    cmp qword ptr [rcx + LEVEL], 1
    jb 9f
    ja 8f
    .irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vmovups [rcx + VECTORS + 64 * \r], ymm\r
    .endr
    vzeroupper
    jmp 9f
8:  .irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vmovups [rcx + VECTORS + 64 * \r], zmm\r
    .endr
    vzeroupper

9:  xor edx, edx
3:  mov rax, [rsp + 8 * rdx]
    mov [rcx + ABOVE + 8 * rdx], rax
    inc rdx
    cmp rdx, ABOVE_WORDS
    jne 3b

    add rsp, 8 * ABOVE_WORDS
    pop rdx
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    ret
    .size watched_call, . - watched_call
    .section .note.GNU-stack, "", @progbits
