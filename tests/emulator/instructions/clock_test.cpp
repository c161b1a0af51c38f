// Loops that wait for the clock: they take few instructions, end in time, and do not change other readings.
#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::machine {
namespace {

class ClockTest : public KernelTest {};

/// Waits for `cycles` by the clock, and stores how long it took.
std::string wait_for(uint64_t cycles) {
  return fmt::format(R"(
    mov.u64 %rd0, %clock64;
    L: mov.u64 %rd1, %clock64; sub.u64 %rd1, %rd1, %rd0; setp.lt.u64 %p0, %rd1, {}; @%p0 bra L;
    st.global.u64 [%out], %rd1;)",
                     cycles);
}

TEST_F(ClockTest, ALongWaitTakesFewInstructions) {
  const uint64_t out = allocate<uint64_t>(1);
  const LaunchResult result = launch(compile_body(wait_for(100'000'000)), {1, 1, 1}, {32, 1, 1}, out);
  ASSERT_FALSE(result.fault) << message_of(result);
  EXPECT_LT(result.warp_instructions, 3'000u);
  EXPECT_GE(read<uint64_t>(out, 1)[0], 100'000'000u);
  EXPECT_LE(read<uint64_t>(out, 1)[0], 104'000'000u);
}

TEST_F(ClockTest, AShortWaitEndsInTime) {
  const uint64_t out = allocate<uint64_t>(1);
  const LaunchResult result = launch(compile_body(wait_for(1000)), {1, 1, 1}, {32, 1, 1}, out);
  ASSERT_FALSE(result.fault) << message_of(result);
  EXPECT_LE(read<uint64_t>(out, 1)[0], 1010u);
}

TEST_F(ClockTest, ALoopThatStoresWhatItReadsTakesNoLonger) {
  constexpr uint32_t kReadings = 4096;
  const uint64_t out = allocate<uint64_t>(kReadings);
  const LaunchResult result = launch(compile_body(R"(
    mov.u32 %r0, 0;
    L: mov.u64 %rd1, %clock64; st.global.u64 [%out], %rd1; add.u64 %out, %out, 8;
    add.u32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, 4096; @%p0 bra L;)"),
                                     {1, 1, 1}, {1, 1, 1}, out);
  ASSERT_FALSE(result.fault) << message_of(result);
  const std::vector<uint64_t> times = read<uint64_t>(out, kReadings);
  for (uint32_t i = 1; i < kReadings; ++i) ASSERT_LE(times[i] - times[i - 1], 64u) << "reading " << i;
}

}  // namespace
}  // namespace stagecraft::emulator::machine
