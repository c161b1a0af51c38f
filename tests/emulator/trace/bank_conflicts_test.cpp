#include "emulator/trace/bank_conflicts.hpp"

#include <array>
#include <functional>
#include <nlohmann/json.hpp>

#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::trace {
namespace {

using machine::kAllLanes;

uint32_t wavefronts(uint32_t bytes, const std::function<uint64_t(uint64_t lane)>& address,
                    machine::LaneMask lanes = kAllLanes, bool load = true) {
  std::array<uint32_t, machine::kWarpSize> addresses{};
  for (uint64_t lane = 0; lane < addresses.size(); ++lane) addresses[lane] = static_cast<uint32_t>(address(lane));
  return wavefronts_of(addresses.data(), lanes, bytes, load);
}

TEST(BankConflictsTest, ServesNeighbouringWordsAtOnce) {
  EXPECT_EQ(wavefronts(4, [](uint64_t lane) { return 1024 + 4 * lane; }), 1u);
  EXPECT_EQ(wavefronts(4, [](uint64_t lane) { return 1024 + 4 * (31 - lane); }), 1u);
  EXPECT_EQ(wavefronts(2, [](uint64_t lane) { return 2 * lane; }), 1u);
  EXPECT_EQ(wavefronts(1, [](uint64_t lane) { return lane; }), 1u);
}

TEST(BankConflictsTest, CountsTheWordsOfTheBusiestBank) {
  for (const uint64_t stride : {1, 3, 5, 33}) {
    EXPECT_EQ(wavefronts(4, [&](uint64_t lane) { return 4 * stride * lane; }), 1u) << stride;
  }
  EXPECT_EQ(wavefronts(4, [](uint64_t lane) { return 4 * 2 * lane; }), 2u);
  EXPECT_EQ(wavefronts(4, [](uint64_t lane) { return 4 * 8 * lane; }), 8u);
  EXPECT_EQ(wavefronts(4, [](uint64_t lane) { return 4 * 32 * lane; }), 32u);
  EXPECT_EQ(wavefronts(
                4, [](uint64_t lane) { return 4 * 32 * lane; }, 0x0000ffff),
            16u);
}

TEST(BankConflictsTest, GivesOneWordToAllLanesThatWantIt) {
  EXPECT_EQ(wavefronts(4, [](uint64_t) { return 512; }), 1u);
  EXPECT_EQ(wavefronts(2, [](uint64_t lane) { return 128 * (lane / 2) + 2 * (lane % 2); }), 16u);
}

TEST(BankConflictsTest, ServesWideAccessesInParts) {
  EXPECT_EQ(wavefronts(8, [](uint64_t lane) { return 8 * lane; }), 2u);
  EXPECT_EQ(wavefronts(16, [](uint64_t lane) { return 16 * lane; }), 4u);
  EXPECT_EQ(wavefronts(16, [](uint64_t lane) { return 128 * lane; }), 32u);                   // 8 in each quarter
  EXPECT_EQ(wavefronts(16, [](uint64_t lane) { return 128 * lane ^ (lane % 8) * 16; }), 4u);  // swizzled
  EXPECT_EQ(wavefronts(
                16, [](uint64_t lane) { return 16 * lane; }, 0xff),
            1u);
  EXPECT_EQ(fewest_wavefronts(kAllLanes, 16), 4u);
  EXPECT_EQ(fewest_wavefronts(0xff, 16), 1u);
  EXPECT_EQ(fewest_wavefronts(1, 4), 1u);
}

// The patterns of one word per lane, or of pairs, as an H200 served them.
TEST(BankConflictsTest, TakesTwiceAsManyLanesTogetherThatLoadInPairs) {
  const auto same = [](uint64_t) { return 512; };
  const auto pairs_of_8 = [](uint64_t lane) { return lane / 2 * 8; };
  const auto pairs_of_16 = [](uint64_t lane) { return lane / 2 * 16; };
  EXPECT_EQ(wavefronts(8, same), 1u);
  EXPECT_EQ(wavefronts(16, same), 2u);
  EXPECT_EQ(wavefronts(8, pairs_of_8), 1u);
  EXPECT_EQ(wavefronts(16, pairs_of_16), 2u);
  EXPECT_EQ(wavefronts(8, pairs_of_8, kAllLanes, false), 2u);
  EXPECT_EQ(wavefronts(16, pairs_of_16, kAllLanes, false), 4u);
  EXPECT_EQ(wavefronts(8, [](uint64_t lane) { return lane % 16 * 8; }), 2u);
  EXPECT_EQ(wavefronts(16, [](uint64_t lane) { return lane % 8 * 16; }), 4u);
  EXPECT_EQ(wavefronts(8, [](uint64_t lane) { return (lane & ~2ull) * 8; }), 2u);
  EXPECT_EQ(wavefronts(8, [](uint64_t lane) { return lane / 2 * 8 + lane % 2 * 4096; }), 4u);
  EXPECT_EQ(wavefronts(16, [](uint64_t lane) { return lane / 2 * 16 + lane % 2 * 4096; }), 8u);
  EXPECT_EQ(wavefronts(8, [](uint64_t lane) { return lane / 2 * 128; }), 16u);
}

class BankConflictsKernelTest : public machine::KernelTest {
 protected:
  BankConflictsKernelTest() { machine.announce_memory_events(true); }
  BankConflicts conflicts;

  void run(const std::string& body) {
    machine::Kernel& kernel = compile_body(body, ".file 1 \"f.cu\"\n.shared .align 128 .b8 tile[8192];\n");
    machine::LaunchRequest request;
    request.kernel = &kernel;
    request.block.x = 64;
    request.parameters.resize(kernel.parameter_bytes);
    const auto result = machine.launch(request, {&conflicts}, [](std::string_view) {});
    EXPECT_FALSE(result.fault.has_value());
  }
};

TEST_F(BankConflictsKernelTest, AddsUpWhatEachLineDoes) {
  // The kernel reads a column of a matrix of 32 columns twice, and its transpose; one atomic is not counted.
  run(R"(mov.u32 %r0, %tid.x; and.b32 %r0, %r0, 31; mov.u32 %r1, tile; mov.u32 %r4, 0;
    mad.lo.u32 %r2, %r0, 128, %r1; mad.lo.u32 %r3, %r0, 4, %r1;
    AGAIN:
    .loc 1 7 0
    st.shared.u32 [%r2], %r0;
    .loc 1 8 0
    ld.shared.u32 %r5, [%r3];
    .loc 1 9 0
    red.shared.add.u32 [%r3], 1;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p1, %r4, 2;
    @%p1 bra AGAIN;)");
  const std::vector<LineTraffic> lines = conflicts.lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].source, "f.cu:7");
  EXPECT_EQ(lines[0].instruction, "st.shared.u32");
  EXPECT_EQ(lines[0].requests, 4u);  // two warps
  EXPECT_EQ(lines[0].wavefronts, 4u * 32);
  EXPECT_EQ(lines[0].fewest, 4u);
  EXPECT_EQ(lines[1].source, "f.cu:8");
  EXPECT_EQ(lines[1].wavefronts, 4u);
  EXPECT_EQ(conflicts.text(),
            "stagecraft: shared memory in kernel k: wavefronts, passes over its 32 banks\n"
            "  f.cu:7  st.shared.u32         4 requests       128 wavefronts  32.0 each, 1.0 without conflicts\n"
            "  f.cu:8  ld.shared.u32         4 requests         4 wavefronts   1.0 each\n");
  EXPECT_EQ(conflicts.json()["lines"][0]["wavefronts"], 128);
}

TEST_F(BankConflictsKernelTest, SaysNothingWithoutSharedMemory) {
  run("mov.u32 %r0, 1;");
  EXPECT_EQ(conflicts.text(), "");
}

}  // namespace
}  // namespace stagecraft::emulator::trace
