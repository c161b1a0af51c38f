// wmma: strides, registers that are used twice, refusals. tests/conformance/wmma.cu compares the rest with the chip.
#include <fmt/format.h>

#include <bit>
#include <string>

#include "emulator/ptx/diagnostics.hpp"
#include "fixtures/kernel_run.hpp"
#include "fixtures/tensor_fixture.hpp"

namespace stagecraft::emulator::machine::testing {
namespace {

constexpr uint32_t kLanes = 32;

std::string registers(uint32_t first, uint32_t count) {
  std::string text = "{";
  for (uint32_t i = 0; i < count; ++i) text += fmt::format("{}%r{}", i == 0 ? "" : ", ", first + i);
  return text + "}";
}

TEST(Wmma, LoadsWithAStrideAndWithoutOne) {
  // 16x16 words; a row has 40 or, without a stride, 16.
  for (const uint32_t stride : {40u, 16u}) {
    KernelRun run;
    std::vector<uint32_t> words(16 * 40);
    for (uint32_t i = 0; i < words.size(); ++i) words[i] = i;
    const std::string operand = stride == 16 ? "" : fmt::format(", {}", stride);
    expect_success(run.run(fmt::format("wmma.load.c.sync.aligned.row.m16n16k16.global.s32 {}, [%rd1]{};\n"
                                       "wmma.store.d.sync.aligned.col.m16n16k16.global.s32 [%rd0], {};",
                                       registers(0, 8), operand, registers(0, 8)),
                           {run.upload(words)}, {.threads = kLanes}));
    for (uint32_t row = 0; row < 16; ++row) {
      for (uint32_t column = 0; column < 16; ++column) EXPECT_EQ(run.out()[column * 16 + row], row * stride + column);
    }
  }
}

TEST(Wmma, ReadsAllThatItMultipliesBeforeItWritesD) {
  // D has the registers of C in reverse, and two of A: the second tile must not read what the first one wrote. All
  // elements of A and B are 1 and C counts its registers, so D is 16 more than C.
  KernelRun run;
  std::string body = "mov.u32 %r60, %tid.x;\nmul.wide.u32 %rd60, %r60, 4;\nadd.s64 %rd61, %rd0, %rd60;\n";
  for (uint32_t i = 0; i < 8; ++i) body += fmt::format("mov.u32 %r{}, {};\n", i, 100 * (i + 1));
  for (uint32_t i = 8; i < 12; ++i) body += fmt::format("mov.u32 %r{}, 0x01010101;\n", i);
  body += fmt::format("wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32 {}, {}, {}, {};\n",
                      "{%r8, %r9, %r5, %r4, %r3, %r2, %r1, %r0}", registers(8, 2), registers(10, 2), registers(0, 8));
  constexpr uint32_t kResults[] = {8, 9, 5, 4, 3, 2, 1, 0};
  for (uint32_t i = 0; i < 8; ++i) body += fmt::format("st.global.b32 [%rd61+{}], %r{};\n", 128 * i, kResults[i]);
  expect_success(run.run(body, {}, {.threads = kLanes}));
  for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(run.out()[32 * i + 7], 100 * (i + 1) + 16) << i;
}

TEST(Wmma, MixesTheTypesOfCAndD) {
  // Ones of f16: D in f32 is 16 more than C in f16, which is 2.
  KernelRun run;
  std::string body = "mov.u32 %r60, %tid.x;\nmul.wide.u32 %rd60, %r60, 4;\nadd.s64 %rd61, %rd0, %rd60;\n";
  for (uint32_t i = 0; i < 16; ++i) body += fmt::format("mov.u32 %r{}, 0x3c003c00;\n", i);
  for (uint32_t i = 16; i < 20; ++i) body += fmt::format("mov.u32 %r{}, 0x40004000;\n", i);
  body += fmt::format("wmma.mma.sync.aligned.row.col.m32n8k16.f32.f16 {}, {}, {}, {};\n", registers(24, 8),
                      registers(0, 8), registers(8, 8), registers(16, 4));
  for (uint32_t i = 0; i < 8; ++i) body += fmt::format("st.global.b32 [%rd61+{}], %r{};\n", 128 * i, 24 + i);
  expect_success(run.run(body, {}, {.threads = kLanes}));
  for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(std::bit_cast<float>(run.out()[32 * i + 31]), 18.0f) << i;
}

TEST(Wmma, RefusesWhatDoesNotExist) {
  const auto expect = [&](const std::string& instruction, const std::string& words) {
    KernelRun run;
    std::string found = "accepted";
    try {
      run.run(instruction, {}, {.threads = kLanes});
    } catch (const std::exception& error) {
      found = error.what();
    }
    EXPECT_NE(found.find(words), std::string::npos) << instruction << ": " << found;
  };
  expect("wmma.load.a.sync.aligned.row.m16n16k8.f16 {%r0, %r1}, [%rd0];", "does not exist for .f16");
  expect("wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r0, %r1}, [%rd0];", "has 2 registers, and needs 8");
  expect("wmma.load.a.sync.aligned.col.m8n8k32.s4 %r0, [%rd0];", "A of .row and B of .col");
  expect("wmma.load.c.sync.aligned.row.m8n8k32.f32 {%r0, %r1}, [%rd0];", "no sums of .f32 in shape .m8n8k32");
  expect("wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.u4.s32 {%r0, %r1}, %r2, %r3, {%r0, %r1};", "same type");
  expect("wmma.mma.sync.aligned.row.col.m8n8k32.f32.s4.s4.s32 {%r0, %r1}, %r2, %r3, {%r0, %r1};", "do not exist");
}

TEST(Wmma, NeedsTheWholeWarp) {
  KernelRun run;
  const auto result = run.run("wmma.load.c.sync.aligned.row.m8n8k32.s32 {%r0, %r1}, [%rd0];", {}, {.threads = 16});
  expect_fault(result, machine::FaultKind::illegal_instruction, "16 of 32 threads");
}

}  // namespace
}  // namespace stagecraft::emulator::machine::testing
