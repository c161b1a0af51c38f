// mov: of vectors, and of special registers.
#include "emulator/ptx/diagnostics.hpp"
#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::machine {
namespace {

class MovesTest : public KernelTest {
 protected:
  /// What the last thread of the last block of 3 x 2 blocks of 8 x 2 threads stores: %r0 to %r3.
  std::vector<uint32_t> last(const std::string& body) {
    const uint64_t out = allocate<uint32_t>(4);
    const LaunchResult result =
        launch(compile_body(body + "\n st.global.v4.b32 [%out], {%r0, %r1, %r2, %r3};"), {3, 2, 1}, {8, 2, 1}, out);
    EXPECT_FALSE(result.fault) << message_of(result);
    return read<uint32_t>(out, 4);
  }
  std::string refusal_of(const std::string& body) {
    try {
      compile_body(body);
    } catch (const ptx::Error& error) {
      return error.message();
    }
    return "accepted";
  }
};

TEST_F(MovesTest, ReadsSpecialRegistersAsVectors) {
  EXPECT_EQ(last("mov.v4.u32 {%r0, %r1, %r2, %r3}, %nctaid;"), (std::vector<uint32_t>{3, 2, 1, 0}));
  EXPECT_EQ(last("mov.b32 %r2, 77; mov.v4.b32 {%r0, %r1, _, %r3}, %ctaid; setp.ne.u32 %p1, %r0, 2; @%p1 exit;"
                 "mov.v4.u32 {_, %r3, _, _}, %tid; setp.ne.u32 %p1, %r1, 1; @%p1 exit; mov.u32 %r3, %tid.w;"),
            (std::vector<uint32_t>{2, 1, 77, 0}));
}

TEST_F(MovesTest, MovesVectorsElementByElement) {
  EXPECT_EQ(
      last("mov.b32 %r0, 1; mov.b32 %r1, 2; mov.b32 %r2, 3; mov.b32 %r3, 4;"
           "mov.v4.b32 {%r0, %r1, %r2, %r3}, {%r3, %r2, %r1, %r0};"
           "mov.f32 %f1, 0f3f800000; mov.v2.f32 {%f0, %f1}, {%f1, 0f40000000}; mov.b32 %r2, %f0; mov.b32 %r3, %f1;"),
      (std::vector<uint32_t>{4, 3, 0x3f800000, 0x40000000}));
  EXPECT_EQ(refusal_of("mov.v2.u32 {%r0, %r1}, %tid;"), "`mov.v2.u32`: both operands must have 2 elements, in braces");
  EXPECT_EQ(refusal_of("mov.v4.u32 {%r0, %r1}, {%r2, %r3};"),
            "`mov.v4.u32`: both operands must have 4 elements, in braces");
}

TEST_F(MovesTest, ReadsTheLowHalfOfASpecialRegister) {
  EXPECT_EQ(last("mov.u16 %h0, %nctaid.x; mov.u16 %h1, %lanemask_lt; mov.u32 %r0, %tid.y; setp.eq.u32 %p1, %r0, 0;"
                 "mov.u32 %r0, %tid.x; @%p1 exit; setp.ne.u32 %p1, %r0, 7; @%p1 exit; cvt.u32.u16 %r0, %h0;"
                 "cvt.u32.u16 %r1, %h1; mov.b32 %r2, 0; mov.b32 %r3, 0;"),
            (std::vector<uint32_t>{3, 0x7fff, 0, 0}));
}

}  // namespace
}  // namespace stagecraft::emulator::machine
