#include "emulator/ptx/special_registers.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_map>

namespace stagecraft::emulator::ptx {
namespace {

constexpr SpecialRegister kSpecialRegisters[] = {
    // The fourth element of the vectors is a zero, which PTX keeps for old programs.
    {"tid.x", Special::tid_x, true},
    {"tid.y", Special::tid_y, true},
    {"tid.z", Special::tid_z, true},
    {"tid.w", Special::zero, true},
    {"ntid.x", Special::ntid_x, true},
    {"ntid.y", Special::ntid_y, true},
    {"ntid.z", Special::ntid_z, true},
    {"ntid.w", Special::zero, true},
    {"ctaid.x", Special::ctaid_x, true},
    {"ctaid.y", Special::ctaid_y, true},
    {"ctaid.z", Special::ctaid_z, true},
    {"ctaid.w", Special::zero, true},
    {"nctaid.x", Special::nctaid_x, true},
    {"nctaid.y", Special::nctaid_y, true},
    {"nctaid.z", Special::nctaid_z, true},
    {"nctaid.w", Special::zero, true},
    {"clusterid.x", Special::clusterid_x, true},
    {"clusterid.y", Special::clusterid_y, true},
    {"clusterid.z", Special::clusterid_z, true},
    {"clusterid.w", Special::zero, true},
    {"nclusterid.x", Special::nclusterid_x, true},
    {"nclusterid.y", Special::nclusterid_y, true},
    {"nclusterid.z", Special::nclusterid_z, true},
    {"nclusterid.w", Special::zero, true},
    {"cluster_ctaid.x", Special::cluster_ctaid_x, true},
    {"cluster_ctaid.y", Special::cluster_ctaid_y, true},
    {"cluster_ctaid.z", Special::cluster_ctaid_z, true},
    {"cluster_ctaid.w", Special::zero, true},
    {"cluster_nctaid.x", Special::cluster_nctaid_x, true},
    {"cluster_nctaid.y", Special::cluster_nctaid_y, true},
    {"cluster_nctaid.z", Special::cluster_nctaid_z, true},
    {"cluster_nctaid.w", Special::zero, true},
    {"laneid", Special::laneid, true},
    {"warpid", Special::warpid, true},
    {"nwarpid", Special::nwarpid, true},
    {"smid", Special::smid},
    {"nsmid", Special::nsmid, true},
    {"gridid", Special::gridid, true, 64},
    {"is_explicit_cluster", Special::is_explicit_cluster, true},
    {"cluster_ctarank", Special::cluster_ctarank, true},
    {"cluster_nctarank", Special::cluster_nctarank, true},
    {"lanemask_eq", Special::lanemask_eq, true},
    {"lanemask_le", Special::lanemask_le, true},
    {"lanemask_lt", Special::lanemask_lt, true},
    {"lanemask_ge", Special::lanemask_ge, true},
    {"lanemask_gt", Special::lanemask_gt, true},
    {"clock", Special::clock},
    {"clock_hi", Special::clock_high},
    {"clock64", Special::clock64, false, 64},
    {"globaltimer", Special::globaltimer, false, 64},
    {"globaltimer_lo", Special::globaltimer_low},
    {"globaltimer_hi", Special::globaltimer_high},
    {"reserved_smem_offset_begin", Special::zero, true},
    {"reserved_smem_offset_end", Special::reserved_smem_offset, true},
    {"reserved_smem_offset_cap", Special::reserved_smem_offset, true},
    {"reserved_smem_offset_0", Special::none},
    {"reserved_smem_offset_1", Special::reserved_scratch, true},
    {"total_smem_size", Special::total_smem_size, true},
    {"aggr_smem_size", Special::aggr_smem_size, true},
    {"dynamic_smem_size", Special::dynamic_smem_size, true},
    {"current_graph_exec", Special::none},
    // cooperative_groups/details/driver_abi.h, get_grid_workspace. What the others hold is not documented.
    {"envreg0", Special::none},
    {"envreg1", Special::workspace_high, true},
    {"envreg2", Special::workspace_low, true},
    {"envreg3", Special::none},
    {"envreg4", Special::none},
    {"envreg5", Special::none},
    {"envreg6", Special::none},
    {"envreg7", Special::none},
    {"envreg8", Special::none},
    {"envreg9", Special::none},
    {"envreg10", Special::none},
    {"envreg11", Special::none},
    {"envreg12", Special::none},
    {"envreg13", Special::none},
    {"envreg14", Special::none},
    {"envreg15", Special::none},
    {"envreg16", Special::none},
    {"envreg17", Special::none},
    {"envreg18", Special::none},
    {"envreg19", Special::none},
    {"envreg20", Special::none},
    {"envreg21", Special::none},
    {"envreg22", Special::none},
    {"envreg23", Special::none},
    {"envreg24", Special::none},
    {"envreg25", Special::none},
    {"envreg26", Special::none},
    {"envreg27", Special::none},
    {"envreg28", Special::none},
    {"envreg29", Special::none},
    {"envreg30", Special::none},
    {"envreg31", Special::none},
    {"pm0", Special::none},
    {"pm1", Special::none},
    {"pm2", Special::none},
    {"pm3", Special::none},
    {"pm4", Special::none},
    {"pm5", Special::none},
    {"pm6", Special::none},
    {"pm7", Special::none},
    {"pm0_64", Special::none, false, 64},
    {"pm1_64", Special::none, false, 64},
    {"pm2_64", Special::none, false, 64},
    {"pm3_64", Special::none, false, 64},
    {"pm4_64", Special::none, false, 64},
    {"pm5_64", Special::none, false, 64},
    {"pm6_64", Special::none, false, 64},
    {"pm7_64", Special::none, false, 64},
};

std::string_view stem_of(std::string_view name) { return name.substr(0, name.find('.')); }

}  // namespace

std::span<const SpecialRegister> special_registers() { return kSpecialRegisters; }

const SpecialRegister* find_special_register(std::string_view name) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const SpecialRegister*> by_name;
    for (const SpecialRegister& known : kSpecialRegisters) by_name.emplace(known.name, &known);
    return by_name;
  }();
  const auto found = table.find(name);
  return found != table.end() ? found->second : nullptr;
}

SpecialForm special_form(std::string_view stem) {
  if (find_special_register(stem) != nullptr) return SpecialForm::scalar;
  return find_special_register(std::string(stem) + ".x") != nullptr ? SpecialForm::vector : SpecialForm::unknown;
}

const std::vector<std::string_view>& special_register_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const SpecialRegister& known : kSpecialRegisters) {
      const std::string_view stem = stem_of(known.name);
      if (all.empty() || all.back() != stem) all.push_back(stem);
    }
    return all;
  }();
  return names;
}

}  // namespace stagecraft::emulator::ptx
