// clusterlaunchcontrol: a running cluster requests the work of one that has not started, and reads whether it got it.
//
// PTX leaves open which cluster is cancelled; here it is the next in launch order when the request completes, which
// takes as long as a bulk copy. A request fails when all have started.
//
// In a launch with preferred clusters PTX leaves open, too, of which shape the cancelled cluster is. Here it has the
// shape of the cluster that requests: CUTLASS relies on that (sm100_tile_scheduler.hpp adds a block's place in its own
// cluster to the cancelled cluster's first block; example 73 runs it with preferred clusters).
#include "emulator/engines/cluster_launch/cluster_launch.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "emulator/engines/copies/bulk_engine.hpp"
#include "emulator/state/fragments.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/translation/function_translator.hpp"

namespace stagecraft::emulator::machine {

using ptx::Type;

namespace {

constexpr const char* kTryCancel = "clusterlaunchcontrol.try_cancel";

/// The response that a request writes to shared memory. It is opaque in PTX; its fields are where ptxas's code reads
/// them (sm_100a).
struct Response {
  std::array<uint32_t, 4> words{};

  static Response success(const Extent3& first_block) {
    return {{first_block.x, first_block.y | first_block.z << 16, 1, 0}};
  }
  /// The coordinates are undefined; these are such that no program works with them by luck.
  static Response failure() { return {{0xffffffff, 0xffffffff, 0, 0}}; }

  bool is_canceled() const { return (words[2] & 1) != 0; }
  std::array<uint32_t, 4> first_block() const { return {words[0], words[1] & 0xffff, words[1] >> 16, 0}; }
};
constexpr uint32_t kResponseBytes = sizeof(Response);
static_assert(kResponseBytes == 16);

struct RequestDetail : OpDetail {
  SharedOperand response, barrier;
  bool for_all = false;  ///< .multicast::cluster::all
};

std::vector<BulkTarget> targets_of(Fragment& fragment, uint32_t lane, const RequestDetail& detail) {
  Block& block = fragment.block();
  constexpr const char *kResponse = "clusterlaunchcontrol.try_cancel: response",
                       *kBarrier = "clusterlaunchcontrol.try_cancel: mbarrier";
  const uint32_t data = detail.response.at(fragment, lane, kResponse);
  const uint32_t barrier = detail.barrier.at(fragment, lane, kBarrier);
  block_in_scope(block, data, kResponseBytes, kResponseBytes, detail.response.scope, kResponse);
  block_in_scope(block, barrier, 8, 8, detail.barrier.scope, kBarrier);
  if (!detail.for_all) return {{data, barrier}};
  std::vector<BulkTarget> targets;
  for (const auto& each : block.cluster->blocks) {
    const BulkTarget target{each->shared_base() | (data & kSharedOffsetMask),
                            each->shared_base() | (barrier & kSharedOffsetMask)};
    block_with(*block.cluster, target.data, kResponseBytes, kResponseBytes, kResponse);
    targets.push_back(target);
  }
  return targets;
}

Outcome request(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const RequestDetail*>(op.detail);
  note_effect(fragment);
  issue_lanes(mask, [&](uint32_t lane) {
    if (fragment.block().has_seen_no_cluster_left) {
      throw Fault(FaultKind::illegal_instruction, fmt::format("{} after the block has seen a request fail", kTryCancel),
                  {"nothing is left to be taken over: PTX does not define what another request does",
                   "end the loop when query_cancel.is_canceled gives false"});
    }
    Cluster* const cluster = &fragment.cluster();
    // PTX's example of try_cancel has a proxy fence between the read of a response and the request that overwrites it.
    const DeliveryNotes notes{
        .lane = lane, .footprint = SharedFootprint::whole(kResponseBytes), .needs_fence_after_reads = true};
    // All blocks of the cluster get one answer.
    const auto response = std::make_shared<std::optional<Response>>();
    schedule_delivery(fragment, targets_of(fragment, lane, detail), kResponseBytes, kTryCancel, notes,
                      [cluster, response](const BulkTarget& target) {
                        if (!*response) {
                          const auto taken = take_cluster_of_shape(*cluster->grid, cluster->shape);
                          *response = taken ? Response::success(*taken) : Response::failure();
                        }
                        Block& block = block_with(*cluster, target.data, kResponseBytes, kResponseBytes, kTryCancel);
                        std::memcpy(bytes_of(block, target.data), &**response, kResponseBytes);
                      });
  });
  return Outcome::next;
}

struct QueryDetail : OpDetail {
  RegisterOffset response = kNoRegister;
  RegisterOffset canceled = kNoRegister;  ///< a predicate
  std::array<RegisterOffset, 4> coordinates{kNoRegister, kNoRegister, kNoRegister, kNoRegister};

  Response at(const Fragment& fragment, uint32_t lane) const {
    Response found;
    std::memcpy(&found, fragment.registers + response + size_t{lane} * kResponseBytes, kResponseBytes);
    return found;
  }
};

Outcome ask_whether_canceled(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const QueryDetail*>(op.detail);
  LaneMask canceled = 0;
  for_each_lane(
      mask, [&](uint32_t lane) { canceled |= static_cast<LaneMask>(detail.at(fragment, lane).is_canceled()) << lane; });
  if (canceled != mask) fragment.block().has_seen_no_cluster_left = true;
  auto& result = *lanes_at<LaneMask>(fragment.registers, detail.canceled);
  result = (result & ~mask) | canceled;
  return Outcome::next;
}

Outcome get_first_block(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const QueryDetail*>(op.detail);
  for_each_lane(mask, [&](uint32_t lane) {
    const std::array<uint32_t, 4> coordinates = detail.at(fragment, lane).first_block();
    for (size_t i = 0; i < coordinates.size(); ++i) {
      if (detail.coordinates[i] == kNoRegister) continue;
      lanes_at<uint32_t>(fragment.registers, detail.coordinates[i])[lane] = coordinates[i];
    }
  });
  return Outcome::next;
}

void translate_request(Translation& t) {
  t.modifiers.require("async");
  const bool own = t.modifiers.take("shared::cta") || t.modifiers.take("shared");
  t.modifiers.require("mbarrier::complete_tx::bytes");
  t.modifiers.require("b128");
  auto detail = std::make_unique<RequestDetail>();
  detail->for_all = t.modifiers.take("multicast::cluster::all");
  if (t.operand_count() != 2) t.illegal("it has two operands: where the response goes, and an mbarrier");
  const SharedScope scope = own ? SharedScope::block : SharedScope::generic;
  detail->response = shared_operand(t, t.operand(0), scope);
  detail->barrier = shared_operand(t, t.operand(1), scope);
  t.function().kernel().takes_over_clusters = true;
  t.emit(request).detail = t.keep(std::move(detail));
}

void translate_query(Translation& t) {
  auto detail = std::make_unique<QueryDetail>();
  const bool asks = t.modifiers.take("is_canceled");
  const auto one =
      asks ? std::nullopt : t.modifiers.take_one_of({"get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z"});
  if (asks) {
    t.modifiers.require("pred");
    detail->canceled = t.destination(0, Type::pred);
  } else if (one) {
    t.modifiers.require("b32");
    detail->coordinates[static_cast<size_t>(one->back() - 'x')] = t.destination(0, Type::b32);
  } else {
    t.modifiers.require("get_first_ctaid");
    t.modifiers.require("v4");
    t.modifiers.require("b32");
    const std::vector<ptx::Operand>& places = t.operand(0).list;
    if (t.operand(0).kind != ptx::OperandKind::vector || places.size() != 4) {
      t.illegal("get_first_ctaid.v4 gives four values: {x, y, z, _}");
    }
    for (size_t i = 0; i < 4; ++i) detail->coordinates[i] = t.destination(places[i], Type::b32);
  }
  t.modifiers.require("b128");
  detail->response = t.source(1, Type::b128);
  t.emit(asks ? ask_whether_canceled : get_first_block).detail = t.keep(std::move(detail));
}

void translate_cluster_launch(Translation& t) {
  require_sm_100(t, "clusterlaunchcontrol");
  if (t.modifiers.take("try_cancel")) return translate_request(t);
  if (t.modifiers.take("query_cancel")) return translate_query(t);
  t.unsupported("no such instruction; there are clusterlaunchcontrol.try_cancel and query_cancel");
}

}  // namespace

void add_cluster_launch(InstructionSet& set) {
  set.add("clusterlaunchcontrol", translate_cluster_launch,
          {.reach = Reach::other_clusters, .proxy = Proxy::async, .takes_over_clusters = true},
          InstructionClass::barrier);
}

}  // namespace stagecraft::emulator::machine
