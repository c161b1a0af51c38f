// The table of special registers against what kernels get when they read them.
#include "emulator/ptx/special_registers.hpp"

#include "emulator/ptx/diagnostics.hpp"
#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::machine {
namespace {

class SpecialRegistersTest : public KernelTest {
 protected:
  static constexpr uint64_t kUntouched = 0xdead'beef'dead'beef;

  /// The width of the register, as ptxas lets `mov` read it.
  static uint32_t bits_of(const ptx::SpecialRegister& known) {
    const bool wide = known.name == "gridid" || known.name == "globaltimer" || known.name.ends_with("64");
    return wide ? 64 : 32;
  }
  static std::string mov(const ptx::SpecialRegister& known) {
    return fmt::format("mov.u{0} %{1}0, %{2};", bits_of(known), bits_of(known) == 64 ? "rd" : "r", known.name);
  }

  /// What one thread reads, or the sentence that refuses it.
  std::string read_or_refusal(const ptx::SpecialRegister& known) {
    const uint64_t out = allocate<uint64_t>(1, kUntouched);
    const std::string store =
        bits_of(known) == 64 ? "st.global.u64 [%out], %rd0;" : "cvt.u64.u32 %rd0, %r0; st.global.u64 [%out], %rd0;";
    try {
      const Kernel& kernel = compile_body(mov(known) + store);
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
            ? fmt::format("`mov.u{}`: special register %{} is not implemented as an operand here", bits_of(known),
                          known.name)
            : "value";
    EXPECT_EQ(read_or_refusal(known), expected) << known.name;
  }
}

TEST_F(SpecialRegistersTest, EachNameIsThereOnce) {
  for (const ptx::SpecialRegister& known : ptx::special_registers()) {
    EXPECT_EQ(ptx::find_special_register(known.name), &known) << known.name;
  }
}

TEST_F(SpecialRegistersTest, ThoseThatDependOnOtherClustersKeepTheGridWhole) {
  for (const ptx::SpecialRegister& known : ptx::special_registers()) {
    if (known.special == Special::none) continue;
    const Kernel& kernel = compile_body(mov(known));
    EXPECT_EQ(kernel.clusters_interact, !known.own_cluster_only) << known.name;
  }
}

}  // namespace
}  // namespace stagecraft::emulator::machine
