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

/// A program of actors that also wait, in loops that read one or several words, one in a step, until all of them, or
/// one, have a value. A repetition in vain changes nothing.
struct Instruction {
  enum class Kind { write, read, await_all, await_any };
  Kind kind = Kind::read;
  std::vector<uint64_t> words{};
  uint64_t value = 0;
};
using WaitingProgram = std::vector<std::vector<Instruction>>;

class WaitingMachine {
 public:
  explicit WaitingMachine(const WaitingProgram& program) : program_(program), actors_(program.size()) {}

  /// What decides what comes next.
  std::vector<uint64_t> state() const {
    std::vector<uint64_t> all(words_.begin(), words_.end());
    for (const One& one : actors_) {
      all.push_back(one.place);
      all.push_back(one.read);
      all.push_back(one.equal);
      all.push_back(one.seen);
    }
    return all;
  }
  bool has_ended(Actor actor) const { return actors_[actor].place == program_[actor].size(); }
  /// Whether the actor, alone, would only come back to where it is.
  bool waits_in_vain(Actor actor) const {
    if (has_ended(actor) || actors_[actor].read != 0) return false;
    WaitingMachine alone = *this;
    const uint64_t place = actors_[actor].place;
    do alone.execute(actor);
    while (alone.actors_[actor].read != 0);
    return alone.actors_[actor].place == place;
  }
  size_t actors() const { return actors_.size(); }

  /// Executes a step of the actor. Returns what it touches.
  Touch execute(Actor actor) {
    One& one = actors_[actor];
    const Instruction& instruction = program_[actor][one.place];
    const uint64_t at = instruction.words[one.read];
    uint64_t& word = words_[at];
    switch (instruction.kind) {
      case Instruction::Kind::write:
        word = instruction.value;
        ++one.place;
        return {Touch::Space::shared, Touch::Kind::write, at, at + 1};
      case Instruction::Kind::read:
        one.seen = 17 * one.seen + word + 1;
        ++one.place;
        break;
      default:
        one.equal += word == instruction.value ? 1 : 0;
        if (++one.read < instruction.words.size()) break;
        const uint64_t needed = instruction.kind == Instruction::Kind::await_all ? instruction.words.size() : 1;
        if (one.equal >= needed) {
          one.seen = 17 * one.seen + one.equal;
          ++one.place;
        }
        one.read = one.equal = 0;
    }
    return {Touch::Space::shared, Touch::Kind::read, at, at + 1};
  }
  uint64_t place(Actor actor) const { return actors_[actor].place; }
  bool is_between(Actor actor) const { return actors_[actor].read != 0; }

 private:
  struct One {
    uint64_t place = 0;
    uint64_t read = 0, equal = 0;  ///< in this repetition: words, and those that had the value
    uint64_t seen = 0;
  };
  const WaitingProgram& program_;
  std::vector<One> actors_;
  std::vector<uint64_t> words_ = std::vector<uint64_t>(3);
};

/// Collects the states in which nothing can happen any more.
void find_ends(const WaitingMachine& machine, Results& visited, Results& ends) {
  if (!visited.insert(machine.state()).second) return;
  bool goes_on = false;
  for (Actor actor = 0; actor < machine.actors(); ++actor) {
    if (machine.has_ended(actor)) continue;
    goes_on = goes_on || !machine.waits_in_vain(actor);
    WaitingMachine next = machine;
    next.execute(actor);
    find_ends(next, visited, ends);
  }
  if (!goes_on) ends.insert(machine.state());
}

/// One run as DecidedRun does it. Returns whether it was no repetition of others.
bool run_waiting(const WaitingProgram& program, Guide guide, Trace& trace, Results& ends) {
  WaitingMachine machine(program);
  uint64_t writes = 0;
  struct Repetition {
    std::vector<size_t> steps{};
    uint64_t began = 0, idle_at = ~uint64_t{0};
    bool spins = false;
  };
  std::vector<Repetition> actors(program.size());
  for (;;) {
    const bool is_known = trace.size() < guide.prefix.size();
    if (!is_known && !trace.empty()) wake(guide.asleep, trace.back());
    Step step;
    for (Actor actor = 0; actor < machine.actors(); ++actor) {
      if (machine.has_ended(actor)) continue;
      (actors[actor].idle_at == writes ? step.repeating : step.enabled).push_back(actor);
    }
    if (step.enabled.empty()) {
      ends.insert(machine.state());
      return true;
    }
    std::optional<Actor> chosen;
    if (is_known) chosen = guide.prefix[trace.size()];
    for (const bool spins : {false, true}) {
      for (const Actor actor : step.enabled) {
        if (!chosen && !guide.asleep.contains(actor) && actors[actor].spins == spins) chosen = actor;
      }
    }
    if (!chosen) return false;
    step.actor = *chosen;
    Repetition& repetition = actors[*chosen];
    if (!machine.is_between(*chosen)) repetition = {.began = writes};
    repetition.steps.push_back(trace.size());
    repetition.spins = false;
    const uint64_t place = machine.place(*chosen);
    step.touches.push_back(machine.execute(*chosen));
    writes += step.touches[0].kind == Touch::Kind::write ? 1 : 0;
    trace.push_back(std::move(step));
    if (machine.place(*chosen) != place || machine.is_between(*chosen)) continue;
    for (const size_t i : repetition.steps) {
      trace[i].idle = i == repetition.steps[0] ? Step::Idle::first : Step::Idle::next;
    }
    repetition.spins = true;
    if (repetition.began == writes) repetition.idle_at = writes;
  }
}

size_t search(const WaitingProgram& program, Results& ends) {
  Interleavings interleavings;
  size_t runs = 0;
  while (const auto guide = interleavings.next()) {
    Trace trace;
    runs += run_waiting(program, *guide, trace, ends) ? 1 : 0;
    interleavings.add(trace);
  }
  return runs;
}

TEST(InterleavingsTest, AWaitForAFlagNeedsOneRun) {
  using Kind = Instruction::Kind;
  Results ends;
  EXPECT_EQ(search({{{Kind::await_all, {0}, 1}}, {{Kind::write, {0}, 1}}}, ends), 1u);
  // Each of two waits for what the other has written, in turn.
  const WaitingProgram turns{{{Kind::await_all, {0}, 1}, {Kind::write, {1}, 1}, {Kind::await_all, {0}, 2}},
                             {{Kind::write, {0}, 1}, {Kind::await_all, {1}, 1}, {Kind::write, {0}, 2}}};
  EXPECT_EQ(search(turns, ends), 1u);
}

TEST(InterleavingsTest, LoopsThatWaitEndAsInAllOrders) {
  std::mt19937 random(2);
  for (int i = 0; i < 3000; ++i) {
    WaitingProgram program(2 + random() % 2);
    for (auto& actor : program) {
      for (uint32_t steps = 1 + random() % 4; steps > 0; --steps) {
        Instruction instruction{static_cast<Instruction::Kind>(random() % 4), {random() % 3}, 1 + random() % 2};
        const bool awaits = instruction.kind >= Instruction::Kind::await_all;
        if (awaits && random() % 2 == 0) instruction.words.push_back(random() % 3);
        if (awaits && random() % 4 == 0) instruction.value = 0;
        actor.push_back(instruction);
      }
    }
    Results visited, all, found;
    find_ends(WaitingMachine(program), visited, all);
    search(program, found);
    ASSERT_EQ(found, all) << "program " << i;
  }
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
