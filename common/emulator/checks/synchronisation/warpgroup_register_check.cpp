#include "emulator/checks/synchronisation/warpgroup_register_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "emulator/checks/ordering/wording.hpp"

namespace stagecraft::emulator::checks {

using machine::Fragment;
using machine::Kernel;
using machine::WarpgroupRegisters;

namespace {

/// "m64n128k16"
std::string_view shape_of(const Kernel& kernel, uint32_t pc) {
  const machine::OpPlace& place = kernel.places[pc];
  for (const std::string& modifier : place.function->body[place.instruction].modifiers) {
    if (modifier.starts_with("m64n")) return modifier;
  }
  return {};
}

std::string name_of_register(const Kernel& kernel, uint32_t reg) { return kernel.warpgroup_register_names[reg]; }

/// "mul.f32 at gemm.cu:41"
std::string spell_instruction(const ClusterRecord& cluster, uint32_t pc) {
  return cluster.kernel().describe_instruction(pc) + line_of(cluster, pc);
}

}  // namespace

void WarpgroupRegisterCheck::cluster_started(ClusterRecord& cluster) { states_.start(cluster); }

WarpgroupRegisterCheck::Warp& WarpgroupRegisterCheck::warp_of(const ClusterRecord& cluster, const Fragment& fragment) {
  std::vector<Warp>& warps = states_[cluster].warps;
  const uint32_t number = cluster.order().warp_number(fragment);
  if (number >= warps.size()) warps.resize(number + 1);
  Warp& warp = warps[number];
  if (warp.registers.empty()) warp.registers.resize(cluster.kernel().warpgroup_register_names.size());
  return warp;
}

void WarpgroupRegisterCheck::warpgroup_fenced(ClusterRecord& cluster, const Fragment& fragment) {
  ++warp_of(cluster, fragment).fences;
}

void WarpgroupRegisterCheck::warpgroup_waited(ClusterRecord& cluster, const machine::WarpgroupWait& event) {
  Warp& warp = warp_of(cluster, *event.fragment);
  warp.ended = std::max(warp.ended, event.ended);
}

bool WarpgroupRegisterCheck::have_one_shape(const Kernel& kernel, uint32_t one_pc, uint32_t other_pc) {
  if (one_pc == other_pc) return true;
  if (compared_.one != one_pc || compared_.other != other_pc) {
    compared_ = {one_pc, other_pc, shape_of(kernel, one_pc) == shape_of(kernel, other_pc)};
  }
  return compared_.alike;
}

void WarpgroupRegisterCheck::warpgroup_issued(ClusterRecord& cluster, const machine::WarpgroupIssue& event) {
  const Fragment& fragment = *event.fragment;
  const Kernel& kernel = cluster.kernel();
  const WarpgroupRegisters* const uses = kernel.observed[fragment.pc].registers;
  if (uses == nullptr) return;
  Warp& warp = warp_of(cluster, fragment);
  bool silent = false;  // one mistake, one report
  const auto missing = [&](uint32_t reg, const Access& before, const char* what, bool sum) {
    if (silent || before.pc == kNever || before.fences != warp.fences) return;
    silent = true;
    report_missing_fence(cluster, fragment, reg, before, what, sum);
  };
  if (warp.fences == 0) {
    silent = true;
    report_missing_fence(cluster, fragment, 0, {}, "", true);
  }
  for (const uint32_t reg : uses->writes) {
    const Register& state = warp.registers[reg];
    missing(reg, state.written, "writes", true);
    missing(reg, state.read, "reads", true);
    if (!state.is_sum || !have_one_shape(kernel, state.multiplied.pc, fragment.pc)) {
      missing(reg, state.multiplied, state.is_sum ? "adds to" : "reads", true);
    }
  }
  for (const uint32_t reg : uses->reads) {
    const Register& state = warp.registers[reg];
    missing(reg, state.written, "writes", false);
    if (state.is_sum) missing(reg, state.multiplied, "adds to", false);
  }
  if (silent) ++warp.fences;  // as if it were there
  const Access now{fragment.pc, warp.fences};
  for (const uint32_t reg : uses->reads) {
    Register& state = warp.registers[reg];
    state.multiplied = now;
    state.operation = event.number;
    state.is_sum = false;
  }
  for (const uint32_t reg : uses->writes) warp.registers[reg] = {{}, {}, now, event.number, true};
}

void WarpgroupRegisterCheck::warpgroup_registers_used(ClusterRecord& cluster,
                                                      const machine::WarpgroupRegisterUse& event) {
  const WarpgroupRegisters& uses = *cluster.kernel().observed[event.pc].registers;
  Warp& warp = warp_of(cluster, *event.fragment);
  const auto wait_is_missing = [&](uint32_t reg, bool writes) {
    const Register& state = warp.registers[reg];
    if (state.operation <= warp.ended) return;
    report_missing_wait(cluster, event, reg, state, writes);
    warp.ended = state.operation;  // as if it were there
  };
  const Access now{event.pc, warp.fences};
  for (const uint32_t reg : uses.reads) {
    if (warp.registers[reg].is_sum) wait_is_missing(reg, false);
    warp.registers[reg].read = now;
  }
  for (const uint32_t reg : uses.writes) {
    wait_is_missing(reg, true);
    warp.registers[reg] = {now, {}, {}, 0, false};
  }
  for (size_t i = 0; i < uses.copies.size(); ++i) {
    const auto [to, from] = uses.copies[i];
    const Register source = from == WarpgroupRegisters::kConstant ? Register{} : warp.registers[from];
    // Where a register is made of several, the part that was written last counts.
    const bool first = i == 0 || uses.copies[i - 1].to != to;
    const Access& written = warp.registers[to].written;
    if (first || written.pc == kNever || (source.written.pc != kNever && source.written.fences >= written.fences)) {
      warp.registers[to] = source;
    }
  }
}

void WarpgroupRegisterCheck::report_missing_fence(ClusterRecord& cluster, const Fragment& fragment, uint32_t reg,
                                                  const Access& before, const char* what, bool sum) {
  const bool is_first = before.pc == kNever;
  const auto identity = findings_.claim("wgmma fence", is_first ? fragment.pc : before.pc, fragment.pc);
  if (!identity) return;
  const Kernel& kernel = cluster.kernel();
  machine::Diagnostic finding;
  finding.kind = "missing wgmma fence";
  finding.place = place_of(cluster, cluster.order().warp_number(fragment), fragment.mask, fragment.pc);
  const std::string line = line_of(cluster, fragment.pc);
  if (is_first) {
    finding.message = "multiplies before its warp has executed any wgmma.fence";
    finding.details.emplace_back(
        "all four warps of a warpgroup must execute wgmma.fence before their first wgmma.mma_async");
    finding.likely_cause = "execute wgmma.fence.sync.aligned in all four warps before the first wgmma.mma_async" + line;
  } else {
    finding.message = fmt::format("{} {}, which its warp has accessed since the last wgmma.fence",
                                  sum ? "adds to the accumulator" : "reads A from", name_of_register(kernel, reg));
    finding.details.push_back(fmt::format("{} {} it", spell_instruction(cluster, before.pc), what));
    if (sum && kernel.observed[before.pc].registers->multiplies && shape_of(kernel, before.pc) != "") {
      finding.details.push_back(
          fmt::format("only wgmma.mma_async of one shape keep their order without a fence: this "
                      "one is {}, the other {}",
                      shape_of(kernel, fragment.pc), shape_of(kernel, before.pc)));
    }
    finding.details.emplace_back(
        "wgmma.fence orders what threads do with accumulators and with A in registers before the wgmma.mma_async after "
        "it");
    finding.likely_cause =
        fmt::format("execute wgmma.fence.sync.aligned in all four warps after the {}, and before the wgmma.mma_async{}",
                    spell_instruction(cluster, before.pc), line);
  }
  finding.tolerated = "ptxas 13.0 inserts the fence (its message C7519)";
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

void WarpgroupRegisterCheck::report_missing_wait(ClusterRecord& cluster, const machine::WarpgroupRegisterUse& event,
                                                 uint32_t reg, const Register& state, bool writes) {
  const auto identity = findings_.claim("wgmma wait", state.multiplied.pc, event.pc);
  if (!identity) return;
  machine::Diagnostic finding;
  finding.kind = "missing wait";
  finding.place = place_of(cluster, cluster.order().warp_number(*event.fragment), event.lanes, event.pc);
  finding.message =
      fmt::format("{} {}, {} of a wgmma.mma_async for which its warp has not waited", writes ? "writes" : "reads",
                  name_of_register(cluster.kernel(), reg), state.is_sum ? "an accumulator" : "a register with A");
  finding.details.push_back(fmt::format("the wgmma.mma_async was issued{}", line_of(cluster, state.multiplied.pc)));
  finding.details.emplace_back(
      "accumulators and A in registers may be accessed after a wgmma.wait_group that waits for the operation's group");
  finding.likely_cause =
      fmt::format("commit the group (wgmma.commit_group) and wait for it (wgmma.wait_group) before the {}",
                  spell_instruction(cluster, event.pc));
  finding.tolerated = "ptxas 13.0 inserts a wait (its message C7517)";
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

}  // namespace stagecraft::emulator::checks
