#!/usr/bin/env python3
"""Tests what counts as an edit of kernels alone, and what is then compiled (common/tools/device_edit.py)."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True  # leave no cache folder among the sources
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "common/tools"))
from device_edit import command_for_ptx, edited_kernels, host_part  # noqa: E402

KERNEL = """#include "size.hpp"
__global__ void add(int* p, int n) {
  int sum = n;  // a comment
  for (int i = 0; i < kSize; ++i) { sum += i; }
  *p = sum;
}
void launch(int* p) { add<<<1, 32>>>(p, 3); }
"""


class HostPartTest(unittest.TestCase):
    def check_same(self, text: str, *edits: tuple[str, str]):
        for old, new in edits:
            self.assertIn(old, text)
            self.assertEqual(host_part(text), host_part(text.replace(old, new)), new)

    def check_other(self, text: str, *edits: tuple[str, str]):
        for old, new in edits:
            self.assertIn(old, text)
            self.assertNotEqual(host_part(text), host_part(text.replace(old, new)), new)

    def test_a_body_that_the_device_alone_executes_is_no_part_of_the_hosts(self):
        self.check_same(KERNEL, ("sum = n;", "sum = n + 1;"), ("// a comment", ""), ("{ sum += i; }", "{ if (i) { sum = '}'; } }"),
                        ("  *p = sum;\n", '\n\n  printf("}{", *p /* { */ = sum);\n'))
        member = "namespace a {\ntemplate <class T, int (*F)()> struct S {\n  __device__ S() : x(0) { x = 1; }\n" \
                 "  __device__ T f(float (*p)[4]) const { return 1; }\n};\n}\n"
        self.check_same(member, ("x = 1", "x = 2"), ("return 1", "return 2"))

    def test_what_the_host_may_see_is_a_part_of_the_hosts(self):
        self.check_other(KERNEL, ("3);", "4);"), ("int n)", "long n)"), ("__global__", "__global__ __launch_bounds__(32)"), ("<1, 32>", "<2, 32>"),
                         ("size.hpp", "other.hpp"), ("void launch", "int x = 1;\nvoid launch"))
        for head in ("__host__ __device__ int f()", "int f()", "__device__ auto f()", "__device__ constexpr int f()",
                     "__device__ int table[] =", "void g() { h([=] __device__ (int i)"):
            self.check_other(f"{head} {{ return 1; }} {'); }' if '[=]' in head else ''}", ("1", "2"))
        for line in ("#define A 1", "static int a;", "__constant__ int a;", 'auto a = R"(1)";'):
            self.check_other(f"__device__ void f() {{\n{line}\n}}", (line, line.replace("1", "2").replace("int", "long")))

    def test_lines_count_where_the_host_may_name_them(self):
        for call in ("assert(p);", "CHECK(p);", "log(p, __LINE__);", "log(p, std::source_location::current());"):
            self.check_other(KERNEL.replace("{ add", f"{{ {call} add"), ("sum = n;", "sum = n;\n"))

    def test_braces_that_do_not_match_make_all_of_the_text_the_hosts(self):
        self.check_other(KERNEL + "}", ("sum = n;", "sum = n + 1;"))
        self.check_other(KERNEL + "{", ("sum = n;", "sum = n + 1;"))


class EditedKernelsTest(unittest.TestCase):
    """With a compiler that prints given PTX."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name)
        self.source, self.header, self.program = (self.build / name for name in ("a.cu", "library.hpp", "a"))
        self.header.touch()
        self.source.write_text(KERNEL, encoding="utf-8")
        self.program.touch()
        self.record = self.build / "progress/a.built"
        self.record.parent.mkdir()
        self.compile_to(".visible .entry add()")
        ninja = self.build / "ninja"
        ninja.write_text("#!/bin/sh\necho ninja: no work to do.\n", encoding="utf-8")
        ninja.chmod(0o755)
        variables = unittest.mock.patch.dict(os.environ, NINJA=str(ninja))
        variables.start()
        self.addCleanup(variables.stop)

    def compile_to(self, ptx: str, status: int = 0):
        compiler = ["sh", "-c", f"echo '{ptx}' >$2; echo said; exit {status}", "sh"]
        self.record.write_text(json.dumps([self.program.stat().st_mtime_ns, {str(self.source): KERNEL},
                                           {str(self.source): compiler}, {str(self.source): [str(self.source), str(self.header)]}]),
                               encoding="utf-8")

    def edit(self, old: str, new: str):
        self.source.write_text(KERNEL.replace(old, new), encoding="utf-8")

    def kernels(self):
        return edited_kernels(self.record, self.program, [self.source])

    def test_an_edited_body_is_compiled(self):
        self.edit("sum = n", "sum = 2 * n")
        self.assertIn(".entry add", pathlib.Path(self.kernels()).read_text(encoding="utf-8"))

    def test_what_else_has_changed_is_built(self):
        self.assertIsNone(self.kernels(), "nothing has changed")
        self.edit("<<<1, 32>>>", "<<<1, 64>>>")
        self.assertIsNone(self.kernels(), "the host's code has changed")
        self.edit("sum = n", "sum = 2 * n")
        os.utime(self.header, ns=(self.program.stat().st_mtime_ns + 1,) * 2)
        self.assertIsNone(self.kernels(), "a header has changed")

    def test_another_program_than_was_recorded_is_built(self):
        self.edit("sum = n", "sum = 2 * n")
        os.utime(self.program, ns=(1, 1))
        self.assertIsNone(self.kernels())

    def test_a_function_that_nobody_defines_is_left_to_the_build(self):
        self.compile_to(".extern .func stage_handle_dropped_without_release\n();")
        self.edit("sum = n", "sum = 2 * n")
        self.assertIsNone(self.kernels())
        self.compile_to(".extern .func (.param .b32 func_retval0) vprintf\n(")
        self.assertIsNotNone(self.kernels())

    def test_what_the_compiler_refuses_raises(self):
        self.compile_to("", status=1)
        self.edit("sum = n", "nothing")
        with self.assertRaises(subprocess.CalledProcessError):
            self.kernels()


class CommandTest(unittest.TestCase):
    def test_the_command_makes_ptx_of_the_same_source(self):
        command = "nvcc -O1 -Xptxas -v -Ia -gencode arch=compute_90a,code=[sm_90a,compute_90a] -MD -MF d -MT o -c a.cu -o a.o"
        self.assertEqual(command_for_ptx(command.split()), "nvcc -O1 -Ia -arch=compute_90a a.cu -ptx".split())


if __name__ == "__main__":
    unittest.main()
