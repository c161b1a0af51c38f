// What the lanes of a warp get from shfl, vote, match, redux and elect, as the PTX ISA describes it.
#include <bit>

#include "naive_interpreter.hpp"

namespace stagecraft::naive {

namespace {

/// shfl.sync.idx.b32 %d|%p, %a, %b, %c, mask
Exchanged shuffle(const Instruction& instruction, uint32_t lane, const std::vector<uint64_t>& operands,
                  const std::map<uint32_t, uint64_t>& values) {
  const uint32_t b = operands.at(3) & 31, clamp = operands.at(4) & 31, segment = operands.at(4) >> 8 & 31;
  const uint32_t least = lane & segment, most = least | (clamp & ~segment);
  uint32_t from = instruction.has("up")     ? lane - b
                  : instruction.has("down") ? lane + b
                  : instruction.has("bfly") ? lane ^ b
                                            : least | (b & ~segment);
  const bool inside = instruction.has("up") ? static_cast<int32_t>(from) >= static_cast<int32_t>(most) : from <= most;
  if (!inside) from = lane;
  return {values.at(from), inside};
}

}  // namespace

bool is_exchange(const Instruction& instruction) {
  const std::string& name = instruction.name;
  return name == "shfl" || name == "vote" || name == "match" || name == "redux" || name == "elect";
}

size_t exchanged_operand(const Instruction& instruction) {
  const std::string& name = instruction.name;
  const bool has_predicate = name == "shfl" || name == "elect" || (name == "match" && instruction.has("all"));
  return has_predicate ? 2 : 1;
}

Exchanged exchange(const Instruction& instruction, uint32_t lane, const std::vector<uint64_t>& operands,
                   const std::map<uint32_t, uint64_t>& values) {
  if (instruction.name == "shfl") return shuffle(instruction, lane, operands, values);
  if (instruction.name == "elect") return {values.begin()->first, lane == values.begin()->first};
  uint32_t members = 0, truths = 0, alike = 0;
  for (const auto& [each, value] : values) {
    members |= 1u << each;
    truths |= (value != 0 ? 1u : 0u) << each;
    alike |= (value == values.at(lane) ? 1u : 0u) << each;
  }
  if (instruction.name == "vote") {
    const bool all = truths == members;
    return {instruction.has("ballot") ? truths
            : instruction.has("all")  ? all
            : instruction.has("any")  ? truths != 0
                                      : all || truths == 0};
  }
  if (instruction.name == "match" && instruction.has("any")) return {alike};
  if (instruction.name == "match") return {alike == members ? members : 0, alike == members};
  Exchanged made;  // redux: from the first lane on
  for (auto each = values.begin(); each != values.end(); ++each) {
    made.result = each == values.begin() ? each->second : compute(instruction, {made.result, each->second});
  }
  return made;
}

}  // namespace stagecraft::naive
