// All interleavings that are not equivalent are run: the results are those of all orders, in fewer runs.
#include "emulator/exploration/interleavings.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <set>
#include <vector>

namespace stagecraft::emulator::exploration {
namespace {

/// A program of actors, each a list of accesses to a few words. A write makes of a word what depends on the order.
struct Access {
  bool writes = false;
  uint64_t word = 0;
};
using Program = std::vector<std::vector<Access>>;

class Machine {
 public:
  explicit Machine(const Program& program) : program_(program), place_(program.size()), seen_(program.size()) {}

  std::vector<Actor> enabled() const {
    std::vector<Actor> actors;
    for (Actor actor = 0; actor < program_.size(); ++actor) {
      if (place_[actor] < program_[actor].size()) actors.push_back(actor);
    }
    return actors;
  }
  Step execute(Actor actor) {
    Step step{.actor = actor, .enabled = enabled(), .touches = {}};
    const Access& access = program_[actor][place_[actor]++];
    uint64_t& word = words_[access.word];
    if (access.writes) word = 31 * word + 7 * actor + place_[actor];
    if (!access.writes) seen_[actor] = 17 * seen_[actor] + word;
    step.touches.push_back(
        {Touch::Space::shared, access.writes ? Touch::Kind::write : Touch::Kind::read, access.word, access.word + 1});
    return step;
  }
  /// What shows in which order it was done.
  std::vector<uint64_t> result() const {
    std::vector<uint64_t> all = seen_;
    all.insert(all.end(), words_.begin(), words_.end());
    return all;
  }

 private:
  const Program& program_;
  std::vector<size_t> place_;
  std::vector<uint64_t> seen_, words_ = std::vector<uint64_t>(4);
};

using Results = std::set<std::vector<uint64_t>>;

void run_all_orders(const Machine& machine, Results& results, size_t& orders) {
  const std::vector<Actor> enabled = machine.enabled();
  if (enabled.empty()) {
    results.insert(machine.result());
    ++orders;
  }
  for (const Actor actor : enabled) {
    Machine next = machine;
    next.execute(actor);
    run_all_orders(next, results, orders);
  }
}

/// Returns how many runs were no repetition of others.
size_t search(const Program& program, Results& results) {
  Interleavings interleavings;
  size_t runs = 0;
  while (auto guide = interleavings.next()) {
    Machine machine(program);
    Trace trace;
    for (;;) {
      if (trace.size() >= guide->prefix.size() && !trace.empty()) wake(guide->asleep, trace.back());
      const std::vector<Actor> enabled = machine.enabled();
      if (enabled.empty()) {
        ++runs;
        results.insert(machine.result());
        break;
      }
      std::optional<Actor> chosen;
      if (trace.size() < guide->prefix.size()) chosen = guide->prefix[trace.size()];
      for (size_t i = 0; i < enabled.size() && !chosen; ++i) {
        if (!guide->asleep.contains(enabled[i])) chosen = enabled[i];
      }
      if (!chosen) break;
      trace.push_back(machine.execute(*chosen));
    }
    interleavings.add(trace);
  }
  return runs;
}

size_t runs_of(const Program& program) {
  Results results;
  return search(program, results);
}

TEST(InterleavingsTest, StepsThatCommuteAreRunInOneOrder) {
  EXPECT_EQ(runs_of({{{true, 0}, {true, 0}}, {{true, 1}, {true, 1}}, {{true, 2}}}), 1u);
  EXPECT_EQ(runs_of({{{false, 0}, {false, 0}}, {{false, 0}}}), 1u);
}

TEST(InterleavingsTest, StepsThatDoNotAreRunInEachOrder) {
  EXPECT_EQ(runs_of({{{true, 0}}, {{true, 0}}}), 2u);
  EXPECT_EQ(runs_of({{{true, 0}}, {{true, 0}}, {{true, 0}}}), 6u);
  EXPECT_EQ(runs_of({{{true, 0}, {true, 0}}, {{true, 0}, {true, 0}}}), 6u);
  EXPECT_EQ(runs_of({{{true, 0}}, {{false, 0}}}), 2u);
}

TEST(InterleavingsTest, TheResultsAreThoseOfAllOrders) {
  std::mt19937 random(1);
  for (int i = 0; i < 150; ++i) {
    Program program(2 + random() % 3);
    for (auto& actor : program) {
      for (uint32_t steps = 1 + random() % 3; steps > 0; --steps) actor.push_back({random() % 2 == 0, random() % 3});
    }
    Results all, found;
    size_t orders = 0;
    run_all_orders(Machine(program), all, orders);
    const size_t runs = search(program, found);
    EXPECT_EQ(found, all) << "program " << i;
    EXPECT_LE(runs, orders);
  }
}

TEST(StepsTest, ArrivalsOfOnePhaseCommuteAndItsEndOrdersTheWait) {
  const auto touch = [](Touch::Kind kind, uint64_t phase) { return Touch{Touch::Space::mbarrier, kind, 8, 16, phase}; };
  using Kind = Touch::Kind;
  EXPECT_FALSE(orders(touch(Kind::arrive, 3), touch(Kind::complete, 3)));
  EXPECT_TRUE(conflict(touch(Kind::arrive, 3), touch(Kind::complete, 3)));
  EXPECT_TRUE(conflict(touch(Kind::arrive, 3), touch(Kind::arrive, 4)));
  EXPECT_TRUE(conflict(touch(Kind::write, 0), touch(Kind::arrive, 4)));
  EXPECT_TRUE(orders(touch(Kind::arrive, 3), touch(Kind::wait, 4)));
  EXPECT_FALSE(races(touch(Kind::complete, 3), touch(Kind::wait, 4)));
  EXPECT_TRUE(races(touch(Kind::wait, 3), touch(Kind::complete, 3)));
  EXPECT_FALSE(conflict(touch(Kind::wait, 3), touch(Kind::arrive, 3)));
  EXPECT_TRUE(conflict(touch(Kind::blocked, 0), touch(Kind::complete, 3)));
  EXPECT_FALSE(races(touch(Kind::blocked, 0), touch(Kind::complete, 3)));
}

TEST(StepsTest, ATracesTextReadsBack) {
  const Trace trace{{5, {5, 6}, {{Touch::Space::global, Touch::Kind::write, 1, 9, 2}}, 3, Step::kNone}, {6, {6}, {}}};
  EXPECT_EQ(text_of(trace_of(text_of(trace))), text_of(trace));
  EXPECT_EQ(trace_of(text_of(trace)).size(), 2u);
}

}  // namespace
}  // namespace stagecraft::emulator::exploration
