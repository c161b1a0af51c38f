// Tests which reads of shared memory that nothing has written are reported.
#include "fixtures/tensor_core_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

class UnwrittenTest : public TensorCoreTest {
 protected:
  static std::string multiply_at(uint32_t b_offset) {
    return start(1, 1) + "@!%first bra WAIT;\n" + descriptors(kPlainA, kPlainB, b_offset) + multiply() + commit(0) +
           wait(0, 0, "WAIT") + kFree;
  }
};

TEST_F(UnwrittenTest, FindsAnOperandOfWhichNoByteIsWritten) {
  const std::string wrong = multiply_at(4096);
  expect_one(run(wrong, kTwoWarps), "uninitialised operand",
             {"the tcgen05.mma issued here reads B from b+0x1000", "of which nothing has written a byte",
              line_of(wrong, "tcgen05.mma")});
}

TEST_F(UnwrittenTest, IsSilentWhereSomeRowsOfAnOperandAreWritten) { expect_silence(run(multiply_at(0), kTwoWarps)); }

class UnwrittenLoadTest : public RaceTest {
 protected:
  UnwrittenLoadTest() { judges_loads = true; }
};

TEST_F(UnwrittenLoadTest, FindsALoadOfWhichNoByteIsWritten) {
  const std::string store = "@%first st.shared.u32 [tile+128], %thread;\nbar.sync 0;\n";
  expect_one(run(store + "ld.shared.u32 %r1, [%own];\n", Shape{32}), "uninitialised read",
             {"reads tile+0x0 in shared memory", "all lanes", "f.cu:3", "nothing has written"});
  // The last lanes read what nobody has written; whether they use it is not known.
  expect_silence(
      run("setp.lt.u32 %p1, %lane, 5;\n@%p1 st.shared.u32 [%own], %thread;\nld.shared.u32 %r1, [%own];\n", Shape{32}));
}

TEST_F(UnwrittenLoadTest, FindsAnAtomicOfWhichNoByteIsWritten) {
  expect_one(run("atom.shared.add.u32 %r1, [tile], 1;\n"), "uninitialised read", {"updates tile+0x0", "f.cu:1"});
  expect_silence(run("@%first st.shared.u32 [tile], 0;\nbar.sync 0;\natom.shared.add.u32 %r1, [tile], 1;\n"));
}

TEST_F(UnwrittenLoadTest, CountsWhatOtherBlocksHaveWritten) {
  expect_silence(
      run("setp.eq.u32 %p1, %rank, 1;\nmapa.shared::cluster.u32 %r1, %own, 1;\n"
          "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
          "@!%p1 st.shared::cluster.u32 [%r1], %thread;\n"
          "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
          "@%p1 ld.shared.u32 %r2, [%own];\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n",
          Shape{32, 2, 2}));
}

TEST_F(UnwrittenLoadTest, NamesTheWaitThatPassedAtOnce) {
  const std::string body = R"(@%first mbarrier.init.shared.b64 [bar], 1;
    bar.sync 0;
    WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 1;
    @!%p1 bra WAIT;
    ld.shared.u32 %r1, [%own];
  )";
  expect_one(
      run(body), "uninitialised read",
      {line_of(body, "ld.shared"), line_of(body, "try_wait"), "for bar[0] passed at once", "begins with parity 0"});
}

TEST_F(UnwrittenLoadTest, NamesTheArrivalThatLetTheReaderPass) {
  const std::string body = R"(@%first mbarrier.init.shared.b64 [bar], 32;
    bar.sync 0;
    setp.eq.u32 %p1, %warp, 1;
    @%p1 bra WAIT;
    mbarrier.arrive.shared.b64 _, [bar];
    bra END;
    WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;
    @!%p1 bra WAIT;
    ld.shared.u32 %r1, [%own];
    END:
  )";
  expect_one(run(body), "uninitialised read",
             {"The last wait at " + line_of(body, "try_wait") + " was for bar[0], and was ended by the arrival at " +
              line_of(body, "mbarrier.arrive")});
}

TEST_F(UnwrittenLoadTest, LeavesToARaceWhatARaceExplains) {
  const std::string body =
      "ld.shared.u32 %r1, [%own];\nxor.b32 %other, %thread, 32;\nmov.u32 %r2, tile;\n"
      "mad.lo.u32 %other, %other, 4, %r2;\nst.shared.u32 [%other], %thread;\n";
  const machine::LaunchResult result = run(body);
  ASSERT_FALSE(result.diagnostics.empty());
  for (const machine::Diagnostic& each : result.diagnostics) EXPECT_EQ(each.kind, "race") << text_of(result);
}

}  // namespace
}  // namespace stagecraft::emulator::checks
