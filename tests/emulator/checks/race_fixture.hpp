// Runs PTX under the race check. Every line of a body counts as a line of "f.cu", so that reports can be told apart.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <sstream>
#include <string>

#include "../machine/kernel_fixture.hpp"
#include "emulator/checks/race.hpp"
#include "emulator/checks/report.hpp"

namespace stagecraft::emulator::checks {

class RaceTest : public machine::KernelTest {
 protected:
  RaceTest() {
    machine.announce_memory_events(true);
    threads = 1;
  }

  std::string variables = ".shared .align 128 .b8 tile[4096];\n.shared .align 8 .b64 bar[8];\n";
  std::function<void(uint64_t out)> prepare;  ///< called before a launch

  struct Shape {
    uint32_t threads = 64, blocks = 1, cluster_blocks = 1;
  };

  /// %thread, %lane, %warp and the thread's own word, %own, are there; `tile` has 4 KiB, `bar` eight mbarriers. The
  /// first line of `body` is line 1.
  machine::LaunchResult run(const std::string& body, Shape shape, uint64_t seed_of_run = 0) {
    std::string text =
        ".reg .b32 %thread, %lane, %warp, %own, %other, %rank; .reg .pred %first;\n"
        "mov.u32 %thread, %tid.x; and.b32 %lane, %thread, 31; shr.u32 %warp, %thread, 5; mov.u32 %rank, "
        "%cluster_ctarank;\n"
        "mov.u32 %own, tile; mad.lo.u32 %own, %thread, 4, %own; setp.eq.u32 %first, %thread, 0;\n";
    std::istringstream lines(body);
    std::string line;
    for (uint32_t number = 1; std::getline(lines, line); ++number) {
      if (line.find(';') != std::string::npos) text += fmt::format(".loc 1 {} 0\n", number);
      text += line + "\n";
    }
    machine::Kernel& kernel = compile_body(text, ".file 1 \"f.cu\"\n" + variables);
    machine::LaunchRequest request;
    request.kernel = &kernel;
    request.grid.x = shape.blocks;
    request.block.x = shape.threads;
    request.cluster.x = shape.cluster_blocks;
    request.explicit_cluster = shape.cluster_blocks > 1;
    request.seed = seed_of_run;
    request.parameters.resize(kernel.parameter_bytes);
    const uint64_t out = allocate<uint32_t>(4096);
    std::memcpy(request.parameters.data(), &out, sizeof out);
    if (prepare) prepare(out);
    return machine.launch(request, {}, [](std::string_view) {}, {[this] { return make_checks(); }, threads});
  }
  machine::LaunchResult run(const std::string& body) { return run(body, Shape{}); }

  std::vector<std::unique_ptr<machine::Observer>> make_checks() const override {
    std::vector<std::unique_ptr<machine::Observer>> made = KernelTest::make_checks();
    made.push_back(std::make_unique<RaceCheck>());
    return made;
  }

  static std::string text_of(const machine::LaunchResult& result) {
    std::string text;
    for (const machine::Diagnostic& diagnostic : result.diagnostics) text += render_text(diagnostic);
    return text;
  }
  /// "f.cu:7", the line of `body` that this text is in; it must be there once.
  static std::string line_of(const std::string& body, const std::string& text) {
    const size_t at = body.find(text);
    EXPECT_NE(at, std::string::npos) << "no: " << text;
    EXPECT_EQ(body.find(text, at + 1), std::string::npos) << "twice: " << text;
    return fmt::format("f.cu:{}", 1 + std::count(body.begin(), body.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
  }
  /// `body` with another text in place of this one, which is there once.
  static std::string with(std::string body, const std::string& text, const std::string& instead) {
    const size_t at = body.find(text);
    EXPECT_NE(at, std::string::npos) << "no: " << text;
    EXPECT_EQ(body.find(text, at + 1), std::string::npos) << "twice: " << text;
    return at == std::string::npos ? body : body.replace(at, text.size(), instead);
  }
  static std::string without(std::string body, const std::string& text) { return with(std::move(body), text, ""); }

  static void expect_silence(const machine::LaunchResult& result) {
    EXPECT_TRUE(result.diagnostics.empty()) << text_of(result);
    EXPECT_FALSE(result.fault.has_value());
  }
  /// The kernel was stopped by this kind of fault; its report has all these words.
  static void expect_one_fault(const machine::LaunchResult& result, const std::string& kind,
                               const std::vector<std::string>& words) {
    const std::string text = text_of(result);
    EXPECT_TRUE(result.fault.has_value());
    ASSERT_EQ(result.diagnostics.size(), 1u) << text;
    EXPECT_EQ(result.diagnostics[0].kind, kind) << text;
    for (const std::string& word : words)
      EXPECT_NE(text.find(word), std::string::npos) << "no: " << word << "\n" << text;
  }
  /// One finding of this kind with all these words, and the launch has failed for it.
  static void expect_one(const machine::LaunchResult& result, const std::string& kind,
                         const std::vector<std::string>& words) {
    const std::string text = text_of(result);
    EXPECT_EQ(result.fault, machine::FaultKind::launch_failure) << text;
    ASSERT_EQ(result.diagnostics.size(), 1u) << text;
    EXPECT_EQ(result.diagnostics[0].kind, kind) << text;
    for (const std::string& word : words)
      EXPECT_NE(text.find(word), std::string::npos) << "no: " << word << "\n" << text;
  }
};

}  // namespace stagecraft::emulator::checks
