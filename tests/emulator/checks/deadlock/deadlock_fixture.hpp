// Runs kernels that end in a deadlock, and knows which rule explained each.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "emulator/checks/deadlock/barrier_history.hpp"
#include "emulator/checks/deadlock/rules.hpp"
#include "emulator/checks/deadlock/sleepers.hpp"
#include "emulator/checks/reporting/report.hpp"
#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::checks {

/// After each test: the rules that name it as theirs must each have explained one of its deadlocks.
class DeadlockFixture : public machine::KernelTest {
 protected:
  using KernelTest::KernelTest;
  /// Launches a kernel whose deadlock is all that is found, and returns the report.
  std::string report_of(const machine::Kernel& kernel, uint32_t threads) {
    const machine::LaunchResult result = launch(kernel, {cluster.x, 1, 1}, {threads, 1, 1}, uint64_t{0});
    EXPECT_EQ(result.fault, machine::FaultKind::deadlock);
    EXPECT_EQ(result.diagnostics.size(), 1u);
    return result.diagnostics.empty() ? std::string() : render_text(result.diagnostics[0]);
  }
  static void expect_words(const std::string& text, const std::vector<std::string>& words) {
    for (const std::string& word : words)
      EXPECT_NE(text.find(word), std::string::npos) << "no: " << word << "\n" << text;
  }

  void TearDown() override {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    const std::string name = std::string(test.test_suite_name()) + "." + test.name();
    for (const Rule& rule : rules()) {
      if (rule.test != name) continue;
      EXPECT_NE(std::find(spoken_.begin(), spoken_.end(), &rule), spoken_.end())
          << "rule " << &rule - rules().data() << " of the table names this test, and explained none of its deadlocks";
    }
  }

 private:
  /// Explains each deadlock as DeadlockCheck does.
  class Listener final : public machine::Observer {
   public:
    explicit Listener(std::vector<const Rule*>& spoken) : spoken_(spoken) {}
    void block_started(const machine::Block& block) override { forget(histories_, block); }
    void barrier_changed(const machine::BarrierEvent& event) override { record(histories_, event); }
    void cluster_stuck(const machine::Cluster& cluster, machine::Diagnostic&) override {
      const Sleepers sleepers(cluster, histories_);
      const std::vector<Explanation> explanations = explain(sleepers);
      spoken_.push_back(explanations.front().rule);
      // A wait that others of its warp hold up is never the one that a report is about.
      for (const Explanation& each : explanations) {
        if (each.weight == Weight::held_up) spoken_.push_back(each.rule);
      }
    }

   private:
    BarrierHistories histories_;
    std::vector<const Rule*>& spoken_;
  };

  std::vector<std::unique_ptr<machine::Observer>> make_checks() const override {
    auto made = KernelTest::make_checks();
    made.push_back(std::make_unique<Listener>(spoken_));
    return made;
  }

  mutable std::vector<const Rule*> spoken_;
};

}  // namespace stagecraft::emulator::checks
