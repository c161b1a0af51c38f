#include "emulator/checks/initialisation/stale_operand_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "emulator/checks/causes/brought_bytes.hpp"
#include "emulator/checks/ordering/wording.hpp"

namespace stagecraft::emulator::checks {

using machine::AsyncCompletion;
using machine::AsyncOperation;

namespace {

constexpr uint64_t kNothing = 0xcbf29ce484222325;  // FNV-1a

uint64_t mix(uint64_t hash, uint64_t value) { return (hash ^ value) * 0x100000001b3; }

size_t end_of(const AsyncOperation& product, size_t matrix) {
  return matrix + 1 < product.matrices.size() ? product.matrices[matrix + 1].first : product.reads.size();
}

/// What a product multiplies, as a number.
uint64_t operands_of(const AsyncOperation& product) {
  uint64_t hash = mix(mix(kNothing, product.product.m), uint64_t{product.product.n} << 32 | product.product.k);
  for (size_t i = 0; i < product.matrices.size(); ++i) {
    const machine::MatrixRead& matrix = product.matrices[i];
    const size_t end = end_of(product, i);
    if (matrix.first >= end) continue;
    hash = mix(hash, uint64_t{product.reads[matrix.first].address} << 32 | product.reads[end - 1].address);
    hash = mix(hash,
               uint64_t{matrix.start} << 32 | uint64_t{matrix.base_offset} << 8 | static_cast<uint8_t>(matrix.layout));
  }
  for (const machine::TensorRange& range : product.tensor_reads) hash = mix(hash, range.column);
  return hash;
}

/// Its accumulator, as a number.
uint64_t sum_of(const ClusterRecord& cluster, const AsyncOperation& product) {
  const machine::Fragment& fragment = *product.fragment;
  if (!product.tensor_writes.empty()) {
    const machine::TensorRange& range = product.tensor_writes.front();
    return uint64_t{fragment.block().rank} << 32 | uint64_t{range.column} << 8 | (range.lanes & 0xff);
  }
  return uint64_t{1} << 63 | uint64_t{cluster.order().warp_number(fragment) / 4} << 32 | product.product.registers;
}

}  // namespace

void StaleOperandCheck::operation_issued(ClusterRecord& cluster, const IssuedOperation& issued) {
  const AsyncOperation& product = issued.event;
  if (product.product.m == 0) return;
  State& state = states_[cluster];
  std::optional<Repeat> repeat;
  if (product.product.a_in_shared) {
    const auto [last, fresh] = state.products.try_emplace(operands_of(product), issued.index);
    if (!fresh) repeat = find_repeat(cluster, issued, std::exchange(last->second, issued.index));
  }
  Sum& sum = state.sums[sum_of(cluster, product)];
  if (!product.accumulates) sum = {};
  if (!repeat) sum.has_others = true;
  if (repeat && !sum.repeat) sum.repeat = repeat;
  if (!sum.has_others || !sum.repeat) return;
  report(cluster, *sum.repeat);
  sum.repeat.reset();
}

/// Returns what is to be reported if the product is one of a sum with others.
/// @param before  the last product of the same operands
std::optional<StaleOperandCheck::Repeat> StaleOperandCheck::find_repeat(const ClusterRecord& cluster,
                                                                        const IssuedOperation& issued,
                                                                        uint32_t before) {
  const AsyncOperation& product = issued.event;
  const ClusterOrder& order = cluster.order();
  std::vector<std::pair<uint32_t, Time>> phases;  // barriers, and the last phase of each that brought some of it
  bool same = true;
  const auto look_at = [&](const machine::SharedRange& range, uint32_t bytes) {
    const uint32_t rank = range.address >> machine::kSharedRankShift;
    if (rank >= cluster.memory.size()) return false;
    const uint32_t offset = range.address & machine::kSharedOffsetMask;
    cluster.memory[rank].for_each_write(offset, bytes, [&](const PastAccess& write, uint32_t) {
      same = same && write.is_asynchronous() && write.operation() < before;
      if (!same) return;
      const Operation& copy = order.operation(write.operation());
      same = copy.completion == AsyncCompletion::mbarrier && copy.time != 0;
      const auto known =
          std::find_if(phases.begin(), phases.end(), [&](const auto& phase) { return phase.first == copy.barrier; });
      if (known == phases.end()) {
        phases.emplace_back(copy.barrier, copy.time - 1);
      } else {
        known->second = std::max(known->second, copy.time - 1);
      }
    });
    return same;
  };
  // Mostly the first byte of A or of B is new.
  for (const machine::MatrixRead& matrix : product.matrices) {
    if (matrix.first < product.reads.size() && !look_at(product.reads[matrix.first], 1)) return std::nullopt;
  }
  for (const machine::SharedRange& range : product.reads) {
    if (!look_at(range, range.bytes)) return std::nullopt;
  }
  const uint32_t warp = order.warp_number(*product.fragment);
  const VectorClock& known = issued.together ? *issued.together : *order.known(warp, product.lane);
  const PastAccess first{.agent = PastAccess::kAsynchronous | before};
  for (const auto& [index, phase] : phases) {
    const BarrierOrder& barrier = order.barrier(index);
    const Time ended = known.at(barrier.component);
    if (ended < phase + 2 || !order.knows_of_all(first, *barrier.completed)) continue;
    Repeat repeat{issued.index, before, index, phase, ended - 1};
    repeat.brought = barrier.phases.has(ended - 1, PhaseNote::Kind::bytes);
    const bool was_regular = phase > 0 && ended == phase + 2 && barrier.phases.has(phase, PhaseNote::Kind::bytes) &&
                             barrier.phases.has(phase - 1, PhaseNote::Kind::bytes);
    if (!repeat.brought && !was_regular) continue;
    for (const machine::MatrixRead& matrix : product.matrices) {
      if (matrix.first >= product.reads.size()) continue;
      (*matrix.name == 'A' ? repeat.a : repeat.b) = product.reads[matrix.first].address & machine::kSharedOffsetMask;
    }
    return repeat;
  }
  return std::nullopt;
}

void StaleOperandCheck::report(const ClusterRecord& cluster, const Repeat& repeat) {
  const ClusterOrder& order = cluster.order();
  const Operation &now = order.operation(repeat.operation), &before = order.operation(repeat.before);
  auto identity = findings_.claim("stale operand", now.pc, now.pc);
  if (!identity) return;
  const BarrierOrder& barrier = order.barrier(repeat.barrier);
  const machine::Kernel& kernel = cluster.kernel();
  const std::string name = name_of(cluster, barrier);
  machine::Diagnostic finding;
  finding.kind = "stale operand";
  finding.subject = variable_of(kernel.name_of_shared_byte(repeat.a));
  finding.place = place_of(cluster, now.warp, 1u << now.lane, now.pc);
  finding.message = fmt::format(
      "the {} issued here adds a product for the second time: its A, from {} in shared memory on, and its B, from {} "
      "on, are still the bytes of phase {} of {}",
      now.what, kernel.name_of_shared_byte(repeat.a), kernel.name_of_shared_byte(repeat.b), repeat.phase, name);
  const auto& waits = order.warp(now.warp).waits;
  const auto wait = waits.find(repeat.barrier);
  const std::string waited = wait != waits.end() && wait->second.phases == repeat.latest + 1
                                 ? fmt::format(", awaited{}", line_of(cluster, wait->second.pc))
                                 : std::string();
  if (repeat.brought) {
    const std::vector<BroughtRange> ranges = brought_in(cluster, repeat.barrier, repeat.latest);
    std::string brought = spell_brought(cluster, ranges);
    if (brought.empty()) brought = barrier.phases.describe_bytes(repeat.latest, kernel);
    if (brought.empty()) brought = "other bytes";
    finding.details.push_back(fmt::format("the copies of phase {}{}{} brought {}, and none of that", repeat.latest,
                                          waited, waited.empty() ? "" : ",", brought));
  } else {
    const std::string by = barrier.phases.describe_arrivals(repeat.latest, kernel);
    finding.details.push_back(
        fmt::format("no copy brought anything in phase {}{}{}", repeat.latest, waited,
                    by.empty() ? std::string() : fmt::format("{} which {} ended", waited.empty() ? "" : ",", by)));
  }
  finding.details.push_back(fmt::format("the {}{} has multiplied them, and the slot was handed back since", before.what,
                                        line_of(cluster, before.pc)));
  finding.likely_cause =
      repeat.brought
          ? "multiply as many tiles as this round's copies have brought: is the last group taken for a full one, or do "
            "copies of this round go to another slot?"
          : "the producer has ended, or skipped, a round that the consumer takes: do the two count the same rounds?";
  findings_.add(cluster.cluster(), std::move(*identity), std::move(finding));
}

}  // namespace stagecraft::emulator::checks
