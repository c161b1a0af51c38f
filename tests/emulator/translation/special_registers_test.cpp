// The table of special registers against what kernels get when they read them.
#include "emulator/ptx/special_registers.hpp"

#include "emulator/ptx/diagnostics.hpp"
#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::machine {
namespace {

class SpecialRegistersTest : public KernelTest {
 protected:
  static constexpr uint64_t kUntouched = 0xdead'beef'dead'beef;

  /// What one thread reads, or the sentence that refuses it.
  std::string read_or_refusal(std::string_view name) {
    const uint64_t out = allocate<uint64_t>(1, kUntouched);
    try {
      const Kernel& kernel = compile_body(fmt::format("mov.u64 %rd0, %{}; st.global.u64 [%out], %rd0;", name));
      const LaunchResult result = launch(kernel, {1, 1, 1}, {1, 1, 1}, out);
      if (result.fault) return "fault: " + message_of(result);
      return read<uint64_t>(out, 1)[0] == kUntouched ? "untouched" : "value";
    } catch (const ptx::UnsupportedInstruction& error) {
      return error.message();
    }
  }
};

TEST_F(SpecialRegistersTest, EachThatTheParserAcceptsHasAValueOrIsRefusedWithASentence) {
  EXPECT_GT(ptx::special_registers().size(), 90u);
  for (const ptx::SpecialRegister& known : ptx::special_registers()) {
    const std::string expected =
        known.special == Special::none
            ? fmt::format("`mov.u64`: special register %{} is not implemented as an operand here", known.name)
            : "value";
    EXPECT_EQ(read_or_refusal(known.name), expected) << known.name;
  }
}

TEST_F(SpecialRegistersTest, EachNameIsThereOnce) {
  for (const ptx::SpecialRegister& known : ptx::special_registers()) {
    EXPECT_EQ(ptx::find_special_register(known.name), &known) << known.name;
  }
}

TEST_F(SpecialRegistersTest, ThoseThatTellOfOtherClustersKeepTheGridWhole) {
  for (const ptx::SpecialRegister& known : ptx::special_registers()) {
    if (known.special == Special::none) continue;
    const Kernel& kernel = compile_body(fmt::format("mov.u64 %rd0, %{};", known.name));
    EXPECT_EQ(kernel.clusters_interact, !known.own_cluster_only) << known.name;
  }
}

}  // namespace
}  // namespace stagecraft::emulator::machine
