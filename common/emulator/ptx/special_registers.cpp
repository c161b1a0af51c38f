#include "emulator/ptx/special_registers.hpp"

#include <array>
#include <charconv>
#include <optional>
#include <unordered_map>

namespace stagecraft::emulator::ptx {
namespace {

constexpr std::array<std::string_view, 8> kVectors{"tid",       "ntid",       "ctaid",         "nctaid",
                                                   "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid"};

constexpr std::array<std::string_view, 32> kScalars{"laneid",
                                                    "warpid",
                                                    "nwarpid",
                                                    "smid",
                                                    "nsmid",
                                                    "gridid",
                                                    "is_explicit_cluster",
                                                    "cluster_ctarank",
                                                    "cluster_nctarank",
                                                    "lanemask_eq",
                                                    "lanemask_le",
                                                    "lanemask_lt",
                                                    "lanemask_ge",
                                                    "lanemask_gt",
                                                    "clock",
                                                    "clock_hi",
                                                    "clock64",
                                                    "globaltimer",
                                                    "globaltimer_lo",
                                                    "globaltimer_hi",
                                                    "reserved_smem_offset_begin",
                                                    "reserved_smem_offset_end",
                                                    "reserved_smem_offset_cap",
                                                    "reserved_smem_offset_0",
                                                    "reserved_smem_offset_1",
                                                    "total_smem_size",
                                                    "aggr_smem_size",
                                                    "dynamic_smem_size",
                                                    "current_graph_exec",
                                                    "envreg0",
                                                    "pm0",
                                                    "pm0_64"};

std::unordered_map<std::string_view, SpecialRegister> build_table() {
  std::unordered_map<std::string_view, SpecialRegister> table;
  for (const std::string_view name : kVectors) table.emplace(name, SpecialRegister::vector);
  for (const std::string_view name : kScalars) table.emplace(name, SpecialRegister::scalar);
  return table;
}

/// The number in "pm7" or "envreg31", when it is below `count` and written without leading zeros.
bool is_numbered(std::string_view name, std::string_view stem, uint32_t count) {
  if (!name.starts_with(stem)) return false;
  name.remove_prefix(stem.size());
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() && number < count &&
         (name.size() == 1 || name[0] != '0');
}

}  // namespace

SpecialRegister find_special_register(std::string_view name) {
  static const std::unordered_map<std::string_view, SpecialRegister> table = build_table();
  if (const auto found = table.find(name); found != table.end()) return found->second;
  if (is_numbered(name, "envreg", 32) || is_numbered(name, "pm", 8)) return SpecialRegister::scalar;
  if (name.ends_with("_64") && is_numbered(name.substr(0, name.size() - 3), "pm", 8)) return SpecialRegister::scalar;
  return SpecialRegister::unknown;
}

const std::vector<std::string_view>& special_register_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all(kVectors.begin(), kVectors.end());
    all.insert(all.end(), kScalars.begin(), kScalars.end());
    return all;
  }();
  return names;
}

}  // namespace stagecraft::emulator::ptx
