// Further names for a function of any signature: a jump that leaves arguments and result alone.
#pragma once

#if defined(__x86_64__)
#define STAGECRAFT_JUMP_TO(target) "jmp " #target "@PLT"
#define STAGECRAFT_JUMP_THROUGH(slot) "jmp *" #slot "(%rip)"
#elif defined(__aarch64__)
#define STAGECRAFT_JUMP_TO(target) "b " #target
#define STAGECRAFT_JUMP_THROUGH(slot) "adrp x16, " #slot "\n ldr x16, [x16, :lo12:" #slot "]\n br x16"
#else
#error "jumps are written for x86-64 and AArch64 only"
#endif

/// Defines the global function `name` as one jump.
#define STAGECRAFT_DEFINE_JUMP(name, jump)                                                                    \
  asm(".pushsection .text\n.globl " #name "\n.type " #name ", %function\n" #name ":\n " jump "\n.size " #name \
      ", . - " #name "\n.popsection")
