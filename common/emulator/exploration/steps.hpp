// The steps of a run in which a search decides what goes on, and which of them depend on each other.
//
// A step is the turn of a warp, from one instruction that others can notice to the next, or an event of an asynchronous
// engine. What it touches decides whether it commutes with another one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stagecraft::emulator::exploration {

/// A warp, or an event: that one step. The same in all runs in which it exists.
using Actor = uint64_t;

/// What a step did to one thing that warps share.
struct Touch {
  enum class Space : uint8_t {
    mbarrier,
    named_barrier,
    cluster_barrier,
    exit,
    shared,
    global,
    tensor_memory,
    launches
  };
  enum class Kind : uint8_t {
    read,
    write,     ///< also the initialisation and the end of a barrier, and the exit of a block
    arrive,    ///< or bytes, announced or come
    complete,  ///< an arrival that ended its phase
    wait,      ///< passed
    blocked,   ///< a wait that did not pass: another step follows it when the phase has ended
    poll,      ///< a question whose answer may have been no
  };
  Space space;
  Kind kind;
  uint64_t begin, end;  ///< addresses, or numbers of things
  uint64_t phase = 0;   ///< of a barrier: phases completed before
};

/// Whether the two may change each other's effect if they are swapped.
bool conflict(const Touch& one, const Touch& other);
/// Whether the first, which came earlier, is known to come before the second: in every run that is equivalent.
bool orders(const Touch& earlier, const Touch& later);
/// Whether the later one may come first in another run, where nothing else orders them: not so where it waited for the
/// earlier one.
bool races(const Touch& earlier, const Touch& later);

struct Step {
  static constexpr uint32_t kNone = 0xffffffffu;
  /// Whether it belongs to turns of a warp that have changed nothing (idle_turns.hpp).
  enum class Idle : uint8_t { no, first, next };
  Actor actor = 0;
  std::vector<Actor> enabled;  ///< those that could have gone on instead, and itself
  std::vector<Touch> touches;
  uint32_t after = kNone;          ///< of an event: the step that began it
  uint32_t behind = kNone;         ///< of an event: the one that PTX orders before it
  Idle idle = Idle::no;            ///< known when its last turn has ended
  std::vector<Actor> repeating{};  ///< those that could have gone on and would have changed nothing
};
using Trace = std::vector<Step>;

bool conflict(const Step& one, const Step& other);

/// Text for another process, and back.
std::string text_of(const Trace& trace);
Trace trace_of(const std::string& text);

}  // namespace stagecraft::emulator::exploration
