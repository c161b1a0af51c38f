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

TEST_F(UnwrittenTest, DoesNotJudgeLoads) {
  // The bytes that the report above is about, in a kernel whose tensor core reads others.
  expect_silence(run(multiply_at(0) + "ld.shared.u32 %r1, [b+4096];\nld.shared.u32 %r1, [%own];\n", kTwoWarps));
}

}  // namespace
}  // namespace stagecraft::emulator::checks
