/* Definitions that the assembly and the C half of the checked call share. */
#ifndef CHECKED_CALL_H
#define CHECKED_CALL_H

#define ABOVE_WORDS 32  /* canary words on the stack above the kernel's return address */
#define BELOW_WORDS 512 /* words of garbage below it: what the kernel finds in its own frame */
#define CANARY 0x5ca1ab1e0ddba115

/* Offsets in struct call_state, and what callee-saved registers hold before the call. */
#if defined(__x86_64__)

#define LEVEL 0 /* 0: SSE2; 1: poison and watch ymm; 2: zmm */
#define SP_BEFORE 8
#define SP_AFTER 16
#define SAVED_AFTER 24 /* rbx rbp r12 r13 r14 r15 */
#define FLAGS_AFTER 72
#define MXCSR_BEFORE 80
#define MXCSR_AFTER 84
#define X87_BEFORE 88 /* fnstenv, 28 bytes */
#define X87_AFTER 120
#define ABOVE 152
#define VECTORS 408 /* 16 registers of 64 bytes */

#define RBX_POISON 0x0b0b1b1b2b2b3b3b
#define RBP_POISON 0x0505151525253535
#define R12_POISON 0x1212a2a2b2b2c2c2
#define R13_POISON 0x1313a3a3b3b3c3c3
#define R14_POISON 0x1414a4a4b4b4c4c4
#define R15_POISON 0x1515a5a5b5b5c5c5

#elif defined(__aarch64__)

#define SP_BEFORE 0
#define SP_AFTER 8
#define SAVED_AFTER 16 /* x18 to x29, then d8 to d15 */
#define FPCR_BEFORE 176
#define FPCR_AFTER 184
#define ABOVE 192

#define SAVED_WORDS 20
#define SAVED_POISON 0x1818a8a8b8b8c8c8 /* one more from register to register */

#elif defined(__arm__)

#define SP_BEFORE 0
#define SP_AFTER 4
#define SAVED_AFTER 8 /* r4 to r11, of four bytes, then d8 to d15 */
#define FPSCR_BEFORE 104
#define FPSCR_AFTER 108
#define ABOVE 112

#define SAVED_WORDS 16
#define CORE_REGISTERS 8
#define CANARY_LOW 0x0ddba115
#define CANARY_HIGH 0x5ca1ab1e
#define SAVED_POISON 0x1818a8a8 /* one more a register, in each half of d8 to d15 */

#endif

#endif
