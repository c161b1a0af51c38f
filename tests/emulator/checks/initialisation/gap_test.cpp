// Tests which accesses of bytes that belong to no variable are reported.
#include "fixtures/race_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

class GapTest : public RaceTest {
 protected:
  // `odd` has 20 bytes behind `tile`, and 12 more lie between it and `last`.
  GapTest() {
    variables = ".shared .align 128 .b8 tile[4096];\n.shared .align 4 .b8 odd[20];\n.shared .align 32 .b8 last[20];\n";
  }
  machine::LaunchResult run_all(const std::string& line) {
    return run("mov.u32 %r8, odd; mov.u32 %r8, last;\n" + line + "\n", Shape{});
  }
};

TEST_F(GapTest, FindsAStorePastTheEndOfAnArray) {
  expect_one(run_all("@%first st.shared.u32 [odd+20], %thread;"), "illegal address",
             {"writes shared address 0x1414, which belongs to no variable",
              "right past the end of odd, which has 20 bytes at 0x1400 up to 0x1414", "f.cu:2"});
  expect_one(run_all("@%first st.shared.u32 [odd+28], %thread;"), "illegal address", {"8 bytes past the end of odd"});
  expect_silence(run_all("@%first st.shared.u32 [odd+16], %thread; @%first st.shared.u32 [last], %thread;"));
}

TEST_F(GapTest, FindsAnAccessThatReachesIntoTheGap) {
  expect_one(run_all("@%first st.shared.v2.u32 [odd+16], {%thread, %thread};"), "illegal address",
             {"3 bytes past the end of odd"});
}

TEST_F(GapTest, FindsAnMbarrierInTheGap) {
  expect_one(run_all("@%first mbarrier.init.shared.b64 [odd+24], 1;"), "illegal address",
             {"puts an mbarrier at shared address 0x1418", "4 bytes past the end of odd"});
}

TEST_F(GapTest, NamesTheLastArrayWhereNothingFollows) {
  expect_one_fault(run_all("@%first st.shared.u32 [last+24], %thread;"), "illegal address",
                   {"outside of the block's shared memory", "4 bytes past the end of last, which has 20 bytes"});
}

}  // namespace
}  // namespace stagecraft::emulator::checks
