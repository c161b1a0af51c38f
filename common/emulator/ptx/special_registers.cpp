#include "emulator/ptx/special_registers.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_map>

namespace stagecraft::emulator::ptx {
namespace {

constexpr SpecialRegister kSpecialRegisters[] = {
    // The fourth element of the vectors is a zero, which PTX keeps for old programs.
    {"tid.x", Special::tid_x},
    {"tid.y", Special::tid_y},
    {"tid.z", Special::tid_z},
    {"tid.w", Special::zero},
    {"ntid.x", Special::ntid_x},
    {"ntid.y", Special::ntid_y},
    {"ntid.z", Special::ntid_z},
    {"ntid.w", Special::zero},
    {"ctaid.x", Special::ctaid_x},
    {"ctaid.y", Special::ctaid_y},
    {"ctaid.z", Special::ctaid_z},
    {"ctaid.w", Special::zero},
    {"nctaid.x", Special::nctaid_x},
    {"nctaid.y", Special::nctaid_y},
    {"nctaid.z", Special::nctaid_z},
    {"nctaid.w", Special::zero},
    {"clusterid.x", Special::clusterid_x},
    {"clusterid.y", Special::clusterid_y},
    {"clusterid.z", Special::clusterid_z},
    {"clusterid.w", Special::zero},
    {"nclusterid.x", Special::nclusterid_x},
    {"nclusterid.y", Special::nclusterid_y},
    {"nclusterid.z", Special::nclusterid_z},
    {"nclusterid.w", Special::zero},
    {"cluster_ctaid.x", Special::cluster_ctaid_x},
    {"cluster_ctaid.y", Special::cluster_ctaid_y},
    {"cluster_ctaid.z", Special::cluster_ctaid_z},
    {"cluster_ctaid.w", Special::zero},
    {"cluster_nctaid.x", Special::cluster_nctaid_x},
    {"cluster_nctaid.y", Special::cluster_nctaid_y},
    {"cluster_nctaid.z", Special::cluster_nctaid_z},
    {"cluster_nctaid.w", Special::zero},
    {"laneid", Special::laneid},
    {"warpid", Special::warpid},
    {"nwarpid", Special::nwarpid},
    {"smid", Special::smid, true},
    {"nsmid", Special::nsmid},
    {"gridid", Special::gridid},
    {"is_explicit_cluster", Special::is_explicit_cluster},
    {"cluster_ctarank", Special::cluster_ctarank},
    {"cluster_nctarank", Special::cluster_nctarank},
    {"lanemask_eq", Special::lanemask_eq},
    {"lanemask_le", Special::lanemask_le},
    {"lanemask_lt", Special::lanemask_lt},
    {"lanemask_ge", Special::lanemask_ge},
    {"lanemask_gt", Special::lanemask_gt},
    {"clock", Special::clock, true},
    {"clock_hi", Special::clock_high, true},
    {"clock64", Special::clock64, true},
    {"globaltimer", Special::globaltimer, true},
    {"globaltimer_lo", Special::globaltimer_low, true},
    {"globaltimer_hi", Special::globaltimer_high, true},
    {"reserved_smem_offset_begin", Special::zero},
    {"reserved_smem_offset_end", Special::reserved_smem_offset},
    {"reserved_smem_offset_cap", Special::reserved_smem_offset},
    {"reserved_smem_offset_0", Special::none},
    {"reserved_smem_offset_1", Special::reserved_scratch},
    {"total_smem_size", Special::total_smem_size},
    {"aggr_smem_size", Special::aggr_smem_size},
    {"dynamic_smem_size", Special::dynamic_smem_size},
    {"current_graph_exec", Special::none},
    // cooperative_groups/details/driver_abi.h, get_grid_workspace. What the others hold is not documented.
    {"envreg0", Special::none},
    {"envreg1", Special::workspace_high},
    {"envreg2", Special::workspace_low},
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
    {"pm0_64", Special::none},
    {"pm1_64", Special::none},
    {"pm2_64", Special::none},
    {"pm3_64", Special::none},
    {"pm4_64", Special::none},
    {"pm5_64", Special::none},
    {"pm6_64", Special::none},
    {"pm7_64", Special::none},
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
