#include "emulator/exploration/steps.hpp"

#include <algorithm>
#include <sstream>

namespace stagecraft::emulator::exploration {
namespace {

using Kind = Touch::Kind;

bool is_arrival(const Touch& touch) { return touch.kind == Kind::arrive || touch.kind == Kind::complete; }

bool meet(const Touch& one, const Touch& other) {
  return one.space == other.space && one.begin < other.end && other.begin < one.end;
}

template <typename Relation>
bool any_pair(const std::vector<Touch>& left, const std::vector<Touch>& right, Relation relation) {
  return std::any_of(left.begin(), left.end(), [&](const Touch& a) {
    return std::any_of(right.begin(), right.end(), [&](const Touch& b) { return relation(a, b); });
  });
}

}  // namespace

bool conflict(const Touch& one, const Touch& other) {
  if (!meet(one, other)) return false;
  if (one.kind == Kind::write || other.kind == Kind::write) return true;
  // An arrival that ends the phase leaves another, which could come first, to the phase after it.
  if (is_arrival(one) && is_arrival(other)) return one.phase != other.phase || one.kind != other.kind;
  // An arrival that does not end a phase changes no wait.
  return one.kind == Kind::complete || other.kind == Kind::complete;
}

bool orders(const Touch& earlier, const Touch& later) {
  if (!meet(earlier, later)) return false;
  // Arrivals of one phase commute: the last one ends it, each way.
  if (is_arrival(earlier) && is_arrival(later)) return earlier.phase != later.phase;
  // All arrivals of a phase come before a wait that its end has let pass.
  if (is_arrival(earlier) && later.kind == Kind::wait) return earlier.phase < later.phase;
  if (earlier.kind == Kind::blocked || later.kind == Kind::blocked) {
    return earlier.kind == Kind::write || later.kind == Kind::write;
  }
  return conflict(earlier, later);
}

bool races(const Touch& earlier, const Touch& later) {
  if (is_arrival(earlier) && later.kind == Kind::wait && earlier.phase < later.phase) return false;
  return orders(earlier, later);
}

bool conflict(const Step& one, const Step& other) {
  return any_pair(one.touches, other.touches, [](const Touch& a, const Touch& b) { return conflict(a, b); });
}

std::string text_of(const Trace& trace) {
  std::ostringstream text;
  for (const Step& step : trace) {
    text << step.actor << ' ' << step.after << ' ' << step.behind << ' ' << static_cast<int>(step.idle);
    for (const std::vector<Actor>* actors : {&step.enabled, &step.repeating}) {
      text << ' ' << actors->size();
      for (const Actor actor : *actors) text << ' ' << actor;
    }
    text << ' ' << step.touches.size();
    for (const Touch& touch : step.touches) {
      text << ' ' << static_cast<int>(touch.space) << ' ' << static_cast<int>(touch.kind) << ' ' << touch.begin << ' '
           << touch.end << ' ' << touch.phase;
    }
    text << '\n';
  }
  return text.str();
}

Trace trace_of(const std::string& text) {
  Trace trace;
  std::istringstream words(text);
  Step step;
  size_t count = 0;
  int idle = 0;
  while (words >> step.actor >> step.after >> step.behind >> idle) {
    step.idle = static_cast<Step::Idle>(idle);
    for (std::vector<Actor>* actors : {&step.enabled, &step.repeating}) {
      words >> count;
      actors->resize(count);
      for (Actor& actor : *actors) words >> actor;
    }
    words >> count;
    step.touches.resize(count);
    for (Touch& touch : step.touches) {
      int space = 0, kind = 0;
      words >> space >> kind >> touch.begin >> touch.end >> touch.phase;
      touch.space = static_cast<Touch::Space>(space);
      touch.kind = static_cast<Touch::Kind>(kind);
    }
    trace.push_back(step);
  }
  return trace;
}

}  // namespace stagecraft::emulator::exploration
