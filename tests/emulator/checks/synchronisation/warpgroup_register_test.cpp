// What wgmma.fence and wgmma.wait_group must order in registers: what is reported where they are missing, and that
// moves and constants, which nvcc places, are no accesses.
#include <string>

#include "fixtures/race_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

class WarpgroupRegisters : public RaceTest {
 protected:
  WarpgroupRegisters() : RaceTest(machine::h200()) { variables += ".shared .align 128 .b8 operands[4096];\n"; }

  /// Runs a body in one warpgroup, after A (64 x 16) and B (8 x 16) in `tile` have been made zeros. It has sums %d<8>,
  /// A in %a<4>, the values %v<4> and the descriptors %da and %db.
  machine::LaunchResult multiply(const std::string& body) {
    const std::string before =
        ".reg .b32 %d<8>, %a<4>, %v<4>, %at; .reg .b64 %da, %db; mov.u32 %at, operands; and.b32 %v0, %at, 0x3ffff; "
        "shr.u32 %v0, %v0, 4; cvt.u64.u32 %da, %v0; or.b64 %da, %da, 0x1000080000; add.u64 %db, %da, 128; "
        "mad.lo.u32 %at, %thread, 32, %at; mov.b32 %v0, 0; st.shared.v4.b32 [%at], {%v0,%v0,%v0,%v0}; "
        "st.shared.v4.b32 [%at+16], {%v0,%v0,%v0,%v0}; fence.proxy.async; bar.sync 0; "
        "add.u32 %v1, %thread, 1; add.u32 %v2, %thread, 2;\n";
    return run(before + body, {.threads = 128});
  }
  static constexpr const char* kKind = "missing wgmma fence";
};

const std::string kFence = "wgmma.fence.sync.aligned;\n";
std::string sums(uint32_t first) {
  return fmt::format("{{%d{}, %d{}, %d{}, %d{}}}", first, first + 1, first + 2, first + 3);
}
std::string multiply_add(uint32_t first = 0) {
  return "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 " + sums(first) + ", %da, %db, 1, 1, 1, 0, 0;\n";
}
std::string multiply_add_registers(uint32_t first = 0) {
  return "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 " + sums(first) +
         ", {%a0, %a1, %a2, %a3}, %db, 1, 1, 1, 0;\n";
}
const std::string kEnd = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
const std::string kUse = "st.global.b32 [%out], %d0;\n";

TEST_F(WarpgroupRegisters, MultiplyBeforeAnyFenceIsReportedOnce) {
  const std::string body = multiply_add() + multiply_add(4) + kEnd + kUse;
  const machine::LaunchResult result = multiply(body);
  expect_one(result, kKind,
             {"multiplies before its warp has executed any wgmma.fence", "at f.cu:2",
              "before the first wgmma.mma_async at f.cu:2"});
  EXPECT_NE(result.diagnostics[0].tolerated.find("C7519"), std::string::npos);
}

TEST_F(WarpgroupRegisters, OneFenceSufficesForOperationsOfOneShape) {
  expect_silence(multiply(kFence + multiply_add() + multiply_add() + kEnd + multiply_add() + kEnd + kUse));
}

TEST_F(WarpgroupRegisters, SumsWrittenAfterTheFenceAreReported) {
  const std::string write = "add.u32 %d1, %d1, %thread;\n";
  expect_one(multiply(kFence + write + multiply_add() + kEnd + kUse), kKind,
             {"adds to the accumulator %d1, which its warp has accessed since the last wgmma.fence",
              "add.u32 at f.cu:3 writes it", "after the add.u32 at f.cu:3, and before the wgmma.mma_async at f.cu:4"});
  expect_silence(multiply(write + kFence + multiply_add() + kEnd + kUse));
}

TEST_F(WarpgroupRegisters, SumsReadBetweenTwoOperationsAreReported) {
  expect_one(multiply(kFence + multiply_add() + kEnd + kUse + multiply_add() + kEnd), kKind,
             {"st.global.b32 at f.cu:6 reads it"});
  expect_silence(multiply(kFence + multiply_add() + kEnd + kUse + kFence + multiply_add() + kEnd));
}

TEST_F(WarpgroupRegisters, AWrittenAfterTheFenceIsReported) {
  const std::string write = "add.u32 %a2, %thread, 7;\n";
  expect_one(multiply(kFence + write + multiply_add_registers() + kEnd + kUse), kKind,
             {"reads A from %a2", "add.u32 at f.cu:3 writes it"});
  expect_silence(multiply(write + kFence + multiply_add_registers() + kEnd + kUse));
  // It may be read at any time.
  expect_silence(multiply(write + kFence + "st.global.b32 [%out], %a2;\n" + multiply_add_registers() + kEnd + kUse));
}

TEST_F(WarpgroupRegisters, AnotherShapeNeedsAFence) {
  const std::string other =
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%d0, %d1, %d2, %d3, %d4, %d5, %d6, "
      "%d7}, %da, %db, 1, 1, 1, 0, 0;\n";
  expect_one(multiply(kFence + multiply_add() + kEnd + other + kEnd), kKind,
             {"this one is m64n16k16, the other m64n8k16"});
  expect_silence(multiply(kFence + multiply_add() + kEnd + kFence + other + kEnd));
}

TEST_F(WarpgroupRegisters, MovesAndConstantsAreNoAccesses) {
  // The value was computed before the fence, and nvcc moved it to the accumulator after it.
  expect_silence(multiply(kFence + "mov.b32 %d1, %v1;\nmov.b32 %d2, 0;\n" + multiply_add() + kEnd + kUse));
  // A value that is computed after the fence is an access, wherever it is moved.
  expect_one(multiply(kFence + "add.u32 %v1, %thread, 9;\nmov.b32 %d1, %v1;\n" + multiply_add() + kEnd + kUse), kKind,
             {"add.u32 at f.cu:3 writes it"});
  // Moves of sums under way are waited for.
  expect_silence(multiply(kFence + multiply_add() +
                          "mov.b32 %d4, %d0;\nmov.b32 %d5, %d1;\nmov.b32 %d6, %d2;\n"
                          "mov.b32 %d7, %d3;\n" +
                          multiply_add(4) + kEnd + kUse));
}

TEST_F(WarpgroupRegisters, SumsThatAreReadBeforeTheWaitAreReported) {
  const machine::LaunchResult result = multiply(kFence + multiply_add() + kUse + kEnd);
  expect_one(result, "missing wait",
             {"reads %d0, an accumulator of a wgmma.mma_async for which its warp has not waited", "f.cu:4",
              "the wgmma.mma_async was issued at f.cu:3"});
  EXPECT_NE(result.diagnostics[0].tolerated.find("C7517"), std::string::npos);
  // Also those that were moved.
  expect_one(multiply(kFence + multiply_add() + "mov.b32 %v3, %d0;\nst.global.b32 [%out], %v3;\n" + kEnd),
             "missing wait", {"reads %v3", "f.cu:5"});
}

TEST_F(WarpgroupRegisters, OperationsOfAWaitedGroupMayBeReadWhileOthersAreUnderWay) {
  const std::string two = kFence + multiply_add() + "wgmma.commit_group.sync.aligned;\n" + multiply_add(4) +
                          "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;\n";
  const std::string rest = "wgmma.wait_group.sync.aligned 0;\n";
  expect_silence(multiply(two + kUse + rest));
  expect_one(multiply(two + "st.global.b32 [%out], %d4;\n" + rest), "missing wait", {"reads %d4"});
}

TEST_F(WarpgroupRegisters, AWrittenBeforeTheWaitIsReported) {
  const std::string write = "add.u32 %a2, %thread, 7;\n";
  expect_one(multiply(kFence + multiply_add_registers() + write + kEnd + kUse), "missing wait",
             {"writes %a2, a register with A of a wgmma.mma_async"});
}

}  // namespace
}  // namespace stagecraft::emulator::checks
