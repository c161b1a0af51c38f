"""Reads the machine code of kernels (sm_90a, sm_100a) from cubin files, without a disassembler."""

import dataclasses
import pathlib
import re
import struct
import subprocess

INSTRUCTION_BYTES = 16  # since Volta
NOP = 0x118


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One instruction: its address in the kernel, and its encoding."""

    address: int
    word: int  # the lower 64 of its 128 bits
    high: int  # the others

    @property
    def opcode(self) -> int:
        """What it does. The three bits above it say where the operands come from."""
        return self.word & 0x1FF

    @property
    def opcode_with_form(self) -> int:
        return self.word & 0xFFF

    @property
    def branch_target(self) -> int:
        """Where a BRA goes: a signed distance in units of four bytes, its low eight bits apart from the others."""
        high = self.word >> 34
        if high >> 29:
            high -= 1 << 30
        return self.address + INSTRUCTION_BYTES + 4 * (high << 8 | self.word >> 16 & 0xFF)


def kernel_code(cubin: bytes) -> dict[str, bytes]:
    """The machine code of each kernel: the .text.NAME sections of a 64-bit ELF file."""
    section_table, = struct.unpack_from("<Q", cubin, 0x28)
    entry_size, count, names_index = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, section_table + i * entry_size) for i in range(count)]
    names_offset = headers[names_index][4]
    code = {}
    for name, _, _, _, offset, size in headers:
        start = names_offset + name
        text = cubin[start:cubin.index(b"\0", start)].decode("ascii")
        if text.startswith(".text."):
            code[text.removeprefix(".text.")] = cubin[offset:offset + size]
    return code


def instructions(code: bytes) -> list[Instruction]:
    """The instructions of a kernel, up to the padding at its end."""
    found = [Instruction(at, *struct.unpack_from("<QQ", code, at))
             for at in range(0, len(code) // INSTRUCTION_BYTES * INSTRUCTION_BYTES, INSTRUCTION_BYTES)]
    while found and found[-1].opcode == NOP:
        found.pop()
    return found


def misnamed(disassembler: str, cubin: pathlib.Path, names: dict[int, str]) -> list[str]:
    """Opcodes that the disassembler names differently from `names`, where * stands for any letters."""
    text = subprocess.run([disassembler, "-hex", cubin], stdout=subprocess.PIPE, text=True, check=True).stdout
    pattern = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?\s*(\w+)[^;]*;\s*/\* 0x([0-9a-f]{16}) \*/", re.MULTILINE)
    found = {(name, int(word, 16) & 0x1FF) for name, word in pattern.findall(text)}
    return [f"opcode 0x{opcode:03x} is {name} and not {names[opcode]}" for name, opcode in sorted(found)
            if opcode in names and not re.fullmatch(names[opcode].replace("*", r"\w*"), name)]
