// Compares the race check with a comparison of every access with every other, on random kernels.
#include <map>
#include <random>
#include <regex>
#include <utility>
#include <vector>

#include "fixtures/race_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

enum class Kind { block_barrier, warp_barrier, load, store, add };

/// Thread t accesses `bytes` bytes at ((t ^ flip) * step + offset) of the tile, modulo its size, if t < threads.
struct Statement {
  Kind kind;
  uint32_t bytes = 4, step = 4, offset = 0, flip = 0, threads = 1024;
  bool is_volatile = false, same_value = false;

  bool accesses() const { return kind >= Kind::load; }
  bool writes() const { return kind > Kind::load; }
  bool strong() const { return is_volatile || kind == Kind::add; }
  uint32_t address(uint32_t thread) const { return ((thread ^ flip) * step + offset) & (kTile - 1) & ~(bytes - 1); }

  static constexpr uint32_t kTile = 512;
};

struct Program {
  uint32_t threads, rounds;
  std::vector<Statement> statements;  ///< the first is line 3
  static constexpr uint32_t kFirstLine = 3;
};

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  uint32_t below(uint32_t end) { return static_cast<uint32_t>(engine_() % end); }
  bool one_in(uint32_t count) { return below(count) == 0; }
  uint32_t one_of(std::initializer_list<uint32_t> values) { return values.begin()[below(values.size())]; }

 private:
  std::mt19937_64 engine_;
};

Program make_program(uint64_t seed) {
  Dice dice(seed);
  Program program{dice.one_of({32, 64, 64, 96}), dice.one_of({1, 1, 2, 6}), {}};
  const uint32_t count = 3 + dice.below(10);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t kind = dice.below(20);
    Statement statement{kind < 5    ? Kind::block_barrier
                        : kind < 8  ? Kind::warp_barrier
                        : kind < 14 ? Kind::load
                        : kind < 18 ? Kind::store
                                    : Kind::add};
    if (statement.kind != Kind::add) statement.bytes = dice.one_of({4, 4, 4, 4, 1, 2, 8});
    statement.step = dice.one_of({4, 4, 4, 8, 0, 12, 20, 132});
    statement.offset = dice.one_of({0, 0, 4, 8, 256}) + (statement.bytes == 1 ? dice.below(4) : 0);
    statement.flip = dice.one_of({0, 0, 0, 1, 2, 16, 32});
    statement.threads = dice.one_of({1024, 1024, 1024, 1, 5, 16, 40});
    statement.is_volatile = statement.kind != Kind::add && dice.one_in(6);
    statement.same_value = dice.one_in(2);
    program.statements.push_back(statement);
  }
  return program;
}

std::string spell(const Statement& statement) {
  if (statement.kind == Kind::block_barrier) return "bar.sync 0;\n";
  if (statement.kind == Kind::warp_barrier) return "bar.warp.sync 0xffffffff;\n";
  const std::map<uint32_t, std::string> types{{1, "u8"}, {2, "u16"}, {4, "u32"}, {8, "v2.u32"}};
  const auto value = [&](const std::string& one) { return statement.bytes == 8 ? "{" + one + ", " + one + "}" : one; };
  const std::string form =
      (statement.is_volatile ? ".volatile" : "") + std::string(".shared.") + types.at(statement.bytes);
  const std::string instruction =
      statement.kind == Kind::load ? fmt::format("ld{} {}, [%r2];", form, statement.bytes == 8 ? "{%r5, %r6}" : "%r5")
      : statement.kind == Kind::store
          ? fmt::format("st{} [%r2], {};", form, value(statement.same_value ? "%r4" : "%thread"))
          : "red.shared.add.u32 [%r2], 1;";
  return fmt::format(
      "xor.b32 %r2, %thread, {}; mad.lo.u32 %r2, %r2, {}, {}; and.b32 %r2, %r2, {}; mov.u32 %r3, tile; "
      "add.u32 %r2, %r2, %r3; setp.lt.u32 %p1, %thread, {}; @%p1 {}\n",
      statement.flip, statement.step, statement.offset, (Statement::kTile - 1) & ~(statement.bytes - 1),
      statement.threads, instruction);
}

using Lines = std::pair<uint32_t, uint32_t>;
using Pairs = std::set<Lines>;

struct Access {
  uint32_t thread, line, warp_barriers;
  uint64_t executed;  ///< statements before
  bool writes, strong;
};

/// Whether several threads of one warp access a byte in one instruction, and all of them wrote it in an earlier one,
/// each to go on with what it wrote.
bool wrote_it(const std::vector<Access>& together, const std::vector<Access>& before, uint64_t executed) {
  return together.size() > 1 && std::all_of(together.begin(), together.end(), [&](const Access& now) {
           return std::any_of(before.begin(), before.end(), [&](const Access& access) {
             return access.writes && access.thread == now.thread && access.executed == executed;
           });
         });
}

/// Two accesses of a byte race unless both read or both are strong, one thread makes them, or a barrier of the block
/// or of their warp separates them.
Pairs races_of(const Program& program) {
  Pairs races;
  std::map<uint32_t, std::vector<Access>> bytes;  // since the last barrier of the block
  uint32_t warp_barriers = 0;
  uint64_t executed = 0;
  for (uint32_t round = 0; round < program.rounds; ++round) {
    for (uint32_t i = 0; i < program.statements.size(); ++i, ++executed) {
      const Statement& now = program.statements[i];
      const uint32_t line = Program::kFirstLine + i;
      if (now.kind == Kind::block_barrier) bytes.clear();
      if (!now.accesses()) {
        ++warp_barriers;
        continue;
      }
      std::map<std::pair<uint32_t, uint32_t>, std::vector<Access>> together;  // by byte and warp
      for (uint32_t thread = 0; thread < std::min(program.threads, now.threads); ++thread) {
        for (uint32_t byte = 0; byte < now.bytes; ++byte) {
          together[{now.address(thread) + byte, thread / 32}].push_back(
              {thread, line, warp_barriers, executed, now.writes(), now.strong()});
        }
      }
      for (const auto& [place, accesses] : together) {
        std::vector<Access>& before = bytes[place.first];
        const bool lanes_differ = now.kind == Kind::store && !now.strong() && !now.same_value && accesses.size() > 1;
        if (lanes_differ) races.emplace(line, line);
        for (const Access& past : before) {
          if (!(past.writes || now.writes()) || (past.strong && now.strong())) continue;
          if (std::all_of(accesses.begin(), accesses.end(),
                          [&](const Access& each) { return each.thread == past.thread; }))
            continue;
          const bool one_warp = past.thread / 32 == place.second;
          const bool in_order = past.warp_barriers != warp_barriers || wrote_it(accesses, before, past.executed);
          if (!one_warp || !in_order) races.emplace(std::min(past.line, line), std::max(past.line, line));
        }
        before.insert(before.end(), accesses.begin(), accesses.end());
      }
    }
  }
  return races;
}

class RandomRaceTest : public RaceTest {
 protected:
  Pairs found_in(const Program& program, uint64_t seed) {
    std::string body = "mov.u32 %r4, 7; mov.u32 %r9, 0;\nAGAIN:\n";
    for (const Statement& statement : program.statements) body += spell(statement);
    body += fmt::format("add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, {}; @%p2 bra AGAIN;", program.rounds);
    const machine::LaunchResult result = run(body, {.threads = program.threads}, seed);
    Pairs found;
    for (const machine::Diagnostic& diagnostic : result.diagnostics) {
      const std::string text = render_text(diagnostic);
      const std::regex line("f\\.cu:([0-9]+)");
      std::vector<uint32_t> lines;
      for (std::sregex_iterator each(text.begin(), text.end(), line), end; each != end; ++each) {
        lines.push_back(static_cast<uint32_t>(std::stoul((*each)[1])));
      }
      if (lines.size() == 1) lines.push_back(lines[0]);  // of one instruction
      if (lines.size() < 2) ADD_FAILURE() << text;
      if (lines.size() >= 2) found.emplace(std::min(lines[0], lines[1]), std::max(lines[0], lines[1]));
    }
    return found;
  }
};

TEST_F(RandomRaceTest, FindsRacesWhereThereAreAndOnlyThere) {
  uint32_t racing = 0, silent = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Program program = make_program(seed);
    const Pairs races = races_of(program), found = found_in(program, seed);
    for (const Lines& pair : found) {
      EXPECT_TRUE(races.count(pair) == 1) << "no race between lines " << pair.first << " and " << pair.second;
    }
    EXPECT_EQ(found.empty(), races.empty());
    ++(races.empty() ? silent : racing);
  }
  EXPECT_GT(racing, 100u);
  EXPECT_GT(silent, 100u);
}

}  // namespace
}  // namespace stagecraft::emulator::checks
