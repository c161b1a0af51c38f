#include "emulator/exploration/steps.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

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
  std::string text;
  const auto add = [&](uint64_t number) {
    std::array<char, 20> digits;
    text.append(digits.data(), std::to_chars(digits.begin(), digits.end(), number).ptr);
    text += ' ';
  };
  for (const Step& step : trace) {
    for (const uint64_t each : {step.actor, uint64_t{step.after}, uint64_t{step.behind}}) add(each);
    add(static_cast<uint64_t>(step.idle));
    for (const std::vector<Actor>* actors : {&step.enabled, &step.repeating}) {
      add(actors->size());
      for (const Actor actor : *actors) add(actor);
    }
    add(step.touches.size());
    for (const Touch& touch : step.touches) {
      add(static_cast<uint64_t>(touch.space));
      add(static_cast<uint64_t>(touch.kind));
      for (const uint64_t each : {touch.begin, touch.end, touch.phase}) add(each);
    }
  }
  return text;
}

Trace trace_of(const std::string& text) {
  Trace trace;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto take = [&] {
    uint64_t number = 0;
    at = std::from_chars(at, end, number).ptr + 1;  // and the space
    return number;
  };
  while (at < end) {
    Step step;
    step.actor = take();
    step.after = static_cast<uint32_t>(take());
    step.behind = static_cast<uint32_t>(take());
    step.idle = static_cast<Step::Idle>(take());
    for (std::vector<Actor>* actors : {&step.enabled, &step.repeating}) {
      actors->resize(take());
      for (Actor& actor : *actors) actor = take();
    }
    step.touches.resize(take());
    for (Touch& touch : step.touches) {
      touch.space = static_cast<Touch::Space>(take());
      touch.kind = static_cast<Touch::Kind>(take());
      touch.begin = take();
      touch.end = take();
      touch.phase = take();
    }
    trace.push_back(std::move(step));
  }
  return trace;
}

}  // namespace stagecraft::emulator::exploration
