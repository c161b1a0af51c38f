// Tests which accesses of bytes that belong to no variable are reported.
#include "fixtures/race_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

class GapTest : public RaceTest {
 protected:
  // `odd` has 20 bytes at 0x400, so that 12 lie between it and `even`; and `last` ends a byte early.
  GapTest() {
    variables = ".shared .align 128 .b8 odd[20];\n.shared .align 32 .b8 tile[4096];\n.shared .align 8 .b8 last[20];\n";
  }
};

TEST_F(GapTest, FindsAStoreBehindTheEndOfAnArray) {
  expect_one(run("@%first st.shared.u32 [odd+20], %thread;\n"), "illegal address",
             {"writes shared address 0x414, which belongs to no variable",
              "right behind the end of odd, which has 20 bytes at 0x400 up to 0x414", "f.cu:1"});
  expect_one(run("@%first st.shared.u32 [odd+28], %thread;\n"), "illegal address", {"8 bytes behind the end of odd"});
  expect_silence(run("@%first st.shared.u32 [odd+16], %thread;\n@%first st.shared.u32 [tile], %thread;\n"));
}

TEST_F(GapTest, FindsAnAccessThatReachesIntoTheGap) {
  expect_one(run("@%first st.shared.v2.u32 [odd+16], {%thread, %thread};\n"), "illegal address",
             {"right behind the end of odd"});
}

TEST_F(GapTest, FindsAnMbarrierInTheGap) {
  expect_one(run("@%first mbarrier.init.shared.b64 [odd+24], 1;\n"), "illegal address",
             {"puts an mbarrier at shared address 0x418", "4 bytes behind the end of odd"});
}

TEST_F(GapTest, NamesTheLastArrayWhereNothingFollows) {
  expect_one_fault(run("@%first st.shared.u32 [last+24], %thread;\n"), "illegal address",
                   {"outside of the block's shared memory", "4 bytes behind the end of last, which has 20 bytes"});
}

}  // namespace
}  // namespace stagecraft::emulator::checks
