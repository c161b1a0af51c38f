#!/usr/bin/env python3
"""What check_opcodes.py finds, and what it lets pass."""

import unittest

from check_opcodes import problems_in, registered_opcodes

OPCODES = {"bra", "brx", "st", "add", "mbarrier"}


class Opcodes(unittest.TestCase):
    def find(self, text: str, name: str = "checks/race/a.cpp") -> int:
        return len(problems_in(name, text, OPCODES))

    def test_reads_what_is_registered(self):
        text = 'set.add("bar.warp", t, k, c);\nset.add(\n  "suld", [](T& t) {});\nadd_both<V::add>(set, nullptr, "vadd2", "vadd4");'
        self.assertEqual(registered_opcodes({"a.cpp": text}), {"bar", "suld", "vadd2", "vadd4"})

    def test_finds_an_opcode_that_is_read(self):
        self.assertEqual(self.find('if (instruction.opcode == "bra") return;'), 2)
        self.assertEqual(self.find("const std::string_view name = instruction.opcode;"), 1)
        self.assertEqual(self.find("if (is_one_of(instruction->opcode, names)) return;"), 1)

    def test_finds_printed_text_that_is_searched(self):
        self.assertEqual(self.find('if (kernel.describe_instruction(pc).starts_with("mbarrier.arrive")) return;'), 1)
        self.assertEqual(self.find('if (what.find("st") == 0) return;', "trace/a.cpp"), 1)
        self.assertEqual(self.find('x = what.starts_with("mbarrier.test_wait");', "engines/a.cpp"), 1)

    def test_finds_lists_of_opcodes(self):
        self.assertEqual(self.find('for (const char* each : {"bra",\n "brx"}) look(each);'), 1)

    def test_lets_messages_assignments_modifiers_and_the_grammar_pass(self):
        self.assertEqual(self.find('t.unsupported(fmt::format("{} needs .rn", t.instruction.opcode));'), 0)
        self.assertEqual(self.find('fused.opcode = "bra";'), 0)
        self.assertEqual(self.find('if (kind == "add") return; take({"add", "st"});', "engines/a.cpp"), 0)
        self.assertEqual(self.find('if (instruction.opcode == "bra") return;', "ptx/parser.cpp"), 0)
        self.assertEqual(self.find('note("mbarrier.arrive");  // not .opcode == "bra"'), 0)


if __name__ == "__main__":
    unittest.main()
