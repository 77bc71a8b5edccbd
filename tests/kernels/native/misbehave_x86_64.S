/* Functions that break one rule each, to see that the checker notices; names are rule_*. */
    .intel_syntax noprefix
    .text

.macro rule name
    .globl rule_\name
    .type rule_\name, @function
rule_\name:
.endm

rule nothing
    ret

rule clobbers_scratch /* allowed: every register that the caller must not count on */
    xor eax, eax
    xor ecx, ecx
    xor edx, edx
    xor esi, esi
    xor edi, edi
    xor r8d, r8d
    xor r9d, r9d
    xor r10d, r10d
    xor r11d, r11d
    mov [rsp - 128], rax
    pxor xmm15, xmm15
    ret

.irp r, rbx, rbp, r12, r13, r14, r15
rule \r
    inc \r
    ret
.endr

rule loses_stack
    pop rax
    sub rsp, 16
    jmp rax

rule writes_above
    mov qword ptr [rsp + 16], 0
    ret

rule sets_direction
    std
    ret

rule changes_rounding
    sub rsp, 8
    stmxcsr [rsp]
    xor dword ptr [rsp], 0x2000
    ldmxcsr [rsp]
    add rsp, 8
    ret

rule flushes_denormals
    sub rsp, 8
    stmxcsr [rsp]
    or dword ptr [rsp], 0x8040
    ldmxcsr [rsp]
    add rsp, 8
    ret

rule raises_inexact /* allowed: the exception bits say what happened */
    sub rsp, 8
    stmxcsr [rsp]
    or dword ptr [rsp], 0x3f
    ldmxcsr [rsp]
    add rsp, 8
    ret

rule leaves_mmx
    movq mm0, rax
    ret

rule leaves_x87
    fldz
    ret

rule leaves_ymm
    vaddps ymm7, ymm7, ymm7
    ret

rule cleans_ymm /* allowed */
    vaddps ymm7, ymm7, ymm7
    vzeroupper
    ret

rule is_illegal
    ud2

rule loops
    jmp rule_loops

/* The argument of the others is a structure of two pointers: an input and an output. */
rule reads_first_pointer
    mov rax, [rdi]
    mov al, [rax]
    ret

rule writes_first_pointer
    mov rax, [rdi]
    mov byte ptr [rax], 0
    ret

rule writes_arguments
    mov qword ptr [rdi], 0
    ret

    .section .note.GNU-stack, "", @progbits
