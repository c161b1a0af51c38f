// Tests what is said about a kernel that writes what nothing reads.
#include "fixtures/tensor_core_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

class UnreadTest : public TensorCoreTest {
 protected:
  static inline const std::string kLoad =
      "shl.b32 %r3, %warp, 21; add.u32 %r3, %r3, %r15; tcgen05.ld.sync.aligned.32x32b.x4.b32 {%f0, %f1, %f2, %f3}, "
      "[%r3];\ntcgen05.wait::ld.sync.aligned;\n";
};

TEST_F(UnreadTest, NamesAStoreAndIsNoFinding) {
  const auto result =
      run("st.shared.u32 [%own], %thread;\nst.shared.u32 [%own+1024], %thread;\nbar.sync 0;\n"
          "ld.shared.u32 %r1, [%own];\n");
  expect_silence(result);
  ASSERT_EQ(result.unread.size(), 1u);
  EXPECT_EQ(result.unread.front(),
            "nothing reads what the st.shared.u32 at f.cu:2 writes to tile+0x400 in shared memory");
}

TEST_F(UnreadTest, NamesLanesThatReadWhatNothingHasWritten) {
  const auto result =
      run("setp.lt.u32 %p1, %lane, 30;\n@%p1 st.shared.u32 [%own], %thread;\nld.shared.u32 %r1, [%own];\n", Shape{32});
  expect_silence(result);
  ASSERT_EQ(result.unread.size(), 1u);
  EXPECT_EQ(result.unread.front(),
            "nothing has written tile+0x78 in shared memory, which lanes 30-31 of warp 0 read at f.cu:3");
}

TEST_F(UnreadTest, CountsAtomicsAndOtherBlocksAsReaders) {
  EXPECT_TRUE(
      run("@%first st.shared.u32 [tile], 0;\nbar.sync 0;\natom.shared.add.u32 %r1, [tile], 1;\n").unread.empty());
  const auto result =
      run("st.shared.u32 [%own], %thread;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n"
          "mapa.shared::cluster.u32 %r1, %own, 0;\nld.shared::cluster.u32 %r2, [%r1];\n"
          "barrier.cluster.arrive;\nbarrier.cluster.wait;\n",
          Shape{32, 2, 2});
  EXPECT_TRUE(result.unread.empty());  // one block's is read, and stores of one instruction count together
}

TEST_F(UnreadTest, NamesWhatOverwritesIt) {
  const auto result =
      run("st.shared.v4.u32 [tile], {%thread, %thread, %thread, %thread};\n"
          "st.shared.v4.u32 [tile], {%lane, %lane, %lane, %lane};\nld.shared.u32 %r1, [tile];\n",
          Shape{1});
  ASSERT_EQ(result.unread.size(), 1u);
  EXPECT_NE(result.unread.front().find("f.cu:1 writes to tile+0x0 in shared memory, overwritten at f.cu:2"),
            std::string::npos)
      << result.unread.front();
}

TEST_F(UnreadTest, JudgesAnAccumulatorByItsLoads) {
  const auto product = [](const std::string& load) {
    return start(1, 1) + "@!%first bra WAIT;\n" + descriptors() + multiply() + with(multiply(), "0;", "1;") +
           commit(0) + wait(0, 0, "WAIT") + "tcgen05.fence::after_thread_sync;\n" + load + kFree;
  };
  EXPECT_TRUE(run(product(kLoad), kTwoWarps).unread.empty());
  const auto result = run(product(""), kTwoWarps);
  ASSERT_EQ(result.unread.size(), 1u);
  EXPECT_NE(result.unread.front().find("nothing reads what the tcgen05.mma at f.cu:"), std::string::npos)
      << result.unread.front();
  EXPECT_NE(result.unread.front().find("writes to columns 0 to 7 of tensor memory"), std::string::npos);
}

TEST_F(UnreadTest, AProductThatAddsReadsWhatWasStored) {
  const auto product = [](bool adds) {
    return start(1, 1) +
           "shl.b32 %r3, %warp, 21; add.u32 %r3, %r3, %r15; tcgen05.st.sync.aligned.32x32b.x8.b32 [%r3], {%f0, %f1, "
           "%f2, %f3, %f4, %f5, %f6, %f7};\ntcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;\n"
           "bar.sync 0;\ntcgen05.fence::after_thread_sync;\n@!%first bra WAIT;\n" +
           descriptors() + multiply(adds) + commit(0) + wait(0, 0, "WAIT") + "tcgen05.fence::after_thread_sync;\n" +
           kLoad + kFree;
  };
  constexpr Shape kFourWarps{.threads = 128};
  EXPECT_TRUE(run(product(true), kFourWarps).unread.empty());
  const auto result = run(product(false), kFourWarps);
  ASSERT_EQ(result.unread.size(), 1u);
  EXPECT_NE(result.unread.front().find("nothing reads what the tcgen05.st at f.cu:"), std::string::npos)
      << result.unread.front();
}

}  // namespace
}  // namespace stagecraft::emulator::checks
