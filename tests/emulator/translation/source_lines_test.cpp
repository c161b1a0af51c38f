// The lines of the source that reports name.
#include <gtest/gtest.h>

#include <string>

#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::machine {
namespace {

class SourceLinesTest : public KernelTest {
 protected:
  /// The place of the instruction that has this opcode.
  static std::string line_of(const Kernel& kernel, const std::string& opcode) {
    for (uint32_t pc = 0; pc < kernel.code.size(); ++pc) {
      if (kernel.describe_instruction(pc).starts_with(opcode)) return kernel.describe_source(pc);
    }
    return "no " + opcode;
  }
  static constexpr const char* kFiles =
      ".file 1 \"/src/device_kernel.h\"\n.file 2 \"/src/gemm.hpp\"\n.file 3 \"/src/barrier.h\"\n"
      ".section .debug_str {\nname:\n.b8 102,0\n}\n";
};

TEST_F(SourceLinesTest, NamesTheKernelsOwnFileFirst) {
  const Kernel& kernel =
      compile(std::string(".visible .entry k() { .reg .b32 %r<4>;\n"
                          ".loc 1 10 3\n mov.u32 %r0, 1;\n"
                          ".loc 2 40 3, function_name name, inlined_at 1 11 3\n add.u32 %r1, %r0, 1;\n"
                          ".loc 2 41 3, function_name name, inlined_at 1 12 3\n mul.lo.u32 %r2, %r1, 3;\n"
                          ".loc 1 13 3\n ret; }\n") +
              kFiles);
  EXPECT_EQ(kernel.own_file, "/src/device_kernel.h");
  EXPECT_EQ(line_of(kernel, "mul"), "device_kernel.h:12 (gemm.hpp:41)");
}

// The kernels of CUTLASS are all `op(params, smem)`, in one line of device_kernel.h.
TEST_F(SourceLinesTest, NamesTheFileOfTheOneFunctionThatAKernelCalls) {
  std::string body;
  for (int line = 40; line < 60; ++line) {
    body += fmt::format(".loc 2 {0} 3, function_name name, inlined_at 1 11 3\n add.u32 %r1, %r0, {0};\n", line);
  }
  // A function of a third file, called twice from there.
  body +=
      ".loc 2 70 3, function_name name, inlined_at 1 11 3\n mov.u32 %r2, 0;\n"
      ".loc 3 5 3, function_name name, inlined_at 2 70 3\n mul.lo.u32 %r2, %r1, 3;\n"
      ".loc 2 80 3, function_name name, inlined_at 1 11 3\n mov.u32 %r2, 0;\n"
      ".loc 3 5 3, function_name name, inlined_at 2 80 3\n xor.b32 %r2, %r1, 3;\n";
  const Kernel& kernel = compile(".visible .entry k() { .reg .b32 %r<4>;\n.loc 1 10 3\n mov.u32 %r0, 1;\n" + body +
                                 ".loc 1 12 1\n ret; }\n" + kFiles);
  EXPECT_EQ(kernel.own_file, "/src/gemm.hpp");
  EXPECT_EQ(line_of(kernel, "mul"), "gemm.hpp:70 (barrier.h:5)");
  EXPECT_EQ(line_of(kernel, "xor"), "gemm.hpp:80 (barrier.h:5)");
  EXPECT_EQ(line_of(kernel, "ret"), "device_kernel.h:12");
}

TEST_F(SourceLinesTest, AreNamedByARefusal) {
  const auto refusal = [&](const std::string& line) -> std::string {
    try {
      compile(".visible .entry k() { .reg .b32 %r<4>;\n" + line + " tcgen05.shift.cta_group::1.down [%r0];\n ret; }\n" +
              kFiles);
    } catch (const ptx::Error& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_TRUE(refusal(".loc 2 41 3, function_name name, inlined_at 1 12 3\n")
                  .starts_with("gemm.hpp:41, in the PTX line 6, column 2: `tcgen05.shift"));
  EXPECT_TRUE(refusal("").starts_with("line 5, column 2: `tcgen05.shift"));
}

TEST_F(SourceLinesTest, KnowsNoFileWithoutLines) {
  const Kernel& kernel = compile(".visible .entry k() { ret; }");
  EXPECT_EQ(kernel.own_file, "");
  EXPECT_EQ(line_of(kernel, "ret"), "");
}

}  // namespace
}  // namespace stagecraft::emulator::machine
