// Tests what is said beside findings: a note about a kernel, and NaN in the results of a program that ends with an
// error.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "emulator/runtime/model/kernel_runs.hpp"
#include "emulator/runtime/model/launch_history.hpp"
#include "emulator/runtime/model/memory_operations.hpp"
#include "emulator/runtime/model/reporting.hpp"
#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::runtime {
namespace {

class NotesTest : public machine::KernelTest {
 protected:
  /// What is reported.
  template <typename Tell>
  static std::string reported(Tell tell) {
    Reporter reporter;
    reporter.configure(Settings{});
    testing::internal::CaptureStderr();
    tell(reporter);
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(NotesTest, SayOnceThatSetmaxnregHasNoEffectWithoutBounds) {
  const machine::Kernel& kernel =
      compile_body("setmaxnreg.dec.sync.aligned.u32 24;\nsetmaxnreg.inc.sync.aligned.u32 240;\n");
  std::set<std::string> noted;
  const auto tell = [&](Reporter& reporter) { tell_ignored_registers(reporter, noted, kernel); };
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "note: setmaxnreg has no effect in kernel", reported(tell));
  EXPECT_EQ(reported(tell), "");
  noted.clear();
  const machine::Kernel& plain = compile_body("bar.sync 0;\n");
  EXPECT_EQ(reported([&](Reporter& reporter) { tell_ignored_registers(reporter, noted, plain); }), "");
}

TEST_F(NotesTest, SayThatCopiedResultsAreNanAsFreshMemoryIs) {
  const uint64_t results = allocate<uint32_t>(8);
  const Box box{.width = 32, .rows = 1, .depth = 1};
  CopiedNan nan;
  auto* const words = reinterpret_cast<uint32_t*>(machine::DeviceMemory::host(results));
  std::fill_n(words, 8, 0x3f800000u);
  const auto note = [&] {
    note_nan(machine.memory(), reinterpret_cast<const void*>(results), Layout{32, 32}, box, nan);
  };
  note();
  EXPECT_EQ(nan.count, 0u);
  words[3] = 0x7fffffff;
  words[5] = machine::kPoisonPattern;
  note();
  EXPECT_EQ(nan.count, 2u);
  EXPECT_EQ(nan.first, 12u);
  EXPECT_FALSE(nan.fresh);
  const std::string text = reported([&](Reporter& reporter) { tell_nan(reporter, nan, false); });
  for (const char* words_of_it : {"2 words that it has copied from", "first at byte 12", "--checks global names"}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, words_of_it, text);
  }
  EXPECT_EQ(reported([&](Reporter& reporter) {
              machine::Diagnostic race;
              race.kind = "race";
              reporter.report(race);
              tell_nan(reporter, nan, false);
            }).find("copied"),
            std::string::npos);
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
