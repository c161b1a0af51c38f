// When wgmma reads and writes: groups, waits, accumulators that are accessed too early; and mistakes that are reported.
#include <algorithm>
#include <vector>

#include "emulator/checks/checks.hpp"
#include "wgmma_fixture.hpp"

namespace stagecraft::emulator::machine::testing {
namespace {

// In all of these, A is 64 x 16 and B 8 x 16, bf16, all elements alike, so that D grows by 16 * a * b.
constexpr uint32_t kBf16One = 0x3f80, kBf16Two = 0x4000;
const uint64_t kDescriptorA = shared_descriptor(kTileStart, 128, 256, 0) & 0x3fffffffffff;
const uint64_t kDescriptorB = shared_descriptor(kTileStart + 4096, 128, 256, 0) & 0x3fffffffffff;

std::string start(uint32_t b_element = kBf16One) {
  std::string text = fmt::format(R"(
    .reg .b32 %d<8>;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, tile;
    mul.wide.u32 %rd12, %r0, 4;
    add.s64 %rd13, %rd0, %rd12;
    shl.b32 %r2, %r0, 2;
    add.u32 %r3, %r1, %r2;
    mov.b32 %r4, {};
    mov.b32 %r5, {};
  )",
                                 kBf16One * 0x10001, b_element * 0x10001);
  for (uint32_t i = 0; i < 4; ++i) text += fmt::format("st.shared.b32 [%r3+{}], %r4;\n", 512 * i);
  text += "st.shared.b32 [%r3+4096], %r5;\nfence.proxy.async;\nbar.sync 0;\n";
  for (uint32_t i = 0; i < 8; ++i) text += fmt::format("mov.b32 %d{}, 0;\n", i);
  text += fmt::format("mov.b64 %rd20, {};\nmov.b64 %rd21, {};\n", kDescriptorA, kDescriptorB);
  return text + "wgmma.fence.sync.aligned;\n";
}
std::string multiply(uint32_t first = 0) {
  return "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 " + list("%d", 4, first) +
         ", %rd20, %rd21, 1, 1, 1, 0, 0;\n";
}
const std::string kCommit = "wgmma.commit_group.sync.aligned;\n";
std::string wait(uint32_t pending) { return fmt::format("wgmma.wait_group.sync.aligned {};\n", pending); }
std::string store(uint32_t registers = 4) {
  std::string text;
  for (uint32_t i = 0; i < registers; ++i) text += fmt::format("st.global.b32 [%rd13+{}], %d{};\n", 512 * i, i);
  return text;
}

void expect_all(KernelRun& kernel, float value, uint32_t first = 0, uint32_t registers = 4) {
  for (uint32_t i = first * kThreads; i < (first + registers) * kThreads; ++i) {
    ASSERT_EQ(kernel.out<float>()[i], value) << "word " << i;
  }
}

TEST(WgmmaOrder, AddsUpInOrder) {
  KernelRun kernel(machine::h200());
  std::string body = start();
  for (uint32_t i = 0; i < 4; ++i) body += multiply();
  expect_success(kernel.run(body + kCommit + wait(0) + store(), {}, {.threads = kThreads}));
  expect_all(kernel, 64);
}

TEST(WgmmaOrder, KeepsAccumulatorsOfAlternatingOperationsApart) {
  KernelRun kernel(machine::h200());
  std::string body = start();
  body += multiply(0) + multiply(4) + multiply(4) + multiply(0) + multiply(4);
  expect_success(kernel.run(body + kCommit + wait(0) + store(8), {}, {.threads = kThreads}));
  expect_all(kernel, 32, 0);
  expect_all(kernel, 48, 4);
}

TEST(WgmmaOrder, ReadsSharedMemoryWhenItIsExecuted) {
  // B is overwritten right after the issue, which is too early.
  KernelRun kernel(machine::h200());
  std::string body = start() + multiply() + kCommit;
  body += fmt::format("mov.b32 %r6, {};\nbar.sync 0;\nst.shared.b32 [%r3+4096], %r6;\n", kBf16Two * 0x10001);
  expect_success(kernel.run(body + wait(0) + store(), {}, {.threads = kThreads}));
  expect_all(kernel, 32);
}

TEST(WgmmaOrder, WaitsForAllButTheYoungestGroups) {
  // When wait_group 1 returns, the first group has read its operands and the second may not have: changing B then
  // changes only the second's result.
  KernelRun kernel(machine::h200());
  std::string body = start() + multiply(0) + kCommit;
  for (uint32_t i = 0; i < 100; ++i) body += multiply(4);
  body += kCommit + wait(1);
  body += fmt::format("mov.b32 %r6, {};\nst.shared.b32 [%r3+4096], %r6;\n", kBf16Two * 0x10001);
  expect_success(kernel.run(body + store(4) + wait(0) + store(8), {}, {.threads = kThreads}));
  expect_all(kernel, 16, 0);
  EXPECT_GT(kernel.out<float>()[4 * kThreads], 1600);
}

TEST(WgmmaOrder, EmptyGroupsAreComplete) {
  KernelRun kernel(machine::h200());
  std::string body = kCommit + wait(0) + start() + kCommit + multiply() + kCommit + kCommit + wait(0) + store();
  expect_success(kernel.run(body, {}, {.threads = kThreads}));
  expect_all(kernel, 16);
}

TEST(WgmmaOrder, AnAccumulatorThatIsMovedTooEarlyIsWaitedFor) {
  KernelRun kernel(machine::h200());
  std::string body = start() + multiply();
  for (uint32_t i = 0; i < 4; ++i) body += fmt::format("mov.b32 %d{}, %d{};\n", i + 4, i);
  expect_success(kernel.run(body + multiply(4) + kCommit + wait(0) + store(8), {}, {.threads = kThreads}));
  expect_all(kernel, 16, 0);
  expect_all(kernel, 32, 4);
}

TEST(WgmmaOrder, TwoWarpgroupsWorkApart) {
  KernelRun kernel(machine::h200());
  std::string body = start() + "setp.lt.u32 %p1, %r0, 128;\n@%p1 bra last;\n" + multiply() + multiply() + "last:\n";
  expect_success(kernel.run(body + multiply() + kCommit + wait(0) + "st.global.b32 [%rd13], %d0;\n", {},
                            {.threads = 2 * kThreads}));
  EXPECT_EQ(kernel.out<float>()[5], 16);
  EXPECT_EQ(kernel.out<float>()[kThreads + 5], 48);
}

// Returns what the race check reports about a kernel that goes on with `body` after the issue of a multiplication.
std::string races_of(const std::string& body) {
  KernelRun kernel(machine::h200());
  kernel.announce_memory_events();
  const auto check = checks::make_memory_checks();
  return KernelRun::report(kernel.run(start() + multiply() + kCommit + body, {}, {.threads = kThreads}, {check.get()}));
}

TEST(WgmmaOrder, ARefillBeforeTheWaitIsARace) {
  const std::string refill = "mov.b32 %r6, 0;\nst.shared.b32 [%r3+4096], %r6;\n";
  const std::string found = races_of("bar.sync 0;\n" + refill + wait(0));
  EXPECT_NE(found.find("the tensor core may still read its operands"), std::string::npos) << found;
  EXPECT_EQ(races_of(wait(0) + "bar.sync 0;\n" + refill), "");
  EXPECT_NE(races_of(wait(1) + "bar.sync 0;\n" + refill + wait(0)), "");
}

TEST(WgmmaOrder, OneWarpMayWaitForAllFour) {
  // CUTLASS's consumers do this: the thread that has waited releases the stage for its whole warpgroup.
  EXPECT_EQ(races_of(wait(0) + "setp.ne.u32 %p1, %r0, 37;\n@%p1 bra last;\nst.shared.b32 [%r1+4096], %r4;\nlast:\n"),
            "");
}

TEST(WgmmaOrder, OperandsThatItsOwnWarpsHaveWrittenAreOnlyTolerated) {
  // Each of the four has written its part when it issues its part of the operation, but no barrier orders this for the
  // others.
  const std::string barrier = "bar.sync 0;\n";
  std::string body = start() + multiply() + kCommit + wait(0);
  const size_t at = body.find(barrier);
  body.erase(at, barrier.size());
  const auto tolerated = [](const std::string& text, uint32_t threads) {
    KernelRun kernel(machine::h200());
    kernel.announce_memory_events();
    const auto check = checks::make_memory_checks();
    std::vector<bool> all;
    for (const machine::Diagnostic& found : kernel.run(text, {}, {.threads = threads}, {check.get()}).diagnostics) {
      all.push_back(!found.tolerated.empty());
    }
    return all;
  };
  EXPECT_EQ(tolerated(body, kThreads), std::vector<bool>(5, true));  // one for each store of A and B
  // For the writes of another warpgroup this is not so.
  body = start();
  body.replace(body.find(barrier), barrier.size(), "bar.sync 1, 128;\n");
  body = "mov.u32 %r0, %tid.x;\nsetp.ge.u32 %p1, %r0, 128;\n@%p1 bra other;\n" + body + multiply() + kCommit + wait(0) +
         "bra last;\nother:\nmov.u32 %r1, tile;\nst.shared.b32 [%r1+4096], %r0;\nfence.proxy.async;\nlast:\n";
  const std::vector<bool> found = tolerated(body, kThreads + 32);
  EXPECT_FALSE(found.empty());
  EXPECT_EQ(std::count(found.begin(), found.end(), true), 0);
}

TEST(WgmmaOrder, AMissingWarpIsADeadlock) {
  KernelRun kernel(machine::h200());
  std::string body =
      start() + "setp.ge.u32 %p1, %r0, 96;\n@%p1 bra last;\n" + multiply() + kCommit + wait(0) + "last:\n";
  expect_fault(kernel.run(body + store(), {}, {.threads = kThreads}), machine::FaultKind::deadlock,
               "all four warps of the warpgroup");
}

TEST(WgmmaOrder, WarpsMustAgree) {
  KernelRun kernel(machine::h200());
  std::string body = start() + "setp.lt.u32 %p1, %r0, 96;\n@%p1 bra last;\nadd.s64 %rd21, %rd21, 1;\nlast:\n";
  expect_fault(kernel.run(body + multiply() + kCommit + wait(0) + store(), {}, {.threads = kThreads}),
               machine::FaultKind::illegal_instruction, "the same wgmma.mma_async with the same descriptors");
}

TEST(WgmmaOrder, NeedsFourWarps) {
  KernelRun kernel(machine::h200());
  expect_fault(kernel.run(start() + multiply(), {}, {.threads = 64}), machine::FaultKind::illegal_instruction,
               "launch a multiple of 128 threads");
}

TEST(WgmmaOrder, OperandsMustBeInSharedMemory) {
  KernelRun kernel(machine::h200());
  expect_fault(kernel.run(start() + "mov.b64 %rd21, 0x3fff;\n" + multiply(), {}, {.threads = kThreads}),
               machine::FaultKind::illegal_address, "beyond the block's shared memory");
}

std::string refusal(const std::string& instruction, const machine::Architecture& architecture) {
  KernelRun kernel(architecture);
  try {
    kernel.run(".reg .b32 %d<8>;\n" + instruction, {}, {.threads = kThreads});
  } catch (const std::exception& error) {
    return error.what();
  }
  return "accepted";
}

TEST(WgmmaOrder, RefusesWhatDoesNotExist) {
  const auto expect = [&](const std::string& instruction, const std::string& words) {
    const std::string found = refusal(instruction, machine::h200());
    EXPECT_NE(found.find(words), std::string::npos) << instruction << ": " << found;
  };
  const std::string name = "wgmma.mma_async.sync.aligned.", d = " {%d0, %d1, %d2, %d3}, %rd20, %rd21, 1";
  expect(name + "m64n12k16.f32.bf16.bf16" + d + ", 1, 1, 0, 0;", "N is 12");
  expect(name + "m64n40k32.s32.s8.s8" + d + ";", "N is 40");
  expect(name + "m64n8k32.f32.bf16.bf16" + d + ", 1, 1, 0, 0;", "K is 32; for .bf16 it is 16");
  expect(name + "m64n8k16.f16.bf16.bf16" + d + ", 1, 1, 0, 0;", "no wgmma multiplies .bf16 by .bf16 into .f16");
  expect(name + "m64n16k16.f32.bf16.bf16" + d + ", 1, 1, 0, 0;", "D has 4 registers, and needs 8");
  expect(name + "m64n8k8.f32.tf32.tf32" + d + ", 1, 1, 0, 0;", "operands are given");
  expect(name + "m64n8k16.f32.bf16.bf16" + d + ", 2, 1, 0, 0;", "imm-scale-a is 2");
  EXPECT_NE(refusal(name + "m64n8k16.f32.bf16.bf16" + d + ", 1, 1, 0, 0;", machine::b200()).find("sm_90a"),
            std::string::npos);
}

}  // namespace
}  // namespace stagecraft::emulator::machine::testing
