#include "emulator/fatbin/selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <tuple>

namespace stagecraft::emulator::fatbin {
namespace {

uint32_t sm_of(const machine::Architecture& architecture) { return architecture.major * 10 + architecture.minor; }

/// The targets of the entries, such as "sm_80, sm_90a", each once.
std::string list_targets(const std::vector<Entry>& entries, EntryKind kind) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) {
    std::string name = entry.target.name();
    if (entry.kind == kind && std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(std::move(name));
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string gencode_option(const machine::Architecture& architecture) {
  const std::string number = architecture.target.substr(architecture.target.find('_') + 1);
  // Not PTX alone, because nvlink, which links a program built with -rdc=true, refuses that: "specified arch exceeds
  // buffer length".
  return fmt::format("-gencode \"arch=compute_{0},code=[sm_{0},compute_{0}]\"", number);
}

std::optional<Target> parse_target(std::string_view name) {
  constexpr std::string_view kPrefix = "sm_";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  Target target;
  if (name.ends_with('a')) target.kind = TargetKind::exact;
  if (name.ends_with('f')) target.kind = TargetKind::family;
  if (target.kind != TargetKind::generic) name.remove_suffix(1);
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), target.sm);
  if (error != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return target;
}

bool runs_on(const Target& target, const machine::Architecture& architecture) {
  const uint32_t chip = sm_of(architecture);
  switch (target.kind) {
    case TargetKind::exact: return target.sm == chip;
    case TargetKind::family: return target.sm / 10 == chip / 10 && target.sm <= chip;
    case TargetKind::generic: return target.sm <= chip;
  }
  return false;
}

std::vector<Target> ptx_targets(const std::vector<Entry>& entries) {
  std::vector<Target> targets;
  for (const Entry& entry : entries) {
    if (entry.kind == EntryKind::ptx) targets.push_back(entry.target);
  }
  return targets;
}

const machine::Architecture& choose_chip(std::span<const std::vector<Target>> images) {
  const machine::Architecture& b200 = machine::b200();
  const auto any_runs_on = [](const std::vector<Target>& targets, const machine::Architecture& chip) {
    return std::any_of(targets.begin(), targets.end(), [&](const Target& target) { return runs_on(target, chip); });
  };
  const machine::Architecture* other = nullptr;
  for (const std::vector<Target>& targets : images) {
    for (const Target& target : targets) {
      if (runs_on(target, b200) && !runs_on(target, machine::h200())) return b200;
    }
    if (other != nullptr || any_runs_on(targets, b200)) continue;
    for (const std::string& name : machine::architecture_names()) {
      const machine::Architecture& chip = *machine::find_architecture(name);
      if (other == nullptr && any_runs_on(targets, chip)) other = &chip;
    }
  }
  return other == nullptr ? b200 : *other;
}

std::string advise_other_chip(std::span<const Target> targets, const machine::Architecture& architecture) {
  for (const std::string& name : machine::architecture_names()) {
    const machine::Architecture& chip = *machine::find_architecture(name);
    if (&chip == &architecture) continue;
    for (const Target& target : targets) {
      if (runs_on(target, chip)) {
        return fmt::format("run it on the {0}, with --device {1} or STAGECRAFT_DEVICE={1}", chip.name, name);
      }
    }
  }
  return {};
}

const Entry& choose_ptx(const std::vector<Entry>& entries, const machine::Architecture& architecture) {
  const Entry* best = nullptr;
  const auto closeness = [](const Entry& entry) { return std::tuple(entry.target.kind, entry.target.sm); };
  for (const Entry& entry : entries) {
    if (entry.kind != EntryKind::ptx || !runs_on(entry.target, architecture)) continue;
    if (best == nullptr || closeness(entry) > closeness(*best)) best = &entry;
  }
  if (best != nullptr) return *best;

  const std::string found = list_targets(entries, EntryKind::ptx);
  const std::string machine_code = list_targets(entries, EntryKind::elf);
  if (!found.empty()) {
    const std::vector<Target> targets = ptx_targets(entries);
    const std::string advice = advise_other_chip(targets, architecture);
    throw Error(
        ErrorKind::no_suitable_image,
        fmt::format("the program holds PTX for {}, but the {} runs {}; {}{}rebuild with {}", found, architecture.name,
                    architecture.target, advice, advice.empty() ? "" : ", or ", gencode_option(architecture)));
  }
  if (!machine_code.empty()) {
    throw Error(
        ErrorKind::no_suitable_image,
        fmt::format("the program holds machine code for {} but no PTX, and PTX is what the {} runs; rebuild with {}",
                    machine_code, architecture.name, gencode_option(architecture)));
  }
  throw Error(
      ErrorKind::no_suitable_image,
      fmt::format("the program holds neither PTX nor machine code; rebuild with {}", gencode_option(architecture)));
}

const Entry* choose_elf(const std::vector<Entry>& entries, const machine::Architecture& architecture) {
  const std::optional<Target> chip = parse_target(architecture.target);
  const Entry* best = nullptr;
  for (const Entry& entry : entries) {
    if (entry.kind != EntryKind::elf || !chip || entry.target.sm != chip->sm) continue;
    if (best == nullptr || entry.target.kind > best->target.kind) best = &entry;
  }
  return best;
}

}  // namespace stagecraft::emulator::fatbin
