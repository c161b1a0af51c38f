// mov between vectors and special registers, in kernels given as PTX.
#include <string>
#include <vector>

#include "emulator/ptx/diagnostics.hpp"
#include "kernel_fixture.hpp"

namespace stagecraft::emulator::machine {
namespace {

class MovesTest : public KernelTest {
 protected:
  std::vector<uint32_t> run(const std::string& body, Extent3 grid = {1, 1, 1}, Extent3 block = {1, 1, 1}) {
    const uint64_t address = allocate<uint32_t>(4, 99);
    const LaunchResult result = launch(compile_body(body), grid, block, address);
    EXPECT_FALSE(result.fault) << (result.diagnostics.empty() ? "" : result.diagnostics[0].message);
    return read<uint32_t>(address, 4);
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

TEST_F(MovesTest, ReadsASpecialRegisterWithAllItsComponents) {
  const std::string store = "st.global.v4.u32 [%out], {%r1, %r2, %r3, %r4};";
  EXPECT_EQ(run("mov.v4.u32 {%r1, %r2, %r3, %r4}, %nctaid;" + store, {2, 3, 4}), (std::vector<uint32_t>{2, 3, 4, 0}));
  EXPECT_EQ(run("mov.v4.b32 {%r1, %r2, %r3, %r4}, %ntid;" + store, {1, 1, 1}, {4, 2, 3}),
            (std::vector<uint32_t>{4, 2, 3, 0}));
  // As FlashInfer reads it.
  EXPECT_EQ(run("mov.u32 %r4, 7; mov.v4.u32 {%r1, %r2, %r3, _}, %nclusterid;" + store, {5, 1, 6}),
            (std::vector<uint32_t>{5, 1, 6, 7}));
  EXPECT_EQ(run(".reg .v4 .u32 %v; mov.v4.u32 %v, %ntid; st.global.v4.u32 [%out], %v;", {1, 1, 1}, {1, 2, 3}),
            (std::vector<uint32_t>{1, 2, 3, 0}));
}

TEST_F(MovesTest, ReadsAllElementsBeforeTheFirstIsWritten) {
  EXPECT_EQ(run(R"(mov.u32 %r1, 1; mov.u32 %r2, 2; mov.u32 %r3, 3; mov.u32 %r4, 4;
                   mov.v4.u32 {%r4, %r1, %r2, %r3}, {%r1, %r2, %r3, %r4}; mov.v2.b32 {%r1, %r2}, {%r2, %r1};
                   st.global.v4.u32 [%out], {%r1, %r2, %r3, %r4};)"),
            (std::vector<uint32_t>{3, 2, 4, 1}));
}

TEST_F(MovesTest, RefusesVectorsOfAnotherLength) {
  EXPECT_NE(refusal_of("mov.v2.u32 {%r1, %r2}, %tid;").find("for .v4, a special register such as %tid"),
            std::string::npos);
  EXPECT_NE(refusal_of("mov.v4.u32 {%r1, %r2, %r3, %r4}, %laneid;").find("legal sources"), std::string::npos);
  EXPECT_NE(refusal_of("mov.v2.u32 {%r1, %r2}, {%r1, %r2, %r3, %r4};").find("both vectors must have 2 elements"),
            std::string::npos);
}

}  // namespace
}  // namespace stagecraft::emulator::machine
