// Explores launches of PTX, in other schedules or in all interleavings.
#pragma once

#include <string>
#include <vector>

#include "emulator/exploration/exploration.hpp"
#include "emulator/scheduling/schedule.hpp"
#include "fixtures/race_fixture.hpp"

namespace stagecraft::emulator::exploration {

using checks::render_text;
using machine::ChosenSchedule;
using machine::Diagnostic;
using machine::LaunchResult;

/// About so many cycles of computing, in which others overtake.
inline std::string work(uint32_t instructions) {
  static int labels = 0;
  const std::string label = "WORK" + std::to_string(++labels);
  return fmt::format("mov.u32 %r15, 0; {0}: add.u32 %r15, %r15, 1; setp.lt.u32 %p15, %r15, {1}; @%p15 bra {0};", label,
                     instructions / 3);
}
/// A wait until the phase of this parity has ended.
inline std::string wait(const std::string& barrier, uint32_t parity) {
  static int labels = 0;
  const std::string label = "WAIT" + std::to_string(++labels);
  return fmt::format("{0}: mbarrier.try_wait.parity.shared.b64 %p14, [{1}], {2}; @!%p14 bra {0};", label, barrier,
                     parity);
}

class ExplorationTest : public checks::RaceTest {
 protected:
  /// Explores a launch, and returns what is reported.
  std::vector<Diagnostic> explore(const std::string& body, Shape shape, uint64_t schedules) {
    request_ = request_of(body, shape, seed);
    std::vector<Diagnostic> reported;
    found_ = exploration_.explore({.machine = machine,
                                   .request = request_,
                                   .number = 3,
                                   .interleavings = interleavings,
                                   .schedules = schedules,
                                   .threads = threads,
                                   .lanes = lanes,
                                   .checks_global = true,
                                   .observers = [this] { return make_checks(); },
                                   .report = [&](const Diagnostic& report) { reported.push_back(report); }});
    EXPECT_EQ(found_, !reported.empty());
    return reported;
  }

  static machine::Schedule schedule_of(const Diagnostic& report) {
    for (const std::string& detail : report.details) {
      const size_t at = detail.find("--schedule 3:");
      if (at != std::string::npos) return machine::parse_schedule(detail.substr(at + 13)).value();
    }
    ADD_FAILURE() << "no schedule";
    return {};
  }

  /// Expects that the default schedule shows nothing, that one mistake of this kind is found in that many schedules,
  /// and that so many switches replay it.
  void expect_found(const std::string& body, Shape shape, uint64_t schedules, const std::string& kind,
                    size_t switches) {
    expect_silence(run(body, shape));
    const std::vector<Diagnostic> reported = explore(body, shape, schedules);
    ASSERT_FALSE(reported.empty()) << exploration_.text();
    EXPECT_EQ(reported[0].kind, kind) << render_text(reported[0]);
    const machine::Schedule schedule = schedule_of(reported[0]);
    EXPECT_LE(schedule.size(), switches) << render_text(reported[0]);
    for (int i = 0; i < 2; ++i) {
      ChosenSchedule choices(schedule);
      request_.choices = &choices;
      const LaunchResult replayed =
          machine.launch(request_, {}, [](std::string_view) {}, {[this] { return make_checks(); }, 1});
      EXPECT_EQ(choices.made(), schedule);
      ASSERT_FALSE(replayed.diagnostics.empty());
      EXPECT_EQ(replayed.diagnostics[0].kind, reported[0].kind);
      EXPECT_EQ(replayed.diagnostics[0].message, reported[0].message);
    }
    // None of the switches can be left out.
    for (size_t left_out = 0; left_out < schedule.size(); ++left_out) {
      machine::Schedule rest = schedule;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(left_out));
      ChosenSchedule choices(rest);
      request_.choices = &choices;
      const LaunchResult result =
          machine.launch(request_, {}, [](std::string_view) {}, {[this] { return make_checks(); }, 1});
      for (const Diagnostic& each : result.diagnostics) EXPECT_NE(each.kind, kind) << render_text(each);
    }
  }
  /// What the checks of memory say in any schedule is hidden where they are off.
  std::vector<std::unique_ptr<machine::Observer>> make_checks() const override {
    return checks::make_checks(checks_memory);
  }
  void expect_right(const std::string& body, Shape shape, uint64_t schedules) {
    const std::vector<Diagnostic> reported = explore(body, shape, schedules);
    EXPECT_TRUE(reported.empty()) << render_text(reported[0]);
    EXPECT_EQ(said(), fmt::format("explored {} schedules: nothing found", schedules));
  }

  /// Expects that one of all interleavings shows a mistake of this kind, and the default schedule none.
  void expect_refuted(const std::string& body, Shape shape, const std::string& kind) {
    expect_silence(run(body, shape));
    interleavings = 10'000;
    const std::vector<Diagnostic> reported = explore(body, shape, 0);
    ASSERT_FALSE(reported.empty()) << exploration_.text();
    EXPECT_EQ(reported[0].kind, kind) << render_text(reported[0]);
  }
  /// Expects that all interleavings are run, so many, and that none shows a mistake.
  void expect_proved(const std::string& body, Shape shape, const std::string& count) {
    interleavings = 10'000;
    const std::vector<Diagnostic> reported = explore(body, shape, 0);
    EXPECT_TRUE(reported.empty()) << render_text(reported[0]);
    const bool proves = exploration_.text().find('\n') == std::string::npos;
    EXPECT_EQ(said(), fmt::format("all {}{} explored: nothing found", count, proves ? "" : " of the synchronisation"));
  }
  /// What an exploration says, without what was not varied.
  std::string said() const { return exploration_.text().substr(0, exploration_.text().find('\n')); }

  bool checks_memory = true;
  bool lanes = false;
  uint64_t interleavings = 0;
  Exploration exploration_;
  machine::LaunchRequest request_;
  bool found_ = false;
};

inline const std::string kInit = R"(
    @%first mbarrier.init.shared.b64 [bar], 1;
    @%first mbarrier.init.shared.b64 [bar+8], 1;
    @%first mbarrier.init.shared.b64 [bar+16], 1;
    bar.sync 0;
    setp.eq.u32 %p1, %lane, 0; setp.eq.u32 %p2, %warp, 0; setp.eq.u32 %p3, %warp, 1;
)";

/// A ring of two stages: lane 0 of warp 0 copies six tiles, warp 1 reads them. `release` comes after its reads.
inline std::string ring(const std::string& release) {
  std::string text = R"(
    @%first mbarrier.init.shared.b64 [bar], 1;
    @%first mbarrier.init.shared.b64 [bar+8], 1;
    @%first mbarrier.init.shared.b64 [bar+16], 32;
    @%first mbarrier.init.shared.b64 [bar+24], 32;
    bar.sync 0;
    mov.u32 %r5, 0;
    setp.eq.u32 %p2, %warp, 0; @!%p2 bra READS;
    @!%first bra END;
    )";
  for (uint32_t tile = 0; tile < 6; ++tile) {
    const uint32_t stage = tile % 2, parity = tile / 2 % 2;
    text += wait(fmt::format("bar+{}", 16 + 8 * stage), parity ^ 1) + "\n";
    text += fmt::format(
        "mbarrier.arrive.expect_tx.shared.b64 _, [bar+{0}], 128;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile+{1}], [%out], 128, "
        "[bar+{0}];\n",
        8 * stage, 128 * stage);
  }
  text += "bra END;\nREADS:\n";
  for (uint32_t tile = 0; tile < 6; ++tile) {
    const uint32_t stage = tile % 2, parity = tile / 2 % 2;
    text += wait(fmt::format("bar+{}", 8 * stage), parity) + "\n";
    text += fmt::format("ld.shared.u32 %r6, [%own+{}]; add.u32 %r5, %r5, %r6;\n", 128 * stage - 128);
    text += fmt::format("{} [bar+{}];\n", release, 16 + 8 * stage);
  }
  return text + "END:\n";
}

}  // namespace stagecraft::emulator::exploration
